//! Pacing: a client of a rate-limited service sleeps before its calls, so that few are rejected.

// | file | idea |
// |---|---|
// | `pacer` | `Pacer`: the state that threads share, and its calls |
// | `strategy` | `Strategy`: how long to sleep, as a pure state machine; `Moment` |
// | `hints` | `Hints`: what a response reports about the limit; `ReadHints` |
// | `paced_retry` | `PacedRetry`: the number and time of retries of a rejected call; `PacedAttempts`: one call in progress |
// | `seen_pause` | `SeenPause`: the pause that a sleeping call knows of |
// | `future` | `PacedRun` and `PacedFuture`: the calls of asynchronous code |
// | `level`, `remaining_decrease`, `proportional_decrease`, `gradual_decrease`, `exponential_backoff`, `cubic_rate`, `no_pacing` | a strategy each |
// | `growing_sleep` | the sleep of the strategies that grow it at a rejection |
// | `length` | `Length`: durations in 64 bits, with fractions of a nanosecond |

mod cubic_rate;
mod exponential_backoff;
mod future;
mod gradual_decrease;
mod growing_sleep;
mod hints;
mod length;
mod level;
mod no_pacing;
mod paced_retry;
mod pacer;
mod proportional_decrease;
mod remaining_decrease;
mod seen_pause;
mod strategy;
#[cfg(test)]
#[expect(
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "far less than the errors that are stated, and exact zeros"
)]
mod tests;

pub use cubic_rate::CubicRate;
pub use exponential_backoff::ExponentialBackoff;
pub use future::{PacedFuture, PacedRun};
pub use gradual_decrease::GradualDecrease;
pub use hints::{Hints, ReadHints};
pub use level::Level;
pub use no_pacing::NoPacing;
pub use paced_retry::{PacedAttempts, PacedRetry};
pub use pacer::Pacer;
pub use proportional_decrease::ProportionalDecrease;
pub use remaining_decrease::RemainingDecrease;
pub use seen_pause::SeenPause;
pub use strategy::{Moment, Strategy};
