//! Waiting for tokens, first come first served.
//!
//! To wait is to reserve: a waiter takes the tokens now and learns when they are good. This keeps an order without a
//! queue, wakes one waiter for one token, and uses the whole rate however many wait.

// | file | idea |
// |---|---|
// | `queue` | what can be waited for |
// | `acquire` | how to wait: for how many tokens, how long, with what jitter; and blocking |
// | `future` | waiting in a future |
// | `paced` | streams and sinks whose items wait |

mod acquire;
mod future;
#[cfg(feature = "futures")]
mod paced;
mod queue;

pub use acquire::Acquire;
pub use future::AcquireFuture;
#[cfg(feature = "futures")]
pub use paced::{PacedSink, PacedStream};
pub(crate) use queue::Place;
pub use queue::Queue;
