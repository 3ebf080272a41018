//! Limits on how many calls are in flight at once.
//!
//! [`Bulkhead`] has a fixed limit, and [`AdaptiveLimit`] finds out itself how many calls the service can take. `KeyedBulkhead`
//! and `KeyedAdaptiveLimit` have one limit per key. `Admission` also chooses the calls that a server works on.
//!
//! A rate limit says how many calls may begin in a second; these say how many may be in flight. They hold however long each call
//! takes: when a service slows down, callers are refused, or wait in a short queue, and do not pile up.

// | file | type |
// |---|---|
// | `slots` | `Slots`, the word of a bulkhead: its limit, the calls in flight, the calls queued |
// | `queue` | `SlotQueue`: the calls that wait for a slot, in an order that its user chooses |
// | `bulkhead` | `Bulkhead`: a limit that you choose, and its permits |
// | `adaptive` | `AdaptiveLimit`: a limit that follows the latency of calls; rules |
// | `keyed` | `KeyedBulkhead` and `KeyedAdaptiveLimit`: a limit of either kind per key |
// | `set_queue` | `SetQueue`: the calls that wait for a `LimitSet`, first come, first served |
// | `waiting` | `AcquireCosts`: waits for a `LimitSet` or a `QuotaTree` |
// | `admission` | `Admission`: a limit, classes, tenants and deadlines in one decision |

mod adaptive;
#[cfg(feature = "alloc")]
mod admission;
mod bulkhead;
#[cfg(feature = "compared")]
pub mod compared;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod keyed;
#[cfg(feature = "alloc")]
mod queue;
#[cfg(feature = "alloc")]
mod set_queue;
mod slots;
#[cfg(feature = "alloc")]
mod waiting;

pub use adaptive::{
    AdaptiveLimit, BoundedRule, LimitBounds, LimitRule, Outcome, ProbedGradient, WindowPlan, WindowSummary,
};
#[cfg(feature = "alloc")]
pub use admission::{
    AcquireAdmission, AcquireAdmissionFuture, Admission, AdmissionPermit, AdmissionRequest, Criticality, FixedLimit,
    NotAdmitted, RefusalCause, RunToDeadline,
};
pub(crate) use bulkhead::permit::sealed::Learning;
#[cfg(feature = "alloc")]
pub(crate) use bulkhead::permit::sealed::SlotRef;
#[cfg(feature = "alloc")]
pub use bulkhead::{AcquirePermit, AcquirePermitFuture};
pub use bulkhead::{Bulkhead, BulkheadFull, BulkheadPermit, BulkheadStatus, FullCause, LimitSetRefusal};
#[cfg(feature = "alloc")]
pub(crate) use bulkhead::{BulkheadRef, Patience};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use keyed::{KeyedAdaptiveLimit, KeyedBulkhead, LimitTemplate};
#[cfg(feature = "alloc")]
pub(crate) use queue::Expiry;
#[cfg(feature = "alloc")]
pub use set_queue::{SetQueue, SetQueueRefusal};
#[cfg(feature = "alloc")]
pub use waiting::{AcquireCosts, AcquireCostsFuture};
#[cfg(feature = "alloc")]
pub(crate) use waiting::{Denial, Turn, Waitable};
