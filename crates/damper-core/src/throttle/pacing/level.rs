//! The same sleep for all clients, by the remaining calls of the limit.

use super::growing_sleep::{capped, default_cap, started};
use super::length::Length;
use super::{Hints, Moment, Strategy};
use crate::out_of_range::OutOfRange;
use crate::quota::Quota;
use crate::sync::Field;
use crate::time::random;
use core::ops::Range;
use core::time::Duration;

/// The state of the pacing strategy Level.
///
/// ```text
///  63  61 60     42 41   26 25     20 19    14 13      0
/// | KIND | LONGEST | BEGAN | REQUESTS | REFUSED | REMAINS |
/// ```
///
/// | field | bits | |
/// |---|---|---|
/// | REMAINS | 14 | the remaining calls, by the last response |
/// | REFUSED | 6 | the requests of this round that were rejected |
/// | REQUESTS | 6 | the requests of this round; when it is full, both counts are halved |
/// | BEGAN | 16 | when the round began, in units of 2^n µs, which are at most the shortest sleep; wraps |
/// | LONGEST | 19 | the sleep at an empty limit, in 32nds of the shortest sleep; 0 before the first rejection |
/// | KIND | 3 | the kind of limit that rejections have shown: see [`Kind`] |
const REMAINS: Field = Field::lowest(14);
const REFUSED: Field = REMAINS.then(6);
const REQUESTS: Field = REFUSED.then(6);
const BEGAN: Field = REQUESTS.then(16);
const LONGEST: Field = BEGAN.then(19);
const KIND: Field = LONGEST.then(3);
const _: () = assert!(KIND.end() == u64::BITS, "fields must tile the word");

/// The parts of the shortest sleep that LONGEST counts.
const LONGEST_PARTS: u64 = 32;

// A unit of BEGAN is more than half of the shortest sleep. A round as long as the longest sleep is over before BEGAN wraps.
const _: () = assert!(BEGAN.max() / 2 >= 2 * (LONGEST.max() / LONGEST_PARTS));

/// The first longest sleep, in those parts: 13 shortest sleeps, or the burst if that is smaller.
///
/// No later one falls below it. So up to a dozen clients always have the same one. A longer sleep than the burst takes to
/// fill would lose tokens to a full bucket: with a burst of 1, a client used 8 % of its quota.
const FIRST: u64 = 13 * LONGEST_PARTS;

/// The calls over which the sleep falls to 1/e, at the first longest sleep.
///
/// It is at most an eighth of the limit's capacity, so that a full limit causes no sleep.
const REACH: u64 = 20;
const PARTS_OF_LIMIT: u64 = 8;

/// The parts of a call in which a reach is counted.
const CALL: u64 = 64;

/// The remaining calls with which a round without rejections lowers the longest sleep.
///
/// It is at most half of the burst.
const PLENTY: u64 = 12;

/// The least length of such a round, in first longest sleeps.
const CALM: u64 = 4;

/// The fewest requests after which a round that changes nothing ends.
const FEWEST: u64 = 4;

/// The error of times that services round to seconds: each of two may be off by one.
const ROUNDING: Duration = Duration::from_secs(2);

/// The start of a round in which responses are ignored, in hundredths: 5 %.
///
/// Their calls were sent before the round.
const GRACE: u64 = 5;

/// The most by which a longest sleep grows in a round.
///
/// It grows by `(requests + 4) / (accepted + 4)`, and by at most this factor.
///
/// With a smaller prior the longest sleeps of clients that are all rejected drift apart.
const MOST_GROWTH: u64 = 3;
const PRIOR: u64 = 4;

/// The sleep before the retry of the first rejection and of later ones, in hundredths of the longest.
///
/// The first one ends when 8 to 10 tokens are there. That is soon enough for two clients and late enough for ten.
const FIRST_RETRY: Range<u64> = 65..77;
const RETRY: Range<u64> = 60..100;

/// Sleeps longer the fewer calls of the limit remain, by the same rule in all clients.
///
/// It is the default strategy.
///
/// Every client sees the same `remaining`. So all clients sleep alike and are treated alike, without knowing of one another. The
/// sleep before a call is `longest · exp(−remaining / reach)`, with a twentieth of jitter either way and a reach of 20 calls. So
/// far from the limit no client sleeps. The strategy learns the longest sleep:
///
/// - There is none before the first rejection. The first rejection sets it to 13 times the time in which the quota brings one
///   token, or to the time in which it brings the burst, if that is shorter.
/// - A round is as long as the longest sleep. After a round with rejections the longest sleep grows by
///   `(requests + 4) / (accepted + 4)`, at most by 3.
/// - A round without rejections that lasted four first longest sleeps and left 12 calls, or half of the burst if that is fewer,
///   lowers it by a tenth. It never falls below its first value.
///
/// The reach grows with the root of the longest sleep, up to an eighth of the limit, because many clients take many calls between
/// two responses. A rejected call sleeps for three fifths of the longest sleep to all of it. The first one sleeps for 65 to 77
/// hundredths.
///
/// If the service does not report the remaining calls, a rejection counts as 0, and each eighth success as one call more.
///
/// # Short runs
///
/// The strategy is for the long run. In a run of some seconds each rejection costs a sleep: in a simulation of 120 calls at 20 a
/// second by one client, it used 84 % of the quota with a burst of 1, 92 % with 2 and 93 to 99 % with 5 to 20. Where the
/// rejection asked for a pause of a second, which is the least that HTTP's `Retry-After` can say, it was 27 %, 80 % and 86 to 88 %.
/// The time of each call comes on top if calls are made one after the other. If the service reports nothing, one client
/// alone uses as little as a sixth to a third of the quota, however long it runs, and ten clients use four fifths or more
/// (from a burst of 5 on): then give a client that is alone a [`RateLimiter`](crate::RateLimiter) of its own to wait for.
///
/// # Hints of the service
///
/// A rejection with `retry_after` stops all calls until then. A rejection with only `resets_in` does so if that is less than
/// 15/16 of the time in which the quota brings the whole limit: the reset of a bucket is when the bucket is full again, and a
/// call may succeed long before. The calls after the pause are spread over the longest sleep.
///
/// # Fixed windows
///
/// In a fixed window no calls come back before the reset. A rejection shows such a window if its `retry_after` is no shorter than
/// its `resets_in` and longer than 4 seconds. From then on the pacer stops all calls until the reset when a response says that
/// none remain. It also stops them when fewer than 12 remain and all clients together used more than that since the previous
/// response. So no client has to be rejected to find out that the window is used up.
///
/// Such a stop is limited to little more than a rejection has asked for: up to the next of 16, 64, 256, 1024 and 4096 seconds. A
/// service may have a bucket of an hour beside its window of a minute. A rejection that allows a call before the reset ends the
/// rule for good.
///
/// # Sliding windows that are spent in bursts
///
/// In a sliding window a call may succeed long before the reset. If a rejection says so and still asks for a pause longer than
/// the longest sleep, the calls of one window were made in a burst, and the next window returns them in a burst too. From then on
/// the count of remaining calls rises by at most one after each success. So the calls of the next window are spread over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Level {
    /// The time in which the quota brings one token.
    min_sleep: Length,
    start: Length,
    cap: Length,
    /// The limit of the quota, and the capacity of its bucket.
    limit: u32,
    burst: u32,
    /// BEGAN counts units of `2^clock_shift` microseconds.
    clock_shift: u32,
}

/// The fields of the word.
#[derive(Clone, Copy, Debug)]
struct Learned {
    kind: Kind,
    longest: u64,
    began: u64,
    requests: u64,
    refused: u64,
    remains: u64,
}

impl Level {
    /// Creates the strategy for a service with this limit.
    #[must_use]
    pub const fn new(quota: Quota) -> Self {
        let cap = default_cap(&quota);
        let min_sleep = Length::per_token(&quota).at_most(cap).at_least(Length(LONGEST_PARTS));
        let micros = min_sleep.micros();
        let clock_shift = if micros == 0 { 0 } else { micros.ilog2() };
        Self { min_sleep, start: Length::ZERO, cap, limit: quota.limit(), burst: quota.burst_size(), clock_shift }
    }

    /// Sets the longest sleep, before jitter; 1 µs to 1 day.
    ///
    /// Default: the window of the quota, at least a second and at most a day.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if it is out of this range, or below the start.
    pub const fn cap(mut self, longest: Duration) -> Result<Self, OutOfRange> {
        match capped(longest, self.start) {
            Ok(cap) => {
                self.cap = cap;
                Ok(self)
            }
            Err(error) => Err(error),
        }
    }

    /// Sets the sleep before the first response; at most the [cap](Self::cap). Default: none.
    ///
    /// Later responses adjust it as a longest sleep, which is at most 16,383 times the time of one token.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if it is longer than the cap.
    pub const fn start(mut self, sleep: Duration) -> Result<Self, OutOfRange> {
        match started(sleep, self.cap.duration()) {
            Ok(start) => {
                self.start = start;
                Ok(self)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the sleep of this many parts.
    const fn length(&self, parts: u64) -> Length {
        self.min_sleep.part(parts, LONGEST_PARTS).at_most(self.cap)
    }

    /// Returns the parts of a longest sleep, which is at most the cap.
    const fn parts(&self, longest: Length) -> u64 {
        let parts = longest.at_most(self.cap).0 as u128 * LONGEST_PARTS as u128 / self.min_sleep.0 as u128;
        if parts > LONGEST.max() as u128 { LONGEST.max() } else { parts as u64 }
    }

    /// Returns the remaining calls with which a round without rejections lowers the longest sleep.
    fn plenty(&self) -> u64 {
        PLENTY.min(u64::from(self.burst) / 2)
    }

    /// Returns the parts of the longest sleep after the first rejection.
    fn first(&self) -> u64 {
        FIRST.min(u64::from(self.burst) * LONGEST_PARTS).min(self.parts(self.cap)).max(1)
    }

    /// Returns the sleep by the remaining calls, without jitter.
    fn sleep(&self, learned: Learned) -> Length {
        let reach = (REACH * REACH * CALL * CALL * learned.longest / FIRST).isqrt();
        let reach = reach.min(u64::from(self.burst) * CALL / PARTS_OF_LIMIT).max(CALL / 4);
        self.length(learned.longest).part(decay(learned.remains * CALL, reach), ONE)
    }

    const fn units(&self, micros: u64) -> u64 {
        (micros >> self.clock_shift) & BEGAN.max()
    }

    fn learned(&self, word: u64) -> Learned {
        if word == 0 {
            let longest = self.parts(self.start).max(u64::from(self.start.0 > 0));
            return Learned { kind: Kind::Unknown, longest, began: 0, requests: 0, refused: 0, remains: 0 };
        }
        Learned {
            kind: Kind::of_code(KIND.get(word)),
            longest: LONGEST.get(word),
            began: BEGAN.get(word),
            requests: REQUESTS.get(word),
            refused: REFUSED.get(word),
            remains: REMAINS.get(word),
        }
    }

    /// Counts a request in its round, and begins the next round if this one is over.
    fn count(&self, learned: &mut Learned, hints: &Hints, moment: Moment) {
        let age = (self.units(moment.micros).wrapping_sub(learned.began) & BEGAN.max()) << self.clock_shift;
        let longest = self.length(learned.longest).micros();
        if age < longest.saturating_mul(GRACE) / 100 {
            return;
        }
        if learned.requests == REQUESTS.max() {
            (learned.requests, learned.refused) = (learned.requests / 2, learned.refused / 2);
        }
        learned.requests += 1;
        learned.refused += u64::from(hints.is_rejected());
        let first = self.first();
        if learned.refused == 0 && learned.remains >= self.plenty() && learned.longest > first {
            if age >= self.sleep(*learned).micros().max(self.length(CALM * first).micros()) {
                learned.longest = (learned.longest - learned.longest.div_ceil(10)).max(first);
                self.begin_round(learned, moment);
            }
        } else if age >= longest && learned.refused > 0 {
            let accepted = learned.requests.saturating_sub(learned.refused);
            let grown = learned.longest * (learned.requests + PRIOR) / (accepted + PRIOR);
            learned.longest = grown.min(learned.longest * MOST_GROWTH).min(self.parts(self.cap));
            self.begin_round(learned, moment);
        } else if age >= longest && learned.requests >= FEWEST {
            self.begin_round(learned, moment);
        }
    }

    const fn begin_round(&self, learned: &mut Learned, moment: Moment) {
        (learned.began, learned.requests, learned.refused) = (self.units(moment.micros), 0, 0);
    }

    /// Returns the kind of limit that a rejection shows.
    fn kind(&self, learned: Learned, hints: &Hints) -> Kind {
        let (Some(wait), Some(reset)) = (hints.retry_after, hints.resets_in) else { return learned.kind };
        let longest = self.length(learned.longest.max(self.first()));
        match learned.kind {
            Kind::Bursts => Kind::Bursts,
            // A call may succeed before the reset.
            _ if wait.saturating_add(ROUNDING) < reset && Length::of(wait) > longest => Kind::Bursts,
            _ if wait.saturating_add(ROUNDING) < reset => Kind::Sliding,
            Kind::Sliding => Kind::Sliding,
            // A sliding window may look like a fixed one after a burst of two seconds, and so may any limit that is soon full
            // again.
            kind if wait < reset || wait <= 2 * ROUNDING => kind,
            kind => kind.max(Kind::fixed(wait)),
        }
    }
}

/// The kind of limit that rejections have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Unknown,
    /// A bucket or a sliding window.
    Sliding,
    /// A sliding window that is spent in bursts.
    Bursts,
    /// A fixed window. No stop for it is longer than `16 · 4^n` seconds.
    Fixed(u32),
}

impl Kind {
    /// The largest exponent of a fixed window.
    const MOST: u32 = KIND.max() as u32 - 3;

    const fn of_code(code: u64) -> Self {
        match code {
            0 => Self::Unknown,
            1 => Self::Sliding,
            2 => Self::Bursts,
            code => Self::Fixed(code as u32 - 3),
        }
    }

    const fn code(self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Sliding => 1,
            Self::Bursts => 2,
            Self::Fixed(exponent) => 3 + exponent as u64,
        }
    }

    /// Returns the fixed window of a rejection that asks for a pause of `wait`.
    fn fixed(wait: Duration) -> Self {
        let exponent = (0..Self::MOST).find(|exponent| wait <= Self::longest_stop(*exponent));
        Self::Fixed(exponent.unwrap_or(Self::MOST))
    }

    const fn longest_stop(exponent: u32) -> Duration {
        Duration::from_secs(16 << (2 * exponent))
    }
}

impl Learned {
    const fn word(self) -> u64 {
        KIND.put(self.kind.code())
            | LONGEST.put(self.longest)
            | BEGAN.put(self.began)
            | REQUESTS.put(self.requests)
            | REFUSED.put(self.refused)
            | REMAINS.put(self.remains)
    }
}

impl Strategy for Level {
    fn before_call(&self, word: u64, moment: Moment) -> Duration {
        let sleep = if word == 0 { self.start } else { self.sleep(self.learned(word)) };
        // A twentieth more or less.
        let tenth = sleep.part(1, 10);
        sleep.minus(sleep.part(1, 20)).plus(Length(random::below(tenth.0 + 1, moment.random))).duration()
    }

    fn answered(&self, word: &mut u64, hints: &Hints, moment: Moment) -> Duration {
        let mut learned = self.learned(*word);
        if *word == 0 {
            self.begin_round(&mut learned, moment);
        }
        if hints.is_rejected() {
            learned.kind = self.kind(learned, hints);
        }
        learned.remains = match hints.remaining {
            _ if hints.is_rejected() => 0,
            Some(calls) if learned.kind == Kind::Bursts => calls.min(learned.remains + 1).min(REMAINS.max()),
            Some(calls) => calls.min(REMAINS.max()),
            None => (learned.remains + u64::from(moment.random.is_multiple_of(8))).min(REMAINS.max()),
        };
        let retry = if hints.is_rejected() && learned.longest < self.first() {
            learned.longest = self.first();
            self.begin_round(&mut learned, moment);
            FIRST_RETRY
        } else if learned.longest > 0 {
            self.count(&mut learned, hints, moment);
            RETRY
        } else {
            // No state to keep before the first rejection.
            return Duration::ZERO;
        };
        *word = learned.word();
        let longest = self.length(learned.longest);
        let (least, most) = (longest.part(retry.start, 100), longest.part(retry.end, 100));
        least.plus(Length(random::below(most.minus(least).0 + 1, moment.random))).duration()
    }

    /// Stops calls after a rejection until `retry_after`, or until a reset that is not a bucket's.
    ///
    /// After an accepted call it stops them until the reset of a fixed window that is used up.
    fn pause(&self, word: u64, hints: &Hints) -> Option<Duration> {
        if hints.is_rejected() {
            let refill = self.min_sleep.part(self.limit.into(), 1);
            let reset = hints.resets_in.filter(|reset| Length::of(*reset) < refill.part(15, 16));
            return hints.retry_after.or(reset);
        }
        let Learned { kind: Kind::Fixed(exponent), remains, .. } = self.learned(word) else { return None };
        let (left, reset) = hints.remaining.zip(hints.resets_in)?;
        let used = remains.saturating_sub(left);
        (left < used.clamp(1, PLENTY) && reset <= Kind::longest_stop(exponent)).then_some(reset)
    }

    /// Returns the longest sleep.
    fn spread(&self, word: u64, _: Duration) -> Duration {
        self.length(self.learned(word).longest.max(self.first())).duration()
    }
}

/// The number that [`decay`] returns for 1.
const ONE: u64 = 1 << ONE_BITS;
const ONE_BITS: u32 = 31;

/// Returns `exp(−calls / reach)`, in parts of [`ONE`]; the reach is not 0. Beyond `exp(−16)` it is 0.
fn decay(calls: u64, reach: u64) -> u64 {
    if calls >= 16 * reach {
        return 0;
    }
    // exp(−x) = exp(−x / 16)^16, and the series of the latter. Everything is at most 1, and the calls have fewer than 2^21.
    let x = calls * ONE / (16 * reach);
    let product = |a: u64, b: u64| (a * b) >> ONE_BITS;
    let mut power = ONE - product(x, ONE - product(x / 2, ONE - product(x / 3, ONE - product(x / 4, ONE - x / 5))));
    for _ in 0..4 {
        power = product(power, power);
    }
    power
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "far less than the errors that are stated")]
mod tests {
    use super::{ONE, decay};

    #[test]
    fn decay_is_that_of_std() {
        for (calls, reach) in [(0, 1), (1, 1), (20, 20), (100, 20), (1_000, 64), (8 * 640, 640)] {
            let expected = (-(calls as f64) / reach as f64).exp();
            assert!(
                (decay(calls, reach) as f64 / ONE as f64 - expected).abs() < 1e-3 * expected + 1e-8,
                "{calls} of {reach}"
            );
        }
        assert_eq!((decay(0, 7), decay(16, 1), decay(u64::MAX >> 8, 1)), (ONE, 0, 0));
    }
}
