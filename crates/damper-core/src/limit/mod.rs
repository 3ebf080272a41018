//! Rate limiting: [`RateLimiter`], its algorithms and its answers.

// | file | idea |
// |---|---|
// | `limiter` | `Limiter`: the trait of all limiters without keys |
// | `limiter_ref` | `LimiterRef`: a reference to a limiter, plain or an `Arc` |
// | `rate_limiter` | `RateLimiter`: an algorithm with its quota, and a clock |
// | `algorithm` | the operations that a limiter requires of an algorithm |
// | `token_bucket` | the token bucket, its arithmetic, and reservations |
// | `leaky_bucket` | the token bucket, but counting the tokens taken instead of the tokens left |
// | `fixed_window`, `sliding_counter` | the algorithms that count by windows |
// | `windows` | the common parts of `fixed_window` and `sliding_counter`: the timeline of windows, and the decision |
// | `sliding_log` | the algorithm that remembers every token |
// | `one_word` | `OneWord`: the atomic word of an algorithm, the loop that decides and swaps it, and the sum of refunds |
// | `per_key` | the algorithms on the words that the keyed table keeps for its keys |
// | `by_plan` | `ByPlan`: a key's bucket in the keyed table, whose quota (a plan) comes with each call |
// | `planned_level` | `PlannedLevel`: the decisions on such a bucket, for every layout of its bits |
// | `waiting` | waiting for tokens, in order |
// | `lease`, `striped` | tokens that are taken many at a time and spent where few other threads write |
// | `expiring_lease` | tokens that one process holds until an instant, from a bucket that several processes share |
// | `limit_set` | several limits in one decision |
// | `unsettled` | how much of a limit is reserved by calls whose true cost is not known yet |
// | `pausable` | a limiter that can be paused, for example by a server's `Retry-After` |
// | `answer`, `usage` | the results of a check and of a peek |
// | `counterexamples` | where a counterexample of `proofs/run` becomes a test |

mod algorithm;
mod answer;
#[cfg(feature = "alloc")]
mod by_plan;
#[cfg(all(test, feature = "alloc", not(any(loom, shuttle))))]
mod counterexamples;
pub(crate) mod expiring_lease;
mod fixed_window;
mod leaky_bucket;
mod lease;
mod limit_set;
mod limiter;
mod limiter_ref;
mod one_word;
mod pausable;
pub(crate) mod per_key;
#[cfg(any(feature = "alloc", target_has_atomic = "64"))]
mod planned_level;
mod rate_limiter;
mod sliding_counter;
#[cfg(feature = "alloc")]
mod sliding_log;
#[cfg(feature = "std")]
mod striped;
mod token_bucket;
mod unsettled;
mod usage;
mod waiting;
mod windows;

pub use algorithm::Algorithm;
pub(crate) use algorithm::sealed::Sealed;
pub use answer::{Allowed, Denied};
#[cfg(feature = "alloc")]
pub use by_plan::ByPlan;
pub use fixed_window::FixedWindow;
pub use leaky_bucket::{LeakyBucket, LeakyQueue};
pub use lease::{Lease, LeaseReservation, LeasingBucket};
pub(crate) use limit_set::InFlight;
#[cfg(feature = "alloc")]
pub(crate) use limit_set::Taken;
pub use limit_set::{LimitSet, LimitSetDenied, LimitSetQuotaError, Limits, SetReservation};
pub use limiter::Limiter;
pub use limiter_ref::LimiterRef;
pub use pausable::Pausable;
pub use per_key::KeyedAlgorithm;
pub(crate) use per_key::{Debt, LEVEL_BITS, PerKey, UnderQuota};
#[cfg(any(feature = "alloc", target_has_atomic = "64"))]
pub(crate) use planned_level::PlannedLevel;
pub use rate_limiter::RateLimiter;
pub use sliding_counter::SlidingCounter;
#[cfg(feature = "alloc")]
pub use sliding_log::SlidingLog;
#[cfg(feature = "std")]
pub use striped::Striped;
pub(crate) use token_bucket::TokenLine;
pub use token_bucket::{Reservation, TokenBucket};
pub(crate) use unsettled::{Counted, Unsettled, UnsettledBounds};
pub use usage::Usage;
#[cfg(feature = "futures")]
pub use waiting::Paced;
pub(crate) use waiting::{Place, Queue};
pub(crate) use waiting::{TokensFuture, TokensRequest};

pub use crate::quota::Alignment;
