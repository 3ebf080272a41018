//! Bodies that end whether or not their reader polls them.
//!
//! A server polls the body of a response only while the client takes its data. A client that reads nothing keeps the body, and the slot that
//! it holds, for as long as the connection lives. A [`TimedBody`] can be dropped by a timer instead: once the deadline of its call has passed,
//! or once a frame has waited for too long to be written.

// | file | idea |
// |---|---|
// | `body` | `TimedBody`: a body that its reader polls and that a timer may drop |
// | `limits` | `BodyLimits`: the deadline of a body, and the longest time for which its reader may stall; `ReaderStalled` |
// | `sweeper` | the timer: one task for each thread that serves such bodies |

mod body;
mod limits;
#[cfg(feature = "tokio")]
mod sweeper;

pub use body::TimedBody;
pub use limits::{BodyLimits, ReaderStalled, STALL_LIMIT};

type BoxError = alloc::boxed::Box<dyn core::error::Error + Send + Sync>;
