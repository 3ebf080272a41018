//! A gradual return: which share of the calls passes, by the time since an outage, a pause or a start.
//!
//! A share is kept in parts of 65,536. The calls that pass are spread evenly over all of them. Call `n` passes if the fractional
//! part of `n` times about the golden ratio, plus a start, is less than the share (a Weyl sequence, in 16 bits). Of any `n` consecutive
//! calls, or of every second or third of them, `n` times the share pass, give or take eight. So no burst takes more than its part.

use crate::Quota;
use crate::out_of_range::OutOfRange;
use crate::sync::{AtomicU16, Ordering, const_unless_loom};
use crate::time::Micros;
use core::fmt;
use core::time::Duration;

/// All calls, in parts.
const WHOLE: u32 = 1 << 16;

/// The shares of [`Ramp::steps`]: 0.1, 1, 5, 10, 25 and 50 percent.
const STEPS: [u32; 6] = [parts(1), parts(10), parts(50), parts(100), parts(250), parts(500)];

/// The share with which every ramp begins.
const LEAST: u32 = STEPS[0];

/// The longest ramp. The breaker's settings have 40 bits of microseconds for it.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the parts in thousandths, rounded up.
const fn parts(thousandths: u32) -> u32 {
    (thousandths * WHOLE).div_ceil(1_000)
}

/// A gradual return: the share of the calls that passes grows from 0.1 % to all of them.
///
/// A service that comes back from an outage has cold caches, few instances, and callers that all want to catch up. A breaker that
/// closes lets all of them in at once. With a [`ramp`](crate::breaker::BreakerConfigBuilder::ramp) it lets a growing share in.
/// [`Pausable`](crate::Pausable) returns likewise from a server's `Retry-After`, and [`quota_at`](Self::quota_at) warms up a quota.
///
/// | | shares |
/// |---|---|
/// | [`steps`](Self::steps) | 0.1, 1, 5, 10, 25 and 50 %, each for a sixth of the time |
/// | [`linear`](Self::linear) | in proportion to the time, from 0.1 % |
///
/// A ramp ends by time alone, also without any call.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::{BreakerConfig, Ramp};
///
/// let ramp = Ramp::steps(Duration::from_secs(60));
/// assert_eq!(BreakerConfig::builder().ramp(ramp).build()?.ramp(), Some(ramp));
/// assert_eq!(ramp.to_string(), "steps of 60 s");
///
/// let percent = |second| (ramp.share_at(Duration::from_secs(second)) * 1_000.0).round() / 10.0;
/// assert_eq!([0, 10, 20, 30, 40, 50, 60].map(percent), [0.1, 1.0, 5.0, 10.0, 25.0, 50.0, 100.0]);
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use]
pub struct Ramp {
    pub(crate) shape: RampShape,
    pub(crate) micros: u64,
}

/// How the share of a ramp grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(crate) enum RampShape {
    Steps,
    Linear,
}

impl Ramp {
    /// Creates a ramp with six steps, each of a sixth of `length`: 0.1, 1, 5, 10, 25 and 50 %.
    ///
    /// The length is more than zero and at most a day, rounded up to microseconds.
    pub const fn steps(length: Duration) -> Self {
        Self { shape: RampShape::Steps, micros: Micros::of_duration(length) }
    }

    /// Creates a ramp that grows in proportion to the time, from 0.1 %.
    ///
    /// The length is more than zero and at most a day, rounded up to microseconds.
    pub const fn linear(length: Duration) -> Self {
        Self { shape: RampShape::Linear, micros: Micros::of_duration(length) }
    }

    /// The time from the first calls until all pass.
    #[must_use]
    pub const fn length(&self) -> Duration {
        Duration::from_micros(self.micros)
    }

    /// Returns the share of the calls that passes after this time, from 0.001 to 1.0.
    #[must_use]
    pub fn share_at(&self, elapsed: Duration) -> f64 {
        share_of(self.parts_at(elapsed))
    }

    /// Returns the quota that warms up to `full`, so long after the start.
    ///
    /// It has the same limit in a longer window, rounded up to nanoseconds, and the share of the burst, rounded down to at least one
    /// token. After the ramp it is `full`. An unlimited quota stays as it is. Of one that brings nothing the burst grows.
    ///
    /// Set it again and again, for example ten times in the ramp: between two changes the quota does not grow. Use a token bucket, or
    /// another algorithm without windows, because the windows become longer.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{ManualClock, Quota, Ramp, RateLimiter};
    ///
    /// const FULL: Quota = Quota::per_second(1_000).burst(100);
    /// let warm_up = Ramp::linear(Duration::from_secs(60));
    ///
    /// let clock = ManualClock::new();
    /// let limiter = RateLimiter::with_clock(FULL, &clock);
    /// limiter.set_quota(warm_up.quota_at(FULL, Duration::ZERO))?;
    /// for second in 1..=60 {
    ///     clock.advance(Duration::from_secs(1)); // an interval of the program's timer
    ///     limiter.set_quota(warm_up.quota_at(FULL, Duration::from_secs(second)))?;
    ///     if second == 30 {
    ///         assert_eq!(limiter.quota(), Quota::per(1_000, Duration::from_secs(2))?.burst(50)); // half
    ///     }
    /// }
    /// assert_eq!(limiter.quota(), FULL);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn quota_at(&self, full: Quota, elapsed: Duration) -> Quota {
        let parts = self.parts_at(elapsed);
        if parts == WHOLE || full.is_unlimited() {
            return full;
        }
        let (burst, window) = (full.burst_size(), u128::from(full.window_nanos()));
        let window = (window * u128::from(WHOLE)).div_ceil(parts.into());
        let least = burst.min(1);
        let burst = ((u64::from(burst) * u64::from(parts) / u64::from(WHOLE)) as u32).max(least);
        let window = u64::try_from(window).unwrap_or(u64::MAX);
        Quota::from_parts(full.limit(), window, burst, full.own_max_debt())
    }

    fn parts_at(&self, elapsed: Duration) -> u32 {
        // The length was not checked. Of more than 40 bits the lowest do not matter.
        let excess = (u64::BITS - 40).saturating_sub(self.micros.leading_zeros());
        let ramp = Self { micros: self.micros >> excess, ..*self };
        ramp.stage_at(whole_micros(elapsed) >> excess).map_or(WHOLE, |stage| stage.parts)
    }

    /// Returns the state so many microseconds after the start; `None` if the ramp is over.
    pub(crate) fn stage_at(self, elapsed: u64) -> Option<Stage> {
        let Self { shape, micros } = self;
        if elapsed >= micros {
            return None;
        }
        // A length has 40 bits at most, if it was checked, so nothing overflows.
        let (parts, grows_at) = match shape {
            RampShape::Steps => {
                let count = STEPS.len() as u64;
                let step = elapsed * count / micros;
                (STEPS[step as usize], ((step + 1) * micros).div_ceil(count))
            }
            RampShape::Linear => {
                let parts = ((elapsed * u64::from(WHOLE) / micros) as u32).max(LEAST);
                (parts, (2 * u64::from(parts) * micros).div_ceil(WHOLE.into()))
            }
        };
        Some(Stage { parts, grows_in: grows_at.min(micros) - elapsed })
    }

    /// Checks the length, which is called `setting` in the error.
    pub(crate) const fn check(&self, setting: &'static str) -> Result<(), OutOfRange> {
        OutOfRange::check_duration(setting, self.length(), Duration::from_nanos(1)..=LONGEST)
    }
}

impl fmt::Display for Ramp {
    /// Writes `steps of 30 s` or `linear in 30 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = crate::time::Human(self.length());
        match self.shape {
            RampShape::Steps => write!(f, "steps of {length}"),
            RampShape::Linear => write!(f, "linear in {length}"),
        }
    }
}

/// Returns the microseconds in a duration, rounded down.
fn whole_micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the parts as a share of 1.
pub(crate) fn share_of(parts: u32) -> f64 {
    f64::from(parts) / f64::from(WHOLE)
}

/// The state of a ramp at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    /// The share that passes, in parts.
    pub(crate) parts: u32,
    /// After how many microseconds at least twice the share passes, or all.
    pub(crate) grows_in: u64,
}

/// Chooses the calls that pass: a share of them, spread evenly.
///
/// Threads share the count of the calls, so the share holds for all of them together.
#[derive(Debug)]
pub(crate) struct Turns(AtomicU16);

impl Turns {
    const_unless_loom! {
        pub(crate) const fn new() -> Self {
            Self(AtomicU16::new(0))
        }
    }

    /// Takes the next turn, and returns whether it is one of the share.
    ///
    /// `seed` moves the sequence, so that clients whose returns began at different times let different calls pass.
    pub(crate) fn take(&self, parts: u32, seed: u64) -> bool {
        // ORDERING: Relaxed: a count. Each call gets a turn of its own, and nothing is published through it.
        // loom-tests: breaker_return::share_is_not_exceeded.
        place(self.0.fetch_add(1, Ordering::Relaxed), seed) < parts
    }

    /// Returns whether the next turn would be one of the share, without taking it.
    pub(crate) fn peek(&self, parts: u32, seed: u64) -> bool {
        // ORDERING: Relaxed, as in `take`.
        place(self.0.load(Ordering::Relaxed), seed) < parts
    }
}

/// Returns the place of a turn among 65,536.
///
/// Each of them occurs once in as many turns, also where the count wraps.
fn place(turn: u16, seed: u64) -> u32 {
    /// An odd number near the fractional part of the golden ratio in 16 bits.
    ///
    /// It spreads calls more evenly than its neighbours.
    const GOLDEN: u16 = 0x9E3B;
    turn.wrapping_mul(GOLDEN).wrapping_add((seed >> 48) as u16).into()
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "the bounds have room for it")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ramps() -> impl Strategy<Value = Ramp> {
        let lengths = prop_oneof![1..50u64, 50..5_000_000u64, Just(Micros::of_duration(LONGEST))];
        (prop_oneof![Just(RampShape::Steps), Just(RampShape::Linear)], lengths)
            .prop_map(|(shape, micros)| Ramp { shape, micros })
    }

    #[test]
    fn length_that_is_not_allowed_has_shares() {
        for ramp in [Ramp::steps(Duration::MAX), Ramp::linear(Duration::MAX)] {
            let later = Duration::from_micros(ramp.micros / 100 * 52);
            let percent = [Duration::ZERO, later, Duration::MAX].map(|elapsed| ramp.parts_at(elapsed) * 100 / WHOLE);
            assert!(percent == [0, 51, 100] || percent == [0, 10, 100], "{ramp}: {percent:?}");
        }
    }

    proptest! {
        /// The share never shrinks, and has doubled when it is said to, or all calls pass.
        #[test]
        fn share_doubles_when_announced(ramp in ramps(), elapsed: u64) {
            let elapsed = elapsed % ramp.micros;
            let now = ramp.stage_at(elapsed).unwrap();
            prop_assert!(now.parts >= LEAST && now.parts < WHOLE && now.grows_in > 0);
            prop_assert!(elapsed + now.grows_in <= ramp.micros);
            let before = ramp.stage_at(elapsed + now.grows_in - 1).unwrap();
            prop_assert!(now.parts <= before.parts && before.parts < 2 * now.parts, "{:?} {:?}", now, before);
            if let Some(then) = ramp.stage_at(elapsed + now.grows_in) {
                prop_assert!(then.parts >= 2 * now.parts);
            }
            prop_assert!(ramp.stage_at(ramp.micros).is_none());
        }

        /// The share of any run of calls passes, or of every `stride`th of them, give or take eight calls.
        #[test]
        fn calls_that_pass_are_spread_evenly(
            parts in prop_oneof![prop::sample::select(&STEPS[..]), LEAST..WHOLE],
            seed: u64,
            first: u16,
            stride in 1..=4u16,
            calls in 1..3_000u32,
        ) {
            let passed = (0..calls)
                .filter(|call| place(first.wrapping_add((*call as u16).wrapping_mul(stride)), seed) < parts)
                .count();
            let share = f64::from(calls) * share_of(parts);
            prop_assert!((passed as f64 - share).abs() <= 8.0, "{passed} of {share}");
        }
    }

    proptest! {
        /// A quota that warms up brings no more than the share of the tokens, and hardly less.
        #[test]
        fn quota_grows_with_the_share(
            ramp in ramps(),
            elapsed: u64,
            limit: u32,
            nanos in 1..1u64 << 40,
            burst: u32,
        ) {
            let elapsed = Duration::from_micros(elapsed % (2 * ramp.micros));
            let full = Quota::per(limit, Duration::from_nanos(nanos)).unwrap().burst(burst);
            let quota = ramp.quota_at(full, elapsed);
            prop_assert_eq!(quota.limit(), limit);
            let window = nanos as f64 / ramp.share_at(elapsed);
            let found = quota.window().as_nanos() as f64;
            prop_assert!(found >= window * (1.0 - 1e-12) && found <= window * (1.0 + 1e-12) + 1.0);
            let share = f64::from(burst) * ramp.share_at(elapsed);
            prop_assert!(f64::from(quota.burst_size()) <= share.max(1.0) && f64::from(quota.burst_size()) > share - 1.0);
            prop_assert_eq!(ramp.quota_at(full, ramp.length()), full);
            prop_assert_eq!(ramp.quota_at(Quota::UNLIMITED, elapsed).is_unlimited(), true);
        }
    }

    #[test]
    fn each_place_occurs_once() {
        let mut seen = std::vec![false; WHOLE as usize];
        for turn in 0..=u16::MAX {
            assert!(!core::mem::replace(&mut seen[place(turn, 7 << 50) as usize], true));
        }
    }

    #[test]
    fn steps_are_those_of_the_documentation() {
        let steps = Ramp::steps(Duration::from_secs(6));
        let thousandths =
            [0, 1, 2, 3, 4, 5, 6].map(|second| (steps.share_at(Duration::from_secs(second)) * 1e3).round() as u32);
        assert_eq!(thousandths, [1, 10, 50, 100, 250, 500, 1_000]);
        assert_eq!(steps.stage_at(1_500_000).map(|stage| stage.grows_in), Some(500_000));
        let linear = Ramp::linear(Duration::from_secs(10));
        let thousandths = [0, 5, 10].map(|second| (linear.share_at(Duration::from_secs(second)) * 1e3).round() as u32);
        assert_eq!(thousandths, [1, 500, 1_000]);
    }
}
