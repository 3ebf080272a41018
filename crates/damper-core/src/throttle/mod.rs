//! Throttles of a client.
//!
//! [`AdaptiveThrottle`] holds back calls that the service would reject, `KeyedThrottle` has one per host, and [`Pacer`] sleeps
//! before calls to a rate-limited service.
//!
//! Every rejected call costs an overloaded service some work. So a client that sees most of its calls rejected stops sending most
//! of them, and detects by the few that it sends when the service has recovered.
//!
//! A rate-limited service rejects the calls that exceed its limit. [`Pacer`] sleeps before calls so that few do, and retries
//! rejected ones, by a [`Strategy`]:
//!
//! | strategy | the sleep before a call | use |
//! |---|---|---|
//! | [`Level`] | follows the remaining calls of the limit | the default: few rejections, all clients alike |
//! | [`RemainingDecrease`] | grows at a rejection, shrinks with the remaining calls | services whose `remaining` can be off |
//! | [`NoPacing`] | none | to switch pacing off |
//!
//! `compared` (feature `compared`) has the strategies of other libraries and papers.

// | file | idea |
// |---|---|
// | `adaptive_throttle` | `AdaptiveThrottle`: its constructors, calls and permits |
// | `call_counts` | the number of calls of the last 30 s, and their outcomes |
// | `phase` | the rule: the share of the calls that is refused |
// | `permit` | `ThrottlePermit`: the permit to make one call |
// | `status` | `ThrottleStatus`: the counts of a throttle, and the share that it refuses |
// | `error` | why a call was not made, or failed |
// | `pace_too_slow` | why a paced call was not made |
// | `keyed_throttle` | `KeyedThrottle`: one throttle per key; its template |
// | `pacing` | `Pacer`: sleeps before calls; its strategies |
// | `compared` | strategies of others, to compare with |

mod adaptive_throttle;
mod call_counts;
#[cfg(feature = "compared")]
pub mod compared;
mod error;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod keyed_throttle;
mod pace_too_slow;
pub(crate) mod pacing;
mod permit;
mod phase;
mod status;

pub use adaptive_throttle::AdaptiveThrottle;
pub use error::Throttled;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use keyed_throttle::KeyedThrottle;
pub use pace_too_slow::PaceTooSlow;
pub use pacing::{Hints, Level, Moment, NoPacing, PacedAttempts, PacedRetry, Pacer, RemainingDecrease, Strategy};
pub use permit::ThrottlePermit;
pub(crate) use permit::ThrottleRef;
pub use status::ThrottleStatus;
