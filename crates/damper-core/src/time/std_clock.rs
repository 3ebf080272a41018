//! The clock of the standard library.

use super::Clock;
use std::time::Instant;

/// Nanoseconds of the system's monotonic clock, [`Instant`], since this value was made.
///
/// It needs no calibration and drifts as little as the system's clock, but a reading costs more than twice as much as
/// [`Monotonic`](super::Monotonic)'s. Copies count from the same moment, so that limiters can share it by value.
///
/// There is no `const` constructor, because an [`Instant`] has to be read: in a `static` it takes a
/// [`LazyLock`](std::sync::LazyLock).
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::{Quota, RateLimiter, StdClock, TokenBucket};
/// use std::sync::LazyLock;
///
/// static LOGINS: LazyLock<RateLimiter<TokenBucket, StdClock>> =
///     LazyLock::new(|| RateLimiter::with_clock(Quota::per_minute(30).burst(1), StdClock::new()));
///
/// assert!(LOGINS.check().is_ok());
/// assert!(LOGINS.check().is_err());
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg(feature = "std")]
pub struct StdClock {
    origin: Instant,
}

impl StdClock {
    /// A clock that reads 0 now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for StdClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for StdClock {
    /// Wraps after 584 years.
    #[inline]
    fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// 10^9.
    #[inline]
    fn frequency(&self) -> u64 {
        1_000_000_000
    }

    /// 1 ms: a processor may read the clock a little before the word that stands first in the program.
    #[inline]
    fn max_step_back(&self) -> u64 {
        1_000_000
    }
}
