//! The time that a piece of work may take: [`Deadline`].

// | file | idea |
// |---|---|
// | `deadline` | an instant on a clock, and how long it was ahead when it was set |
// | `exceeded` | the error of work that took too long |
// | `skew_guard` | whether to believe deadlines that have passed on arrival |

mod deadline;
mod exceeded;
mod skew_guard;

pub use deadline::Deadline;
pub use exceeded::DeadlineExceeded;
pub use skew_guard::{Arrival, SkewGuard};
