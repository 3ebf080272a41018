//! A clock that is moved by hand.

use super::Clock;
use crate::sync::{AtomicU64, Ordering, const_unless_loom};
use core::time::Duration;

/// Stands still until it is moved: for tests and simulations.
///
/// Starts at tick 0. Shared by reference, or by `Arc` with the feature `alloc`.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::{ManualClock, Quota, RateLimiter};
///
/// let clock = ManualClock::new();
/// let limiter = RateLimiter::with_clock(Quota::per_second(10).burst(1), &clock);
/// assert!(limiter.check().is_ok());
/// assert_eq!(limiter.check().unwrap_err().retry_after(), Some(Duration::from_millis(100)));
/// clock.advance(Duration::from_millis(100));
/// assert!(limiter.check().is_ok());
/// ```
#[derive(Debug)]
pub struct ManualClock {
    ticks: AtomicU64,
    frequency: u64,
}

impl ManualClock {
    const_unless_loom! {
        /// A clock of one tick per nanosecond.
        #[must_use]
        pub const fn new() -> Self {
            Self::with_frequency(1_000_000_000)
        }

        /// A clock of `frequency` ticks per second. With 0, a limiter on it never refills.
        #[must_use]
        pub const fn with_frequency(frequency: u64) -> Self {
            Self { ticks: AtomicU64::new(0), frequency }
        }
    }

    /// Moves the clock forward by `duration`, rounded down to whole ticks; the ticks wrap.
    pub fn advance(&self, duration: Duration) {
        self.advance_ticks(self.ticks_in(duration));
    }

    /// Moves the clock forward by `ticks`; the ticks wrap.
    pub fn advance_ticks(&self, ticks: u64) {
        // ORDERING: Relaxed. The reading is the whole state. A program that needs more than the time to be visible has
        // to synchronise by other means, as with a real clock.
        self.ticks.fetch_add(ticks, Ordering::Relaxed);
    }

    /// Moves the clock back by `duration`, rounded down to whole ticks.
    ///
    /// A clock must not do that; this is for tests of clocks that do.
    pub fn step_back(&self, duration: Duration) {
        // ORDERING: Relaxed, as in `advance_ticks`.
        self.ticks.fetch_sub(self.ticks_in(duration), Ordering::Relaxed);
    }

    /// Sets the clock to a tick.
    pub fn set_ticks(&self, ticks: u64) {
        // ORDERING: Relaxed, as in `advance_ticks`.
        self.ticks.store(ticks, Ordering::Relaxed);
    }

    fn ticks_in(&self, duration: Duration) -> u64 {
        // Below 2^128: a `Duration` is less than 2^94 ns; what is beyond 64 bits wraps like the ticks themselves.
        let whole = u128::from(duration.as_secs()) * u128::from(self.frequency);
        let part = u128::from(duration.subsec_nanos()) * u128::from(self.frequency) / 1_000_000_000;
        (whole + part) as u64
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> u64 {
        // ORDERING: Relaxed, as in `advance_ticks`.
        self.ticks.load(Ordering::Relaxed)
    }

    #[inline]
    fn frequency(&self) -> u64 {
        self.frequency
    }
}
