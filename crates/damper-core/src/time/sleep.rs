//! Timers by which a future sleeps.

use core::time::Duration;

/// Sleeps: a runtime's timer.
///
/// Every function from a [`Duration`] to a future is one, such as `tokio::time::sleep` or `async_io::Timer::after` in a
/// closure. Sleeping longer than asked for is late, sleeping shorter costs another look.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot sleep",
    note = "name a function from a `Duration` to a future, such as `tokio::time::sleep`"
)]
pub trait Sleep {
    /// The future of a sleep.
    type Sleeping: Future;

    /// Begins to sleep for so long.
    fn sleep(&self, duration: Duration) -> Self::Sleeping;
}

impl<S: Fn(Duration) -> F, F: Future> Sleep for S {
    type Sleeping = F;

    fn sleep(&self, duration: Duration) -> F {
        self(duration)
    }
}

/// Sleeps by tokio's timer, which has to be enabled on the runtime.
#[cfg(feature = "tokio")]
#[derive(Clone, Copy, Debug, Default)]
#[cfg(feature = "tokio")]
pub struct TokioSleep;

#[cfg(feature = "tokio")]
impl Sleep for TokioSleep {
    type Sleeping = tokio::time::Sleep;

    fn sleep(&self, duration: Duration) -> tokio::time::Sleep {
        tokio::time::sleep(duration)
    }
}
