//! The bulkhead: a limit on the calls in flight.

// | file | type |
// |---|---|
// | `bulkhead` | `Bulkhead`: constructors, permits, the limit |
// | `arrivals` | `Arrivals`: the order in which its queue is served |
// | `permit` | `BulkheadPermit`, `BulkheadRef` |
// | `acquire` | `AcquirePermit`: how to wait for a permit; and blocking |
// | `future` | `AcquirePermitFuture`: waiting in a future |
// | `patience` | `Patience`: the longest wait of a call |
// | `status` | `BulkheadStatus`: the limit and the counts of one moment |
// | `error` | `BulkheadFull` and `FullCause` |
// | `in_flight` | a bulkhead in a `LimitSet`, and `LimitSetRefusal` |

// First, so that the documentation begins with how to create a bulkhead.
mod bulkhead;

#[cfg(feature = "alloc")]
mod acquire;
#[cfg(feature = "alloc")]
mod arrivals;
mod error;
#[cfg(feature = "alloc")]
mod future;
mod in_flight;
#[cfg(feature = "alloc")]
pub(super) mod patience;
pub(super) mod permit;
mod status;

#[cfg(feature = "alloc")]
pub use acquire::AcquirePermit;
#[cfg(feature = "alloc")]
pub(super) use arrivals::{Arrivals, Order};
pub use bulkhead::Bulkhead;
pub use error::{BulkheadFull, FullCause};
#[cfg(feature = "alloc")]
pub use future::AcquirePermitFuture;
pub use in_flight::LimitSetRefusal;
pub use permit::{BulkheadPermit, BulkheadRef};
pub use status::BulkheadStatus;
