//! The bulkhead: a limit on the calls in flight.

// | file | type |
// |---|---|
// | `bulkhead` | `Bulkhead`: constructors, permits, the limit, counts; what is done under the queue's lock |
// | `queue` | `Queue`: the calls that wait, in a slab of places |
// | `list` | `List`: doubly linked lists through the slab |
// | `permit` | `BulkheadPermit`, `BulkheadRef` |
// | `acquire` | `AcquirePermit`: how to wait for a permit; and blocking |
// | `future` | `AcquirePermitFuture`: waiting in a future |
// | `patience` | `Patience`: for how long a call waits |
// | `expiry` | `Expiry`: when a wait ends, in ticks |
// | `error` | `BulkheadFull` and `FullCause` |
// | `keyed_bulkhead` | `KeyedBulkhead`: one bulkhead per key |

// First, so that the documentation begins with how to create a bulkhead.
mod bulkhead;

#[cfg(feature = "alloc")]
mod acquire;
mod error;
#[cfg(feature = "alloc")]
pub(super) mod expiry;
#[cfg(feature = "alloc")]
mod future;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod keyed_bulkhead;
#[cfg(feature = "alloc")]
pub(super) mod list;
#[cfg(feature = "alloc")]
pub(super) mod patience;
pub(super) mod permit;
#[cfg(feature = "alloc")]
pub(super) mod queue;

#[cfg(feature = "alloc")]
pub use acquire::AcquirePermit;
pub use bulkhead::Bulkhead;
pub use error::{BulkheadFull, FullCause};
#[cfg(feature = "alloc")]
pub use future::AcquirePermitFuture;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use keyed_bulkhead::KeyedBulkhead;
pub use permit::{BulkheadPermit, BulkheadRef};
