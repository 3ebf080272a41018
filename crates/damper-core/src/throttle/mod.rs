//! Throttles of a client: [`AdaptiveThrottle`] holds calls back that the service would reject. `KeyedThrottle` has one per
//! host.
//!
//! A service that is overloaded pays for every call that it rejects. So a client that sees most of its calls rejected
//! stops sending most of them, and finds out by the few that it sends when the service has recovered.

// | file | idea |
// |---|---|
// | `adaptive_throttle` | `AdaptiveThrottle`: its constructors, calls and permits |
// | `call_counts` | how many calls of the last 30 s there were, and what became of them |
// | `phase` | the rule: which share of the calls is refused |
// | `permit` | `ThrottlePermit`: the permit to make one call |
// | `status` | `ThrottleStatus`: what a throttle has seen, and does |
// | `error` | why a call was not made, or failed |
// | `keyed_throttle` | `KeyedThrottle`: one throttle per key |

mod adaptive_throttle;
mod call_counts;
mod error;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod keyed_throttle;
mod permit;
mod phase;
mod status;

pub use adaptive_throttle::AdaptiveThrottle;
pub use error::{MultiplierError, Throttled};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use keyed_throttle::KeyedThrottle;
pub use permit::{ThrottlePermit, ThrottleRef};
pub use status::ThrottleStatus;
