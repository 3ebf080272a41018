//! Waiting for tokens, first come first served.
//!
//! To wait is to reserve: a waiter takes the tokens now and learns when they may be used. This keeps the order of the
//! waiters without a queue. A token wakes only the waiter that it belongs to. The whole rate is used, however many
//! callers wait.
//!
//! **The position.** The instants at which a quota's tokens arrive form a line (`quota::timeline` explains it). A
//! waiter keeps the position on this line at which its tokens may be used. So the bucket's word is the queue. A change
//! of the quota or a refund changes when each position is reached, and so moves all waiters at once.
//!
//! - A waiting thread sleeps on a condition variable. Refunds and changes of the quota notify it.
//! - A waiting future registers nothing and allocates nothing. It looks again at least once a second.
//!
//! **Cancelling.** A cancelled wait gives its tokens back only if no other tokens were taken since. Otherwise the
//! limiter would allow too much when two waits are cancelled out of order.
//!
//! **Settling.** A reservation whose tokens are available gives the unused ones back as a refund. Before that, a refund
//! would hand tokens that do not exist yet to the waiter in front. So until then a reservation gives tokens back only
//! if no other tokens were taken since, like a cancelled wait.
//!
//! A wait for the tokens of a key works in the same way, on the word of the key's slot (`keyed/table/waiting.rs`).

// | file | idea |
// |---|---|
// | `queue` | `Queue`: a limiter or a key that callers can wait for; `Place`: the tokens that a waiter has taken |
// | `acquire` | `TokensRequest`: how many tokens to wait for, how long and with what jitter; and the blocking wait |
// | `future` | `TokensFuture`: the wait in a future |
// | `paced` | streams and sinks whose items wait |

mod acquire;
mod future;
#[cfg(feature = "futures")]
mod paced;
mod queue;

pub(crate) use acquire::TokensRequest;
pub(crate) use future::TokensFuture;
#[cfg(feature = "futures")]
pub use paced::Paced;
pub(crate) use queue::Place;
pub(crate) use queue::Queue;
