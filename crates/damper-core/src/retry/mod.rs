//! Retries within limits: [`Retry`], [`Backoff`], [`RetryBudget`], `Hedge`.
//!
//! A retry is extra load on a system that is already failing. So the schedule of retries comes with limits on them: a
//! [budget](RetryBudget) that all callers share, a [deadline](crate::Deadline) that all attempts of a call share, and
//! the server's own hint, which no backoff undercuts.
//!
//! An outcome is checked in this order, and the first failed check ends the call:
//!
//! | | question | ends with |
//! |---|---|---|
//! | 1 | may another attempt help? It never does after damper's own refusals | [`GaveUp::NotRetryable`] |
//! | 2 | did the server decline a retry? | [`GaveUp::Declined`] |
//! | 3 | are attempts left? | [`GaveUp::Attempts`] |
//! | 4 | is the server's wait within the maximum? | [`GaveUp::Hint`] |
//! | 5 | does the wait end before the deadline? | [`GaveUp::Deadline`] |
//! | 6 | does the budget allow a retry? It is checked last, because the check spends it | [`GaveUp::Budget`] |
//!
//! All of it is arithmetic on values, and works without `std` and without allocation. [`Attempts`] only decides.
//! [`Retry::call`] and [`Retry::run`] also make the calls and sleep.

// | file | type |
// |---|---|
// | `retry` | `Retry`: how often, when, and within which limits |
// | `attempts` | `Attempts`: the attempts of one call; the decision; `Attempt` |
// | `future` | `RetryFuture`: makes the attempts of an asynchronous call |
// | `failure` | `Failure`: the meaning of an outcome for the next attempt; `Retryable`, `AnyError` |
// | `error` | `RetryError` and `GaveUp`: why a call was given up |
// | `backoff` | `Backoff`: how long to wait before each retry; `Delays` |
// | `jitter` | `Jitter`: the random part of a wait |
// | `schedule` | `RetrySchedule`: the attempts and delays that change while calls are made |
// | `hedge` | a second attempt beside a slow first one |
// | `budget` | budgets: limits on the retries of all calls together |

// First, so that the documentation starts with `call` and `run`.
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
mod schedule;

pub use attempts::{Attempt, Attempts};
pub use backoff::{Backoff, Delays};
pub use budget::{
    Budget, RetryBucket, RetryBudget, RetryBudgetConfig, RetryBudgetConfigBuilder, RetryThrottle, Unlimited,
};
pub use error::{GaveUp, RetryError};
pub use failure::{AnyError, Failure, Retryable};
pub use future::RetryFuture;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use hedge::{Hedge, HedgeConfig, HedgeConfigBuilder, HedgeFuture, HedgeRun, HedgeStatus};
pub use jitter::Jitter;
pub use retry::{Retry, RetryRun};
pub use schedule::RetrySchedule;
