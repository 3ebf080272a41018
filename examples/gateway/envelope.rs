//! The flooder's tokens beside the promise of its quota.
//!
//! They are counted at the check itself, on the limiter's clock.

use damper::{Clock, Monotonic, Quota};
use parking_lot::Mutex;

/// Counts the checks of the flood, each between two readings of the clock.
#[derive(Debug, Default)]
pub(crate) struct FloodMeter(Mutex<Flood>);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flood {
    pub(crate) checks: u64,
    pub(crate) allowed: u64,
    /// Ticks in which all checks lie: from before the first one to after the last one.
    outer: Option<(u64, u64)>,
    /// Ticks between the first check and the last one: from after the first to before the last.
    inner: Option<(u64, u64)>,
}

impl FloodMeter {
    /// Makes a check and counts it.
    pub(crate) fn count<T, E>(&self, check: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let before = Monotonic.now();
        let result = check();
        let after = Monotonic.now();
        let mut flood = self.0.lock();
        flood.checks += 1;
        flood.allowed += u64::from(result.is_ok());
        // Threads come here in any order.
        flood.outer = Some(flood.outer.map_or((before, after), |(first, last)| (first.min(before), last.max(after))));
        flood.inner = Some(flood.inner.map_or((after, before), |(first, last)| (first.min(after), last.max(before))));
        result
    }

    pub(crate) fn read(&self) -> Flood {
        *self.0.lock()
    }
}

impl Flood {
    /// The longest time that can have passed from the first check to the last one, in ticks.
    pub(crate) fn at_most(&self) -> u64 {
        self.outer.map_or(0, |(first, last)| last.saturating_sub(first))
    }

    /// The shortest.
    pub(crate) fn at_least(&self) -> u64 {
        self.inner.map_or(0, |(first, last)| last.saturating_sub(first))
    }
}

/// A quota's promise for a stretch of time: `burst + rate · t`, in integers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    burst: u128,
    /// Per second.
    rate: u128,
    /// Ticks per second.
    frequency: u128,
}

impl Envelope {
    /// The promise of a quota per second.
    pub(crate) fn new(quota: &Quota, frequency: u64) -> Self {
        Self { burst: quota.burst_size().into(), rate: quota.limit().into(), frequency: frequency.max(1).into() }
    }

    /// The most whole tokens that may be allowed in `ticks`.
    ///
    /// Time is counted in ticks, so one more may have begun.
    pub(crate) fn most(&self, ticks: u64) -> u64 {
        ((self.burst * self.frequency + self.rate * (u128::from(ticks) + 1)) / self.frequency) as u64
    }

    /// 98 % of the tokens that drip in and were saved up, in whole tokens.
    ///
    /// A client that asks for much more must be allowed so many.
    pub(crate) fn least(&self, ticks: u64) -> u64 {
        ((self.burst * self.frequency + self.rate * u128::from(ticks)) * 98 / (self.frequency * 100)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{Envelope, FloodMeter};
    use damper::{ManualClock, Quota, RateLimiter};
    use std::time::Duration;

    const QUOTA: Quota = Quota::per_second(50).burst(100);

    #[test]
    fn the_bounds_are_those_of_the_quota() {
        let envelope = Envelope::new(&QUOTA, 1_000);
        assert_eq!((envelope.most(0), envelope.least(0)), (100, 98));
        assert_eq!((envelope.most(3_000), envelope.least(3_000)), (250, 245));
        // The tick that may have begun completes a token.
        assert_eq!((envelope.most(19), envelope.most(18)), (101, 100));
        let slow = Envelope::new(&Quota::per_second(1).burst(1), 1_000_000_000);
        assert_eq!((slow.most(2_999_999_998), slow.least(3_000_000_000)), (3, 3));
    }

    #[test]
    fn a_flood_of_a_real_limiter_lies_between_them() {
        let clock = ManualClock::new();
        let limiter = RateLimiter::with_clock(QUOTA, &clock);
        let allowed = (0..600)
            .filter(|_| {
                let allowed = limiter.check().is_ok();
                clock.advance(Duration::from_millis(5));
                allowed
            })
            .count() as u64;
        let envelope = Envelope::new(&QUOTA, 1_000_000_000);
        let elapsed = 599 * 5_000_000;
        assert!((envelope.least(elapsed)..=envelope.most(elapsed)).contains(&allowed), "{allowed}");
    }

    #[test]
    fn the_meter_counts_what_passes_through_it() {
        let meter = FloodMeter::default();
        let limiter = RateLimiter::new(Quota::per_hour(1).burst(2));
        for _ in 0..5 {
            let _ = meter.count(|| limiter.check());
        }
        let flood = meter.read();
        assert_eq!((flood.checks, flood.allowed), (5, 2));
        assert!(flood.at_least() <= flood.at_most());
    }
}
