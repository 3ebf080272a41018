//! The bulkhead: a limit on the calls in flight.

// | file | type |
// |---|---|
// | `bulkhead` | `Bulkhead`: constructors, permits, the limit; changes under the queue's lock |
// | `queue` | `Queue`: the waiting calls, in a slab of places |
// | `list` | `List`: doubly linked lists through the slab |
// | `permit` | `BulkheadPermit`, `BulkheadRef` |
// | `acquire` | `AcquirePermit`: how to wait for a permit; and blocking |
// | `future` | `AcquirePermitFuture`: waiting in a future |
// | `patience` | `Patience`: the longest wait of a call |
// | `expiry` | `Expiry`: the end of a wait, in ticks |
// | `status` | `BulkheadStatus`: the limit and the counts of one moment |
// | `error` | `BulkheadFull` and `FullCause` |
// | `in_flight` | a bulkhead in a `LimitSet`, and `LimitSetRefusal` |

// First, so that the documentation begins with how to create a bulkhead.
mod bulkhead;

#[cfg(feature = "alloc")]
mod acquire;
mod error;
#[cfg(feature = "alloc")]
pub(super) mod expiry;
#[cfg(feature = "alloc")]
mod future;
mod in_flight;
#[cfg(feature = "alloc")]
pub(super) mod list;
#[cfg(feature = "alloc")]
pub(super) mod patience;
pub(super) mod permit;
#[cfg(feature = "alloc")]
pub(super) mod queue;
mod status;

#[cfg(feature = "alloc")]
pub use acquire::AcquirePermit;
pub use bulkhead::Bulkhead;
pub use error::{BulkheadFull, FullCause};
#[cfg(feature = "alloc")]
pub use future::AcquirePermitFuture;
pub use in_flight::LimitSetRefusal;
pub use permit::{BulkheadPermit, BulkheadRef};
pub use status::BulkheadStatus;
