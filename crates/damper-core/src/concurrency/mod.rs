//! Limits on how many calls are in flight at once: [`Bulkhead`]; `KeyedBulkhead`, which is one per key; [`AdaptiveLimit`], which
//! finds out itself how many the service can take; and `Admission`, which also chooses the calls that a server works on.
//!
//! A rate limit says how many calls may begin in a second; this says how many may be under way. It holds whatever each of them
//! takes: when a service slows down, callers are refused, or wait in a short queue, and do not pile up.

// | file | type |
// |---|---|
// | `slots` | `Slots`, the word of a bulkhead: its limit, the calls in flight, the calls queued |
// | `bulkhead` | `Bulkhead`: a limit that you choose; its permits and its queue; `KeyedBulkhead` |
// | `adaptive` | `AdaptiveLimit`: a limit that follows the latency of calls; rules |
// | `admission` | `Admission`: a limit, classes, tenants and deadlines in one decision |

mod adaptive;
#[cfg(feature = "alloc")]
mod admission;
mod bulkhead;
mod slots;

pub use adaptive::{
    AdaptiveLimit, Aimd, Gradient2, LimitBounds, LimitBoundsError, LimitRule, Outcome, ProbedGradient, Vegas,
    WindowPlan, WindowSummary,
};
#[cfg(feature = "alloc")]
pub use admission::{
    Admission, AdmissionPermit, AdmissionRef, AdmissionRequest, Admit, AdmitFuture, Criticality, FixedLimit,
    NotAdmitted, RefusalCause, RunToDeadline,
};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use bulkhead::KeyedBulkhead;
#[cfg(feature = "alloc")]
pub use bulkhead::{AcquirePermit, AcquirePermitFuture};
pub use bulkhead::{Bulkhead, BulkheadFull, BulkheadPermit, BulkheadRef, FullCause};
