//! The time that a piece of work may take: [`Deadline`].

// | file | idea |
// |---|---|
// | `deadline` | an instant on a clock, and how far ahead it was when it was set |
// | `detached` | work that continues after its caller's deadline |
// | `exceeded` | the error of work that took too long |
// | `usual_latency` | how long most successes of a healthy server take |
// | `skew_guard` | whether to trust deadlines that have passed on arrival |

mod deadline;
#[cfg(feature = "tokio")]
mod detached;
mod exceeded;
mod skew_guard;
pub(crate) mod usual_latency;

pub use deadline::Deadline;
#[cfg(feature = "tokio")]
pub use detached::Detached;
pub use exceeded::DeadlineExceeded;
pub use skew_guard::{Arrival, SkewGuard};
pub use usual_latency::UsualLatency;
