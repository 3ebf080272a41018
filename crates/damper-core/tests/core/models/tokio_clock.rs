//! tokio's time as a clock.

use damper::Clock;
use tokio::time::Instant;

/// tokio's time as a clock.
///
/// It stands still where a test has paused it, and advances when all tasks wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokioClock(pub(crate) Instant);

impl Clock for TokioClock {
    fn now(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}
