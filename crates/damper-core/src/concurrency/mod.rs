//! Limits on how many calls are in flight at once.
//!
//! [`Bulkhead`] has a fixed limit, and [`AdaptiveLimit`] finds out itself how many calls the service can take. `KeyedBulkhead`
//! and `KeyedAdaptiveLimit` have one limit per key. `Admission` also chooses the calls that a server works on.
//!
//! A rate limit says how many calls may begin in a second; these say how many may be in flight. They hold however long each call
//! takes: when a service slows down, callers are refused, or wait in a short queue, and do not pile up.
//!
//! # Limits per key
//!
//! A limit in use is not evicted: one that a permit or a waiting call holds, or for which you hold an `Arc` or a `Weak`. So a key
//! never has more calls in flight than its limit, however many keys there are. If no other limit can be evicted, a call for a new
//! key is refused with [`RefusalCause::StoreFull`], before anything is allocated for it. The limit of an idle key that was evicted
//! starts over with the key's next call.
//!
//! The search for a victim covers a part of one shard only, and the next search goes on from there. So a large store that is
//! almost all in use may refuse a new key, although it has an idle limit. Measured on two cores: no new key was refused with up to
//! 75 % of a capacity of 1,024 in use, 13 % of them at 90 % and 38 % at 95 %. With a capacity of 10,000 or 100,000 none was
//! refused up to 95 %, and 43 % or 15 % at 99 %. With more cores the shards are smaller, at least 64 limits each. Choose a
//! capacity of at least four thirds of the keys that can be in use at once, and of twice as many below 1,000.
//!
//! `status` and `iter` are for dashboards: they copy the counts, hold no limit, and do not count as
//! a use.
//!
//! A client that chooses the keys gets a whole limit for each. Put one bulkhead for all keys before this, with a limit below the
//! capacity.

// | file | type |
// |---|---|
// | `slots` | `Slots`, the word of a bulkhead: its limit, the calls in flight, the calls queued |
// | `queue` | `SlotQueue`: the calls that wait for a slot, in an order that its user chooses |
// | `bulkhead` | `Bulkhead`: a limit that you choose, and its permits |
// | `adaptive` | `AdaptiveLimit`: a limit that follows the latency of calls; rules |
// | `keyed` | `KeyedBulkhead` and `KeyedAdaptiveLimit`: a limit of either kind per key |
// | `set_queue` | `SetQueue`: the calls that wait for a `LimitSet`, first come, first served |
// | `refusal_cause` | `RefusalCause`: why a call got no slot, from any of these limits |
// | `waiting` | `CostsRequest`: waits for a `LimitSet` or a `QuotaTree` |
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
mod refusal_cause;
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
    Admission, AdmissionPermit, AdmissionRequest, Criticality, FixedLimit, NotAdmitted, RunToDeadline,
};
pub(crate) use bulkhead::permit::sealed::Learning;
#[cfg(feature = "alloc")]
pub(crate) use bulkhead::permit::sealed::SlotRef;
pub use bulkhead::{Bulkhead, BulkheadFull, BulkheadPermit, BulkheadStatus, LimitSetRefusal};
#[cfg(feature = "alloc")]
pub(crate) use bulkhead::{BulkheadRef, Patience};
#[cfg(feature = "alloc")]
pub(crate) use bulkhead::{PermitFuture, PermitRequest};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use keyed::{KeyedAdaptiveLimit, KeyedBulkhead};
#[cfg(feature = "alloc")]
pub(crate) use queue::Expiry;
pub use refusal_cause::RefusalCause;
#[cfg(feature = "alloc")]
pub use set_queue::SetQueue;
#[cfg(feature = "alloc")]
pub(crate) use waiting::CostsRequest;
#[cfg(feature = "alloc")]
pub(crate) use waiting::{Denial, Turn, Waitable};
