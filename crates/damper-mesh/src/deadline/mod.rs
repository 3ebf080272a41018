//! Deadlines as Mesh writes them.

// | file | idea |
// |---|---|
// | `specified` | a deadline as it is written: a duration, or an instant |
// | `error` | why one could not be read |
// | `receipt` | when a request was received, from which its deadline counts |
// | `received` | the deadline of a request that was received, and what of it goes downstream |
// | `report` | the deadline report of an answer |
// | `run` | work that a deadline ends |

mod error;
mod receipt;
mod received;
mod report;
mod run;
mod specified;

pub use error::DeadlineError;
pub use receipt::Receipt;
pub use received::ReceivedDeadline;
pub use report::DeadlineReport;
pub use specified::{Iso8601, SpecifiedDeadline};

pub(crate) use run::{Expired, run_until};

/// The extension that carries deadlines.
pub const DEADLINE_URN: &str = "urn:mesh:ext:deadline";
