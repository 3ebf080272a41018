//! The end of a wait.

use crate::concurrency::bulkhead::permit::sealed::QueueClock;
use crate::time::{Frequency, Ticks};
use core::time::Duration;

/// The farthest that an expiry lies ahead, in ticks; in nanoseconds that is 146 years.
///
/// The sign of a difference shows whether the expiry has passed.
const FARTHEST: u64 = 1 << 62;

/// When a wait ends, in ticks of a clock.
#[derive(Clone, Copy, Debug)]
pub struct Expiry(u64);

impl Expiry {
    /// Returns the end of a wait that begins now. A wait that is not zero takes one tick at least.
    pub(crate) fn after(wait: Duration, clock: &impl QueueClock) -> Self {
        let ticks = Ticks::within(wait, Frequency::from_hertz(clock.frequency())).count();
        let ticks = ticks.clamp(u64::from(!wait.is_zero()), FARTHEST);
        Self(clock.tick().wrapping_add(ticks))
    }

    /// Returns whether the expiry has passed at this tick.
    pub(crate) fn has_passed(self, now: u64) -> bool {
        self.until(now) <= 0
    }

    /// Returns the time until then, rounded up; the longest possible on a clock that stands still.
    pub(crate) fn remaining(self, clock: &impl QueueClock) -> Duration {
        let ticks = Ticks::new(u64::try_from(self.until(clock.tick())).unwrap_or(0));
        ticks.duration(Frequency::from_hertz(clock.frequency())).unwrap_or(Duration::MAX)
    }

    /// Returns the tick of the expiry.
    pub(crate) fn tick(self) -> u64 {
        self.0
    }

    /// Returns the earlier one.
    pub(crate) fn earlier(self, other: Self) -> Self {
        if self.until(other.0) > 0 { other } else { self }
    }

    /// Returns the ticks from `now` on.
    fn until(self, now: u64) -> i64 {
        self.0.wrapping_sub(now) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::ManualClock;

    #[test]
    fn wait_ends_when_its_time_has_elapsed() {
        let clock = ManualClock::new();
        let expiry = Expiry::after(Duration::from_millis(3), &clock);
        assert_eq!(expiry.remaining(&clock), Duration::from_millis(3));
        clock.advance(Duration::from_nanos(2_999_999));
        assert!(!expiry.has_passed(clock.tick()));
        assert_eq!(expiry.remaining(&clock), Duration::from_nanos(1));
        clock.advance(Duration::from_nanos(1));
        assert!(expiry.has_passed(clock.tick()));
        assert!(Expiry::after(Duration::ZERO, &clock).has_passed(clock.tick()));
        assert!(!Expiry::after(Duration::MAX, &clock).has_passed(clock.tick()));
        let later = Expiry::after(Duration::from_secs(1), &clock);
        assert!(expiry.earlier(later).has_passed(clock.tick()) && later.earlier(expiry).has_passed(clock.tick()));
    }
}
