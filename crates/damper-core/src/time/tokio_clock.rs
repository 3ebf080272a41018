//! tokio's time as a clock.

use super::Clock;
use tokio::time::Instant;

/// Nanoseconds of tokio's time since this value was made.
///
/// In a test it stands still where tokio's time is paused, and advances when all tasks wait. So limits, breakers, waits, layers and the
/// timeouts of the service under test have one time. Otherwise it is the system's monotonic clock. Make it in the runtime, after its
/// time was paused. Copies count from the same moment.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::time::TokioClock;
/// use damper::{Quota, RateLimiter};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn run() {
/// // In a test with `#[tokio::test(start_paused = true)]`:
/// let start = tokio::time::Instant::now();
/// let limit = RateLimiter::with_clock(Quota::per_minute(1), TokioClock::new());
/// limit.acquire(1).await.unwrap();
/// limit.acquire(1).await.unwrap(); // waits for a minute, which takes no time
/// assert!(start.elapsed() >= Duration::from_secs(60));
///
/// tokio::time::advance(Duration::from_secs(60)).await;
/// assert!(limit.check().is_ok());
/// # }
/// # run();
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg(feature = "tokio")]
pub struct TokioClock {
    origin: Instant,
}

impl TokioClock {
    /// A clock that reads 0 now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
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

    /// 1 ms, as of [`StdClock`](super::StdClock).
    #[inline]
    fn max_step_back(&self) -> u64 {
        1_000_000
    }
}
