//! AWS's cubic send rate.

use crate::quota::Quota;
use crate::sync::Field;
use crate::throttle::pacing::length::Length;
use crate::throttle::pacing::{Hints, Moment, Strategy};
use core::time::Duration;

/// The word `learned` of a cubic rate.
///
/// ```text
///  63   48 47     32 31    18 17   10 9    0
/// | W_MAX | MEASURED | LOWERED | BUCKET | COUNT |
/// ```
///
/// | field | bits | |
/// |---|---|---|
/// | COUNT | 10 | the responses since MEASURED was computed |
/// | BUCKET | 8 | when MEASURED was computed, in buckets; wraps, so after a rest the first measurement may be of too short a time |
/// | LOWERED | 14 | when the rate was lowered, in 16ths of a second; held at 512 s ago |
/// | MEASURED | 16 | the rate of responses, smoothed, as [`short`] has it |
/// | W_MAX | 16 | the rate at the last rejection, likewise; 0 before the first |
const COUNT: Field = Field::lowest(10);
const BUCKET: Field = COUNT.then(8);
const LOWERED: Field = BUCKET.then(14);
const MEASURED: Field = LOWERED.then(16);
const W_MAX: Field = MEASURED.then(16);
const _: () = assert!(W_MAX.end() == u64::BITS, "fields must tile the word");

/// AWS's constants.
///
/// The part of the rate that a rejection leaves, the scale of the curve, the weight of the newest measurement, and the lowest
/// rate.
const BETA: f64 = 0.7;
const SCALE: f64 = 0.4;
const SMOOTH: f64 = 0.8;
const LOWEST: f64 = 0.5;

/// The microseconds of a bucket, and the calls that it has room for at the quota's rate.
const BUCKET_MICROS: u64 = 500_000;
const BUCKET_CALLS: u64 = 512;

/// The units of LOWERED in a second, and the greatest age that it can have.
const UNITS: u64 = 16;
const LONGEST_AGO: u64 = 1 << 13;

const SECOND: u64 = 1_000_000;

/// The places of calls are in 16ths of a microsecond, and at most a day ahead.
const PLACES: u64 = 16;
const FURTHEST: i64 = (24 * 60 * 60 * SECOND * PLACES) as i64;

/// Limits the rate of calls, after the adaptive retry mode of AWS's SDKs.
///
/// A rejection lowers the rate to 0.7 of the rate at which calls were sent, and successes raise it again, by a cubic curve over
/// time.
///
/// The rate of all threads together is `0.4 · (t − K)³ + w` calls a second, where `t` is the time since the last rejection in
/// seconds, `w` the rate at that rejection, and `K = ∛(0.75 · w)`. It is at most twice the measured rate, and at least half a
/// call a second, or the rate of the quota if that is lower. Before the first rejection it is unlimited. After a pause up to a
/// second's calls are made at once.
///
/// Rates are kept with 3 significant digits, and times to the nearest sixteenth of a second, at most 512 s ago.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CubicRate {
    /// The lowest rate, in calls a second.
    lowest: f64,
    /// The length of a bucket, in microseconds.
    bucket: u64,
}

/// The fields of the word.
#[derive(Clone, Copy, Debug)]
struct Learned {
    w_max: f64,
    measured: f64,
    lowered: u64,
    bucket: u64,
    count: u64,
}

impl CubicRate {
    /// Creates the strategy for a service with this limit.
    #[must_use]
    pub const fn new(quota: Quota) -> Self {
        let per_token = Length::per_token(&quota);
        let rate = ratio(Length::of(Duration::from_secs(1)), per_token);
        let room = per_token.micros().saturating_mul(BUCKET_CALLS);
        let bucket = if room == 0 {
            1
        } else if room < BUCKET_MICROS {
            room
        } else {
            BUCKET_MICROS
        };
        Self { lowest: if rate < LOWEST { rate } else { LOWEST }, bucket }
    }

    /// Returns the rate at a moment, in calls a second; `None` if it is unlimited.
    fn rate(&self, learned: Learned, moment: Moment) -> Option<f64> {
        if learned.w_max == 0.0 {
            return None;
        }
        let ago = LOWERED.max() & units(moment).wrapping_sub(learned.lowered);
        #[expect(clippy::cast_precision_loss, reason = "a field of 14 bits")]
        let t = ago as f64 / UNITS as f64;
        let from_plateau = t - cbrt(learned.w_max * (1.0 - BETA) / SCALE);
        let cubic = SCALE * from_plateau * from_plateau * from_plateau + learned.w_max;
        Some(cubic.min(2.0 * learned.measured).max(self.lowest))
    }

    /// Counts a response, and measures the rate if a bucket is over.
    fn measure(&self, learned: &mut Learned, moment: Moment) {
        learned.count = (learned.count + 1).min(COUNT.max());
        let bucket = moment.micros / self.bucket;
        let passed = bucket.wrapping_sub(learned.bucket) & BUCKET.max();
        if passed == 0 {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "fields of 10 and 8 bits, and half a second")]
        let rate = learned.count as f64 * SECOND as f64 / (passed as f64 * self.bucket as f64);
        learned.measured = SMOOTH * rate + (1.0 - SMOOTH) * learned.measured;
        (learned.bucket, learned.count) = (bucket & BUCKET.max(), 0);
    }
}

impl Learned {
    fn of(word: u64) -> Self {
        Self {
            w_max: long(W_MAX.get(word)),
            measured: long(MEASURED.get(word)),
            lowered: LOWERED.get(word),
            bucket: BUCKET.get(word),
            count: COUNT.get(word),
        }
    }

    fn word(self) -> u64 {
        W_MAX.put(short(self.w_max))
            | MEASURED.put(short(self.measured))
            | LOWERED.put(self.lowered)
            | BUCKET.put(self.bucket)
            | COUNT.put(self.count)
    }
}

impl Strategy for CubicRate {
    fn before_call(&self, _: u64, _: Moment) -> Duration {
        Duration::ZERO
    }

    fn answered(&self, word: &mut u64, hints: &Hints, moment: Moment) -> Duration {
        let mut learned = Learned::of(*word);
        self.measure(&mut learned, moment);
        if hints.is_rejected() {
            let rate = self.rate(learned, moment).map_or(learned.measured, |rate| rate.min(learned.measured));
            (learned.w_max, learned.lowered) = (rate.max(self.lowest), units(moment));
        } else if LOWERED.max() & units(moment).wrapping_sub(learned.lowered) > LONGEST_AGO {
            learned.lowered = units(moment).wrapping_sub(LONGEST_AGO);
        }
        *word = learned.word();
        Duration::ZERO
    }

    fn schedule(&self, schedule: &mut u64, learned: u64, sleep: Duration, moment: Moment) -> Duration {
        let Some(rate) = self.rate(Learned::of(learned), moment) else { return sleep };
        let now = moment.micros.wrapping_mul(PLACES);
        let earliest = i64::try_from(sleep.as_micros()).unwrap_or(i64::MAX).saturating_mul(PLACES as i64).min(FURTHEST);
        // In places. A rate is at least a call a day.
        #[expect(clippy::cast_precision_loss, reason = "a small power of two")]
        let interval = ((SECOND * PLACES) as f64 / rate) as u64;
        let saved_up = (SECOND * PLACES).saturating_sub(interval);
        // A place in the past is one that was saved up.
        let ahead = match schedule.wrapping_sub(now) as i64 {
            _ if *schedule == 0 => earliest,
            // The clock has stepped back.
            ahead if ahead > FURTHEST => earliest,
            ahead => ahead.max(earliest - saved_up as i64),
        };
        *schedule = now.wrapping_add_signed(ahead).wrapping_add(interval).max(1);
        Duration::from_micros(ahead.max(0) as u64 / PLACES).max(sleep)
    }
}

/// Returns a time in units of LOWERED, to the nearest.
const fn units(moment: Moment) -> u64 {
    (moment.micros.wrapping_add(SECOND / UNITS / 2) / (SECOND / UNITS)) & LOWERED.max()
}

/// The number of low bits of an `f32` that a short number leaves out.
///
/// It keeps 8 bits of the exponent and 8 of the mantissa.
const CUT: u32 = 15;

/// Returns a number that is not negative in 16 bits, to the nearest.
fn short(number: f64) -> u64 {
    let bits = (number as f32).to_bits();
    u64::from((bits + (1 << (CUT - 1))) >> CUT)
}

fn long(short: u64) -> f64 {
    f64::from(f32::from_bits((short as u32) << CUT))
}

/// Returns the cube root of a positive number, to 12 digits.
fn cbrt(x: f64) -> f64 {
    /// Two thirds of the exponent's bias.
    const BIAS: u64 = (1_023 * 2 / 3) << (f64::MANTISSA_DIGITS - 1);
    let mut root = f64::from_bits(x.to_bits() / 3 + BIAS);
    let mut rounds = 0;
    // Newton's method, from a start that is a twentieth off.
    while rounds < 4 {
        root -= (root - x / (root * root)) / 3.0;
        rounds += 1;
    }
    root
}

/// Returns how often `part` is in a length; a part of 0 counts as the smallest unit.
#[expect(clippy::cast_precision_loss, reason = "a ratio of 53 bits")]
const fn ratio(length: Length, part: Length) -> f64 {
    length.0 as f64 / if part.0 == 0 { 1 } else { part.0 } as f64
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "far less than the errors that are stated")]
mod tests {
    use super::{CubicRate, Learned, cbrt, long, short};
    use crate::quota::Quota;
    use crate::throttle::pacing::{Hints, Moment, Strategy};
    use core::time::Duration;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn cube_root_is_that_of_std() {
        for x in [1e-6, 0.1, 0.75, 1.0, 8.0, 1234.5, 1e6, 7.5e8] {
            assert!((cbrt(x) / f64::cbrt(x) - 1.0).abs() < 1e-12, "{x}");
        }
    }

    #[test]
    fn short_numbers_are_within_a_500th() {
        for x in [1e-5, 0.1, 0.75, 1.0, 8.0, 1234.5, 1e6, 7.5e8] {
            assert!((long(short(x)) / x - 1.0).abs() <= 1.0 / 500.0, "{x}");
        }
        assert_eq!((short(0.0), long(0)), (0, 0.0));
    }

    #[test]
    fn words_keep_what_was_learned() {
        let word = 0x3F80_4123_4567_89AB;
        assert_eq!(Learned::of(word).word(), word);
    }

    /// Of ten calls a second one is rejected: 7 a second remain, and 10 again after K = 1.96 s.
    #[test]
    fn rejection_leaves_seven_tenths_and_the_curve_leads_back() {
        let strategy = CubicRate::new(Quota::per_second(10));
        let mut learned = 0;
        for call in 1..=200 {
            strategy.answered(&mut learned, &Hints::ACCEPTED, Moment::new(call * SECOND / 10, 0));
        }
        let rejected = 20 * SECOND + SECOND / 100;
        strategy.answered(&mut learned, &Hints::REJECTED, Moment::new(rejected, 0));
        let rate = |after: u64| strategy.rate(Learned::of(learned), Moment::new(rejected + after, 0)).unwrap();
        assert!((rate(0) - 7.0).abs() < 0.1, "{}", rate(0));
        assert!((rate(1_960_000) - 10.0).abs() < 0.1, "{}", rate(1_960_000));
        assert!((rate(60 * SECOND) - 20.0).abs() < 0.2, "twice what was measured: {}", rate(60 * SECOND));
    }

    #[test]
    fn threads_share_the_rate() {
        let strategy = CubicRate::new(Quota::per_second(10));
        // Rejections alone: half a call a second remains.
        let (mut learned, mut schedule) = (0, 0);
        strategy.answered(&mut learned, &Hints::REJECTED, Moment::new(0, 0));
        let mut place = |now| strategy.schedule(&mut schedule, learned, Duration::ZERO, Moment::new(now, 0));
        let [first, second, third] = [place(0), place(0), place(SECOND)];
        assert_eq!([first, second, third].map(|sleep| sleep.as_millis()), [0, 2_000, 3_000]);
        // A call that sleeps for longer takes a later place.
        let late = strategy.schedule(&mut schedule, learned, Duration::from_secs(60), Moment::new(SECOND, 0));
        assert_eq!(late, Duration::from_secs(60));
        let next = strategy.schedule(&mut schedule, learned, Duration::ZERO, Moment::new(SECOND, 0));
        assert_eq!(next.as_millis(), 62_000);
        // A clock that steps back by two days.
        let now = SECOND.wrapping_sub(48 * 3_600 * SECOND);
        assert!(
            strategy.schedule(&mut schedule, learned, Duration::ZERO, Moment::new(now, 0)) < Duration::from_secs(3)
        );
    }

    /// The state of a slow and obvious model. Times are in seconds.
    #[derive(Default)]
    struct Model {
        w_max: f64,
        measured: f64,
        lowered: f64,
        bucket: f64,
        count: f64,
    }

    impl Model {
        fn rate(&self, now: f64) -> Option<f64> {
            let t = (now * 16.0).round() / 16.0 - self.lowered;
            let cubic = 0.4 * (t - (0.75 * self.w_max).cbrt()).powi(3) + self.w_max;
            (self.w_max > 0.0).then(|| cubic.min(2.0 * self.measured).max(0.5))
        }

        fn answered(&mut self, now: f64, is_rejected: bool) {
            self.count += 1.0;
            let bucket = (now * 2.0).floor() / 2.0;
            if bucket > self.bucket {
                self.measured = 0.8 * self.count / (bucket - self.bucket) + 0.2 * self.measured;
                (self.bucket, self.count) = (bucket, 0.0);
            }
            if is_rejected {
                let rate = self.rate(now).map_or(self.measured, |rate| rate.min(self.measured));
                (self.w_max, self.lowered) = (rate.max(0.5), (now * 16.0).round() / 16.0);
            }
        }
    }

    proptest! {
        /// After each response the rates are close.
        ///
        /// They are then set to each other, because the curve makes small differences large.
        #[test]
        fn rate_is_that_of_the_model(answers in proptest::collection::vec((1..3_000_000u64, 0..8u8), 1..300)) {
            let strategy = CubicRate::new(Quota::per_second(10));
            let (mut learned, mut model, mut micros) = (0, Model::default(), 0);
            for (interval, kind) in answers {
                micros += if kind > 3 { interval } else { interval / 100 };
                let (moment, now) = (Moment::new(micros, 0), micros as f64 / 1e6);
                let hints = if kind == 0 { Hints::REJECTED } else { Hints::ACCEPTED };
                strategy.answered(&mut learned, &hints, moment);
                model.answered(now, hints.is_rejected());
                let Learned { w_max, measured, .. } = Learned::of(learned);
                match (strategy.rate(Learned::of(learned), moment), model.rate(now)) {
                    (Some(rate), Some(expected)) => {
                        prop_assert!((rate - expected).abs() <= expected * 0.02 + 0.01, "{rate}, not {expected}");
                    }
                    (rate, expected) => prop_assert_eq!(rate, expected),
                }
                prop_assert!((measured - model.measured).abs() <= model.measured / 250.0);
                prop_assert!((w_max - model.w_max).abs() <= model.w_max * 0.02 + 0.01);
                (model.measured, model.w_max) = (measured, w_max);
            }
        }
    }
}
