//! Rate limiting: [`RateLimiter`], its algorithms and its answers.

// | file | idea |
// |---|---|
// | `rate_limiter` | a limit: an algorithm and a clock |
// | `token_bucket`, `fixed_window`, `sliding_counter`, `sliding_log`, `leaky_bucket` | the algorithms |
// | `log_ring` | the words of a sliding log |
// | `windows` | what the algorithms share that count by windows |
// | `standing` | which window of a word counts at a reading |
// | `drip` | what refunds add to a line |
// | `one_word` | the loop around a decision on one word, under a quota that may change |
// | `reservation` | tokens taken now, to be used when they are there |
// | `waiting` | until they are there, in order |
// | `budget`, `lease`, `striped` | tokens that are taken many at a time, and spent where nobody else looks |
// | `per_key` | the algorithms on words that the keyed table keeps |
// | `limit_set` | several limits in one decision |
// | `answer`, `usage` | what callers are told |

mod algorithm;
mod answer;
mod budget;
mod drip;
mod fixed_window;
mod leaky_bucket;
mod lease;
mod limit_set;
#[cfg(feature = "alloc")]
mod log_ring;
mod one_word;
mod per_key;
mod rate_limiter;
mod reservation;
mod sliding_counter;
#[cfg(feature = "alloc")]
mod sliding_log;
mod standing;
#[cfg(feature = "std")]
mod striped;
#[cfg(test)]
mod tests;
mod token_bucket;
mod usage;
mod waiting;
mod windows;

pub use algorithm::Algorithm;
pub use answer::{Allowed, Denied};
pub use budget::BudgetError;
pub use fixed_window::FixedWindow;
pub use leaky_bucket::{LeakyBucket, LeakyQueue};
pub use lease::{Lease, LeaseError, LeasingBucket, LeasingRef};
pub use limit_set::{LimitSet, LimitSetDenied};
pub use per_key::KeyedAlgorithm;
pub(crate) use per_key::{LEVEL_BITS, Owed, SHARED_LEVEL_BITS};
pub use rate_limiter::RateLimiter;
pub use reservation::Reservation;
pub use sliding_counter::{SlidingCounter, SlidingCounterError};
#[cfg(feature = "alloc")]
pub use sliding_log::{SlidingLog, SlidingLogError};
#[cfg(feature = "std")]
pub use striped::Striped;
pub use token_bucket::TokenBucket;
pub use usage::Usage;
pub use waiting::{Acquire, AcquireFuture};
#[cfg(feature = "futures")]
pub use waiting::{PacedSink, PacedStream};

pub use crate::quota::Alignment;
