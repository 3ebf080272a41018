//! Waiting for several limits at once, first come, first served.
//!
//! Only the first call of the queue asks the limits, and it takes nothing before all of them allow it. Tokens that were
//! taken in advance, as [`RateLimiter::acquire`](crate::RateLimiter::acquire) takes them, would be used late where another
//! limit holds the call up: many calls would then begin at once, beyond the envelope of the first limit.
//!
//! **The turn** to ask is a word with one slot, and the other calls wait for that slot in the order of their arrival. The call
//! with the turn leaves its waker under a lock and then asks the limits. A settlement gives its tokens back first and takes that
//! waker afterwards. So a settlement that comes after the question always finds the waker.

// | file | idea |
// |---|---|
// | `queue` | `SetQueue`: the turn to ask, the waker of the first call; methods of a set with a queue |
// | `stay` | `Stay`: one call's way through the queue, in steps |
// | `acquire` | `SetAcquire`: how to wait; and blocking |
// | `future` | `SetAcquireFuture`: waiting in a future |
// | `error` | `SetQueueRefusal` |

mod acquire;
mod error;
mod future;
mod queue;
mod stay;

pub use acquire::SetAcquire;
pub use error::SetQueueRefusal;
pub use future::SetAcquireFuture;
pub use queue::{QueuedSetRef, SetQueue};
