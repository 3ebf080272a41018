//! A token bucket in exact rationals: level, refill, take.
//!
//! It has no words and no wrap, and rounds nothing.

use damper::{ManualClock, Quota, RateLimiter};

/// All amounts are in tokens times `scale`, so that a tick adds a whole number.
#[derive(Debug)]
pub(crate) struct ExactBucket {
    /// The factor that makes all token amounts whole numbers.
    scale: i128,
    /// The amount added per tick.
    tick: i128,
    burst: i128,
    level: i128,
}

impl ExactBucket {
    /// A full bucket of `quota` on a clock of `frequency` ticks per second.
    pub(crate) fn new(quota: Quota, frequency: u64) -> Self {
        let scale = i128::try_from(quota.window().as_nanos()).unwrap() * i128::from(frequency);
        let tick = i128::from(quota.limit()) * 1_000_000_000;
        let common = divisor(scale, tick);
        let burst = i128::from(quota.burst_size()) * (scale / common);
        Self { scale: scale / common, tick: tick / common, burst, level: burst }
    }

    /// Sets another quota. Tokens missing from a full bucket stay missing.
    pub(crate) fn change(&mut self, quota: Quota, frequency: u64) {
        let next = Self::new(quota, frequency);
        let common = divisor(self.scale, next.scale);
        let (factor, missing) = (self.scale / common, (self.burst - self.level) * (next.scale / common));
        let burst = next.burst * factor;
        *self = Self { scale: next.scale * factor, tick: next.tick * factor, burst, level: burst - missing };
    }

    /// Whether `n` tokens are available, or will be after this many ticks of `other`.
    pub(crate) fn will_have_by_ticks_of(&self, n: u32, ticks: i128, other: &Self) -> bool {
        let common = divisor(self.scale, other.scale);
        let missing = (i128::from(n) * self.scale - self.level) * (other.scale / common);
        missing <= ticks * other.tick * (self.scale / common)
    }

    /// Lets `ticks` pass.
    pub(crate) fn pass(&mut self, ticks: u64) {
        self.level = self.burst.min(self.level + i128::from(ticks) * self.tick);
    }

    /// Whether `n` tokens are available.
    pub(crate) fn has(&self, n: u32) -> bool {
        self.level >= i128::from(n) * self.scale
    }

    /// Whether `n` tokens are available, or will be after this many ticks.
    pub(crate) fn will_have(&self, n: u32, ticks: i128) -> bool {
        self.level + ticks * self.tick >= i128::from(n) * self.scale
    }

    /// Returns the ticks in which this many bursts are refilled, rounded down, or 0 if they never are.
    pub(crate) fn ticks_for_bursts(&self, bursts: i128) -> i128 {
        self.burst.checked_mul(bursts).and_then(|amount| amount.checked_div(self.tick)).unwrap_or(0)
    }

    /// Takes `n` tokens, even if a fraction of the last one is missing.
    pub(crate) fn take(&mut self, n: u32) {
        self.level -= i128::from(n) * self.scale;
    }

    /// Gives back `n` tokens, as far as the bucket has room.
    pub(crate) fn give_back(&mut self, n: u32) {
        self.level = self.burst.min(self.level + i128::from(n) * self.scale);
    }

    /// Returns the tokens that are available after this many ticks, rounded down.
    pub(crate) fn tokens_after(&self, ticks: i128) -> i128 {
        (self.level + ticks * self.tick).div_euclid(self.scale)
    }

    /// Returns the available tokens, rounded down.
    pub(crate) fn tokens(&self) -> i128 {
        self.level.div_euclid(self.scale)
    }

    /// Returns the ticks until `n` tokens are available, rounded up, or `None` if they never are.
    pub(crate) fn wait(&self, n: u32) -> Option<i128> {
        let missing = i128::from(n) * self.scale - self.level;
        match (missing, self.tick) {
            (..=0, _) => Some(0),
            (_, 0) => None,
            (missing, tick) => Some(missing.div_euclid(tick) + i128::from(missing % tick != 0)),
        }
    }

    /// Returns the whole tokens refilled per tick.
    pub(crate) fn tokens_in_a_tick(&self) -> u64 {
        u64::try_from(self.tick / self.scale).unwrap()
    }
}

/// Returns the greatest common divisor of numbers that are not both 0.
fn divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// How far the clock moves before a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// By this many ticks.
    Pass(u64),
    /// To the moment at which the model has the tokens, plus or minus this many ticks.
    Nearly(i8),
    /// To the moment at which the tokens are available.
    Wait,
}

/// Runs a history of calls, each with its number of tokens, through a limiter and the model.
///
/// No token may be late, and none more than a tick early. If the deepest debt takes more than 2^58 ticks to refill,
/// which are 9 years of nanoseconds, tokens may be early by that fraction of the time.
pub(crate) fn compare(quota: Quota, frequency: u64, start: u64, steps: impl IntoIterator<Item = (Step, u32)>) {
    let clock = ManualClock::with_frequency(frequency);
    clock.set_ticks(start);
    let limiter = RateLimiter::with_clock(quota, &clock);
    let mut model = ExactBucket::new(quota, frequency);
    assert!(limiter.check_n(0).is_ok(), "this call starts the line");
    // A bucket is read correctly for half a cycle after its last use, or less near the line's start. A tick is worth at
    // least 4 units, or its tokens if those are more.
    let longest = (1 << 62) / model.tokens_in_a_tick().max(4);
    let early = 1 + (model.ticks_for_bursts(11) >> 58);
    let (mut untouched, mut passed) = (0, 0);
    for (step, n) in steps {
        let wait = || model.wait(n).unwrap_or(0);
        let ticks = match step {
            Step::Pass(ticks) => ticks,
            Step::Nearly(off) => u64::try_from((wait() + i128::from(off)).max(0)).unwrap_or(u64::MAX),
            Step::Wait => u64::try_from(wait()).unwrap_or(u64::MAX),
        };
        // A line lasts 2^63 ticks, which at 4 units a tick is twice the cycle. It may have started a tick early.
        let ticks = ticks.min(longest - untouched).min(i64::MAX as u64 - 1 - passed);
        untouched += ticks;
        passed += ticks;
        clock.advance_ticks(ticks);
        model.pass(ticks);
        let waiting_helps = n <= quota.burst_size();
        match limiter.check_n(n) {
            Ok(allowed) => {
                assert!(waiting_helps && (n == 0 || model.will_have(n, early)), "{n} of {model:?}: too early");
                model.take(n);
                untouched = if n == 0 { untouched } else { 0 };
                let left = allowed.remaining();
                assert!(
                    i128::from(left) >= model.tokens().max(0) && (left == 0 || model.will_have(left, early)),
                    "{left} left of {model:?}, {early}"
                );
            }
            Err(denied) => {
                assert!(!waiting_helps || !model.has(n), "{n} of {model:?}: late");
                assert_eq!(denied.exceeds_burst(), !waiting_helps);
                assert!(!waiting_helps || denied.retry_after().is_none() == model.wait(n).is_none());
            }
        }
    }
}
