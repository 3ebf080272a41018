//! The time that a piece of work may take: [`Deadline`].

// | file | idea |
// |---|---|
// | `deadline` | an instant on a clock, and how long it was ahead when it was set |
// | `exceeded` | the error of work that took too long |

mod deadline;
mod exceeded;

pub use deadline::Deadline;
pub use exceeded::DeadlineExceeded;
