//! Limits the retries of all calls together.
//!
//! | budget | a retry takes | allowed | for |
//! |---|---|---|---|
//! | [`RetryBudget`] | deposits of recent calls, or else a token of a bucket | after a quiet time as after a busy one | most clients |
//! | [`RetryBucket`] | a token of a bucket that calls also fill | as often as calls allow, without saving up | strict bounds |
//! | [`RetryThrottle`] | nothing | while successes outweigh failures | gRPC's rule |
//! | [`RetryQuota`] | tokens, which its success gives back | until failed retries have used the quota up | AWS's rule |
//! | [`Unlimited`] | nothing | always | one caller, rarely |

// | file | type |
// |---|---|
// | `retry_budget` | `RetryBudget`: deposits in two slices of time, and a bucket |
// | `retry_bucket` | `RetryBucket`: a bucket that calls fill |
// | `retry_throttle` | `RetryThrottle`: gRPC's token count |
// | `retry_quota` | `RetryQuota`: AWS's retry quota |
// | `tokens` | `Tokens`: the count in a `RetryThrottle` and a `RetryQuota`, which outcomes change |
// | `config` | `RetryBudgetConfig` and its builder |
// | `ratio` | `Ratio`: retries per call, in thousandths |

mod config;
mod ratio;
mod retry_bucket;
mod retry_budget;
mod retry_quota;
mod retry_throttle;
mod tokens;

pub use config::{RetryBudgetConfig, RetryBudgetConfigBuilder};
pub use retry_bucket::RetryBucket;
pub use retry_budget::RetryBudget;
pub use retry_quota::RetryQuota;
pub use retry_throttle::RetryThrottle;

use super::Failure;

/// Decides whether a retry may be made, for all calls that share it.
///
/// References and `Arc`s of budgets are budgets too.
pub trait Budget {
    /// Counts a call that begins: only its first attempt.
    fn began(&self) {}

    /// Counts an attempt that succeeded.
    fn succeeded(&self) {}

    /// Counts a retry that succeeded, by the failure that it was made after. Default: as [`succeeded`](Self::succeeded).
    ///
    /// A retry that took nothing from the budget counts as any attempt.
    fn retry_succeeded(&self, failure: Failure) {
        let _ = failure;
        self.succeeded();
    }

    /// Counts a failed attempt that may be repeated, whether or not it is.
    fn failed(&self) {}

    /// Returns whether a retry may be made, and charges it.
    fn try_withdraw(&self) -> bool;

    /// Returns whether a retry after this failure may be made, and charges it. Default: as [`try_withdraw`](Self::try_withdraw).
    fn try_withdraw_after(&self, failure: Failure) -> bool {
        let _ = failure;
        self.try_withdraw()
    }
}

/// Allows every retry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Unlimited;

impl Budget for Unlimited {
    #[inline]
    fn try_withdraw(&self) -> bool {
        true
    }
}

/// Implements [`Budget`] for a pointer to a budget.
macro_rules! budget_behind {
    ($(#[$attribute:meta])* $pointer:ty) => {
        $(#[$attribute])*
        impl<B: Budget + ?Sized> Budget for $pointer {
            #[inline]
            fn began(&self) {
                (**self).began();
            }

            #[inline]
            fn succeeded(&self) {
                (**self).succeeded();
            }

            #[inline]
            fn retry_succeeded(&self, failure: Failure) {
                (**self).retry_succeeded(failure);
            }

            #[inline]
            fn failed(&self) {
                (**self).failed();
            }

            #[inline]
            fn try_withdraw(&self) -> bool {
                (**self).try_withdraw()
            }

            #[inline]
            fn try_withdraw_after(&self, failure: Failure) -> bool {
                (**self).try_withdraw_after(failure)
            }
        }
    };
}
budget_behind!(&B);
budget_behind!(
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    alloc::sync::Arc<B>
);
