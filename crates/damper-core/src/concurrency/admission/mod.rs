//! One gate before a server: a limit, classes, tenants and deadlines in one decision.

// | file | type |
// |---|---|
// | `admission` | `Admission`: constructors, permits, the limit, counts |
// | `criticality` | `Criticality`: the class of a call |
// | `request` | `AdmissionRequest`: the class, tenant and deadline of a call; `Entrant`, the same on the gate's clock |
// | `classes` | `Classes`: the order in which its queue is served |
// | `shares` | `Shares`: the starts that the tenants of a class were given, and their waiting calls |
// | `median` | `RecentMedian`: of service times |
// | `permit` | the permits of an `Admission`, how to wait for them; `AdmissionRef` |
// | `run` | `RunToDeadline`: a call that is ended at its deadline |
// | `fixed_limit` | `FixedLimit`: the rule of a limit that you choose |
// | `error` | `NotAdmitted` and `RefusalCause` |

// First, so that the documentation begins with how to create a gate.
mod admission;

mod classes;
mod criticality;
mod error;
mod fixed_limit;
mod median;
mod permit;
mod request;
mod run;
mod shares;

pub use admission::Admission;
#[cfg(test)]
pub(super) use classes::Classes;
pub use criticality::Criticality;
pub use error::{NotAdmitted, RefusalCause};
pub use fixed_limit::FixedLimit;
pub use permit::{AdmissionPermit, AdmissionRef, Admit, AdmitFuture};
pub use request::AdmissionRequest;
pub use run::RunToDeadline;
