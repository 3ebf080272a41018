//! Trying again, within limits: [`Retry`], [`Backoff`], [`RetryBudget`], `Hedge`.
//!
//! A retry is extra load on something that is failing already. So what says how often and when comes with what says
//! whether at all: a [budget](RetryBudget) that all callers share, a [deadline](crate::Deadline) that all attempts of a
//! call share, and the server's own word, which no backoff undercuts.
//!
//! An outcome is judged in this order, and the first answer that says no ends the call:
//!
//! | | question | ends with |
//! |---|---|---|
//! | 1 | may another attempt help? Refusals of damper's own never do | [`GaveUp::NotRetryable`] |
//! | 2 | did the server say not to try again? | [`GaveUp::Declined`] |
//! | 3 | are attempts left? | [`GaveUp::Attempts`] |
//! | 4 | is the server's wait within the longest that is waited for? | [`GaveUp::Hint`] |
//! | 5 | is the wait over before the deadline? | [`GaveUp::Deadline`] |
//! | 6 | does the budget allow a retry? It is asked last, because it is spent by that | [`GaveUp::Budget`] |
//!
//! All of it is arithmetic on values and works without `std` and without allocation. [`Attempts`] decides alone;
//! [`Retry::call`] and [`Retry::run`] make the calls, and sleep.

// | file | type |
// |---|---|
// | `retry` | `Retry`: how often, when, and within which limits |
// | `attempts` | `Attempts`: one call on its way through its attempts; the decision; `Attempt` |
// | `future` | `RetryFuture`: makes the attempts of an asynchronous call |
// | `failure` | `Failure`: what the outcome of an attempt says about another one; `Retryable`, `AnyError` |
// | `error` | `RetryError` and `GaveUp`: why a call was given up |
// | `backoff` | `Backoff`: how long to wait before each retry; `Delays` |
// | `jitter` | `Jitter`: how much of a wait is left to chance |
// | `hedge` | a second attempt beside a slow first one |
// | `budget` | budgets: how many retries all calls may make together |

// First, so that the documentation begins with how to retry.
mod retry;

pub(crate) mod attempts;
mod backoff;
mod budget;
mod error;
mod failure;
mod future;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub(crate) mod hedge;
mod jitter;

pub use attempts::{Attempt, Attempts};
pub use backoff::{Backoff, BackoffError, Delays};
pub use budget::{
    Budget, RetryBucket, RetryBudget, RetryBudgetConfig, RetryBudgetConfigBuilder, RetryBudgetError, RetryThrottle,
    Unlimited,
};
pub use error::{GaveUp, RetryError};
pub use failure::{AnyError, Failure, Retryable};
pub use future::RetryFuture;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use hedge::{Hedge, HedgeConfig, HedgeConfigBuilder, HedgeConfigError, HedgeFuture, HedgeRun};
pub use jitter::Jitter;
pub use retry::{Retry, RetryRun};
