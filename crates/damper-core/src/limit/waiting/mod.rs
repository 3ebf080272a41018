//! Waiting for tokens, first come first served.
//!
//! To wait is to reserve: a waiter takes the tokens now and learns when they may be used. This keeps an order without
//! a queue, wakes one waiter for one token, and uses the whole rate however many callers wait.
//!
//! **The position.** A waiter keeps the position on the quota's line of tokens at which its tokens may be used
//! (`quota::timeline` explains lines). So the bucket's word itself is the queue, and a change of the quota or a refund
//! moves all waiters at once. A thread sleeps on a condition variable that changes of the quota and refunds notify. A
//! future registers nothing and allocates nothing: it looks again at least once a second.
//!
//! **Cancelling.** A cancelled wait gives its tokens back only if no thread has taken any since. Otherwise the limiter
//! would allow too much when two waits are cancelled out of order.
//!
//! **Settling.** Once its tokens are available, a reservation gives the unused ones back as a refund. Before that it
//! gives them back only as a cancelled wait does, because a refund would hand tokens that do not exist yet to the
//! waiter in front.
//!
//! A wait for the tokens of a key works in the same way on the word of the key's slot: `keyed/table/waiting.rs`.

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
