//! Waiting for tokens, first come first served.
//!
//! To wait is to reserve: who waits takes the tokens now and is told when they are there. So there is an order without
//! a queue, no herd wakes for one token, and the rate is used up however many wait.
//!
//! | file | idea |
//! |---|---|
//! | `turn` | how to wait: for how many, for how long, with what jitter; and to block |
//! | `ready` | to wait in a future |
//! | `sleep` | what a future sleeps by |
//! | `paced` | streams and sinks whose items wait |

#[cfg(feature = "futures")]
mod paced;
mod ready;
mod sleep;
mod turn;

#[cfg(feature = "futures")]
pub use paced::{PacedSink, PacedStream};
pub use ready::Ready;
pub use sleep::Sleep;
#[cfg(feature = "tokio")]
pub use sleep::TokioSleep;
pub use turn::Turn;
