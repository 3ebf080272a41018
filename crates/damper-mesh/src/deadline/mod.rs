//! Deadlines as Mesh writes them.

// | file | idea |
// |---|---|
// | `specified` | a deadline as it is written: a duration, or an instant |
// | `error` | why a deadline could not be read |
// | `receipt` | the receipt of a request, from which its deadline counts |
// | `received` | the deadline of a received request, and the part sent downstream |
// | `report` | the deadline report of a response |
// | `run` | work that a deadline ends |

mod receipt;
mod received;
mod report;
mod run;
mod specified;

pub use receipt::Receipt;
pub use received::ReceivedDeadline;
pub use report::DeadlineReport;
pub(crate) use specified::malformed;
pub use specified::{Iso8601, SpecifiedDeadline};

pub(crate) use run::{Expired, run_until};

/// The extension that carries deadlines.
pub const DEADLINE_URN: &str = "urn:mesh:ext:deadline";
