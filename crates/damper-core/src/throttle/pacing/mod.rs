//! Pacing: a client of a rate-limited service sleeps before its calls, so that few are rejected.

// | file | idea |
// |---|---|
// | `pacer` | `Pacer`: the state that threads share, and its calls; `SeenPause`: the pause that a sleeping call knows of |
// | `strategy` | `Strategy`: how long to sleep, as a pure state machine; `Moment`; `NoPacing`, which never sleeps |
// | `hints` | `Hints`: what a response reports about the limit |
// | `paced_retry` | `PacedRetry`: the number and time of retries of a rejected call; `PacedAttempts`: one call in progress |
// | `future` | `PacedFuture`: the calls of asynchronous code; `PacedOperation` |
// | `level`, `remaining_decrease` | a strategy each |
// | `growing_sleep` | the sleep of the strategies that grow it at a rejection |
// | `length` | `Length`: durations in 64 bits, with fractions of a nanosecond |

mod future;
pub(super) mod growing_sleep;
mod hints;
pub(super) mod length;
mod level;
mod paced_retry;
mod pacer;
mod remaining_decrease;
mod strategy;
#[cfg(all(test, feature = "compared"))]
#[expect(
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "far less than the errors that are stated, and exact zeros"
)]
mod tests;

pub use future::{PacedCalls, PacedFuture, PacedOperation};
pub use hints::Hints;
pub use level::Level;
pub use paced_retry::{PacedAttempts, PacedRetry};
pub use pacer::{Pacer, SeenPause};
pub use remaining_decrease::RemainingDecrease;
pub use strategy::{Moment, NoPacing, Strategy};
