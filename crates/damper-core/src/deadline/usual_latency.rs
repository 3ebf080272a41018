//! How long most successes of a healthy server take.

use crate::sync::{AtomicU64, Field, IS_MODEL, Ordering, const_unless_loom};
use crate::time::{Clock, DefaultClock};
use core::time::Duration;

/// The outcomes of the present window of a usual latency, in one word:
///
/// ```text
///  63    48 47       24 23      0
/// | WINDOW | SUCCESSES | FAILURES |
/// ```
///
/// | field | meaning |
/// |---|---|
/// | WINDOW | the number of the window of the first outcome; wraps |
/// | SUCCESSES | the successes since then; saturates |
/// | FAILURES | the failures since then; saturates |
const FAILURES: Field = Field::lowest(24);
const SUCCESSES: Field = FAILURES.then(24);
const WINDOW: Field = SUCCESSES.then(16);
const _: () = assert!(WINDOW.end() == u64::BITS, "fields must tile the word");

/// The running estimate of a usual latency, in one word: `| ESTIMATE 58 | SAMPLES 6 |`.
///
/// The estimate is in 1,024ths of a microsecond, so that even a short one can fall by a 320th.
const SAMPLES: Field = Field::lowest(6);
const ESTIMATE: Field = SAMPLES.then(58);
const _: () = assert!(ESTIMATE.end() == u64::BITS, "fields must tile the word");

/// The bits of an estimate that are a fraction of a microsecond.
const FRACTION: u32 = 10;

/// The shortest window, in seconds.
const SECONDS: u64 = 10;

/// A window ends after its time once it has this many outcomes.
const FEWEST: u64 = if IS_MODEL { 2 } else { 50 };

/// The server is healthy if at most one in this many outcomes of a window failed.
const ONE_OF: u64 = 10;

/// The estimate is the longest of this many first successes, and a percentile from then on.
const FIRST: u64 = if IS_MODEL { 2 } else { 10 };

/// From this many samples on the estimate's step stays at a 32nd of it.
const STEADY: u64 = 32;

/// The time that is enough for a call of a server that has no success yet.
///
/// Less than a second, of which a deadline of a second leaves a little less when the call begins.
pub const GENEROUS_TIME: Duration = Duration::from_millis(900);

/// Longer latencies count as this: 9 years.
const LONGEST: u64 = ESTIMATE.max() >> FRACTION;

/// The 90th percentile of a server's successes from before its failures began.
///
/// With it a caller can decide whether a call that ended by its own deadline had [enough time](Self::enough_time). While the server
/// fails, its remaining successes say little about the usual latency, so they are not used. A window has at least 50 outcomes and
/// ends at a multiple of 10 s of the clock. It counts only if at most one in ten of its outcomes failed. The percentile is that of
/// earlier windows. Before the first good window has ended, it is that of the present one, from ten successes on.
///
/// It starts as the longest of ten successes, and is an estimate from about the last 300. Each one that took longer raises it by a
/// small part, and each other one lowers it by a ninth of that. So it takes some 700 successes to fall to a tenth.
///
/// The breaker and throttle layers of HTTP measure it for each host, if their calls have deadlines.
///
/// It takes 24 bytes and the clock, no lock, and one or two compare-and-swaps per outcome.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::ManualClock;
/// use damper::breaker::Verdict;
/// use damper::deadline::UsualLatency;
///
/// let clock = ManualClock::new();
/// let latency = UsualLatency::with_clock(&clock);
/// for _ in 0..100 {
///     clock.advance(Duration::from_millis(200));
///     latency.record_success(Duration::from_millis(50));
/// }
/// assert_eq!(latency.p90(), Some(Duration::from_millis(50)));
///
/// // A call that had only 20 ms ended by its deadline: a breaker ignores it.
/// let had_time = Duration::from_millis(20) >= latency.enough_time();
/// let verdict = if had_time { Verdict::DeadlineExceeded } else { Verdict::Ignored };
/// assert_eq!(verdict, Verdict::Ignored);
/// ```
#[derive(Debug)]
pub struct UsualLatency<C = DefaultClock> {
    outcomes: AtomicU64,
    estimate: AtomicU64,
    /// The estimate at the end of the last good window, or 0 before the first.
    usual: AtomicU64,
    clock: C,
}

#[cfg(feature = "std")]
impl UsualLatency {
    const_unless_loom! {
        /// Creates a history without any outcomes, on the [default clock](DefaultClock).
        #[must_use]
        pub const fn new() -> Self {
            Self::with_clock(crate::time::Monotonic)
        }
    }
}

#[cfg(feature = "std")]
impl Default for UsualLatency {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> UsualLatency<C> {
    const_unless_loom! {
        /// Creates a history whose windows are measured by `clock`. A reference to a clock is a clock too.
        #[must_use]
        pub const fn with_clock(clock: C) -> Self {
            Self { outcomes: AtomicU64::new(0), estimate: AtomicU64::new(0), usual: AtomicU64::new(0), clock }
        }
    }

    /// Sets the initial percentile, for example one measured before a restart. Default: none.
    #[must_use]
    pub fn starting_with(mut self, p90: Duration) -> Self {
        let estimate = estimate(p90);
        self.estimate = AtomicU64::new(ESTIMATE.put(estimate) | SAMPLES.put(STEADY));
        self.usual = AtomicU64::new(estimate);
        self
    }

    /// Returns the 90th percentile of successes before failures began, or `None` before ten of them.
    #[must_use]
    pub fn p90(&self) -> Option<Duration> {
        // ORDERING: Relaxed, here and below, as each word is a complete value and a stale one is harmless.
        // loom-tests: usual_latency::every_outcome_is_counted.
        match self.usual.load(Ordering::Relaxed) {
            0 => {
                let word = self.estimate.load(Ordering::Relaxed);
                (SAMPLES.get(word) >= FIRST).then(|| time(ESTIMATE.get(word)))
            }
            usual => Some(time(usual)),
        }
    }

    /// Returns the time that is enough for a call.
    ///
    /// A server is at fault if a call that was given this much time ends by its deadline. It is the [90th percentile](Self::p90). Before that is known, it is the longest success so far. Before the first success it is 0.9 s,
    /// which is more than most calls take: otherwise the first callers with short deadlines would blame the server.
    #[must_use]
    pub fn enough_time(&self) -> Duration {
        self.p90().unwrap_or_else(|| match ESTIMATE.get(self.estimate.load(Ordering::Relaxed)) {
            0 => GENEROUS_TIME,
            longest => time(longest),
        })
    }

    /// Records a success and its latency.
    pub fn record_success(&self, latency: Duration) {
        self.count(SUCCESSES);
        let latency = estimate(latency);
        let mut word = self.estimate.load(Ordering::Relaxed);
        while let Err(present) =
            self.estimate.compare_exchange_weak(word, following(word, latency), Ordering::Relaxed, Ordering::Relaxed)
        {
            word = present;
        }
    }

    /// Records a failure of the server.
    pub fn record_failure(&self) {
        self.count(FAILURES);
    }

    /// Counts an outcome, and ends the window if it is over.
    fn count(&self, outcome: Field) {
        let whole = self.clock.frequency().saturating_mul(SECONDS).max(1);
        let window = WINDOW.put((self.clock.now() / whole) & WINDOW.max());
        let one = outcome.put(1);
        let mut word = self.outcomes.load(Ordering::Relaxed);
        loop {
            let is_same = WINDOW.get(word) == WINDOW.get(window);
            let is_over = !is_same && SUCCESSES.get(word) + FAILURES.get(word) >= FEWEST;
            let next = match word {
                _ if is_over => window | one,
                0 => window | one,
                _ if outcome.get(word) == outcome.max() => word,
                _ => word + one,
            };
            match self.outcomes.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) if is_over => return self.end_window(word),
                Ok(_) => return,
                Err(present) => word = present,
            }
        }
    }

    /// Adopts the estimate if the server was healthy, and otherwise reverts it.
    ///
    /// A reverted estimate keeps its small steps, so that the first success after an outage does not replace it.
    #[cold]
    fn end_window(&self, outcomes: u64) {
        let (successes, failures) = (SUCCESSES.get(outcomes), FAILURES.get(outcomes));
        if failures * ONE_OF <= successes + failures {
            self.usual.store(ESTIMATE.get(self.estimate.load(Ordering::Relaxed)), Ordering::Relaxed);
        } else {
            let usual = self.usual.load(Ordering::Relaxed);
            let samples = if usual == 0 { 0 } else { STEADY };
            self.estimate.store(ESTIMATE.put(usual) | SAMPLES.put(samples), Ordering::Relaxed);
        }
    }
}

/// Converts a latency to the unit of estimates, at least a microsecond.
fn estimate(latency: Duration) -> u64 {
    u64::try_from(latency.as_micros()).unwrap_or(LONGEST).clamp(1, LONGEST) << FRACTION
}

/// Converts an estimate to a time, rounded down to nanoseconds.
const fn time(estimate: u64) -> Duration {
    // Below 2^58 / 2^10 microseconds, and a fraction of one: no sum or product overflows.
    let nanos = ((estimate & ((1 << FRACTION) - 1)) * 1_000) >> FRACTION;
    Duration::from_micros(estimate >> FRACTION).saturating_add(Duration::from_nanos(nanos))
}

/// Returns the estimate after a success with this latency.
const fn following(word: u64, latency: u64) -> u64 {
    let (estimate, samples) = (ESTIMATE.get(word), SAMPLES.get(word));
    if samples < FIRST {
        let longest = if latency > estimate { latency } else { estimate };
        return ESTIMATE.put(longest) | SAMPLES.put(samples + 1);
    }
    // Steps are tenths of a part. Nine up for one down keep a tenth of the successes above the estimate.
    let part = estimate / samples;
    let next = if latency > estimate {
        let up = estimate + part * 9 / 10 + 1;
        if up < latency { up } else { latency }
    } else {
        let down = estimate - part / 10;
        if down > latency { down } else { latency }
    };
    let samples = if samples < STEADY { samples + 1 } else { samples };
    ESTIMATE.put(next) | SAMPLES.put(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a hundred latencies, a tenth stays above the estimate.
    #[test]
    fn a_tenth_of_the_successes_is_above_the_estimate() {
        let mut word = 0;
        let (mut above, mut all) = (0u32, 0u32);
        for round in 0..10_000u64 {
            // Each latency from 1 to 100 ms once, in a scattered order.
            let micros = (round * 37 % 100 + 1) * 1_000;
            word = following(word, estimate(Duration::from_micros(micros)));
            if round >= 1_000 {
                above += u32::from(micros > ESTIMATE.get(word) >> FRACTION);
                all += 1;
            }
        }
        let part = f64::from(above) / f64::from(all);
        assert!(
            (0.07..0.13).contains(&part),
            "{part} of the successes are above {} us",
            ESTIMATE.get(word) >> FRACTION
        );
    }
}
