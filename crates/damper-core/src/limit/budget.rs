//! The part of a burst that is set aside to be held outside of the bucket.
//!
//! A bucket whose tokens are held by others may itself be full again meanwhile; so what they may hold is not part of
//! its capacity, from its construction on. Then `held + capacity - debt` never exceeds the burst, and the envelope is
//! that of one bucket. (A capacity that moves with what is held was seen to fail, when a holder comes and when it
//! goes.)

use super::{Algorithm, TokenBucket};
use crate::quota::{Quota, SetQuotaError};
use crate::time::Clock;
use core::fmt;

/// Why a budget cannot be set aside of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum BudgetError {
    /// The budget is 0: nobody could hold anything.
    Empty,
    /// The budget leaves nothing of the burst to the bucket itself.
    NothingLeft {
        /// The budget, in tokens.
        budget: u32,
        /// The burst, in tokens.
        burst: u32,
    },
    /// There are more stripes than tokens in the budget, or none, or more than 64.
    Stripes {
        /// The budget, in tokens.
        budget: u32,
        /// The number of stripes.
        stripes: usize,
    },
}

impl fmt::Display for BudgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the budget is 0 tokens, it must be at least 1"),
            Self::NothingLeft { budget, burst } => {
                write!(f, "a budget of {budget} tokens leaves nothing of a burst of {burst}, it must be less")
            }
            Self::Stripes { budget, stripes } => {
                write!(
                    f,
                    "{stripes} stripes cannot share a budget of {budget} tokens, 1 to 64 can, with at least 1 token each"
                )
            }
        }
    }
}

impl core::error::Error for BudgetError {}

/// The quota of a bucket that leaves `budget` of its burst to others.
pub(super) const fn set_aside(quota: Quota, budget: u32) -> Result<Quota, BudgetError> {
    let burst = quota.burst_size();
    if budget == 0 {
        Err(BudgetError::Empty)
    } else if budget >= burst {
        Err(BudgetError::NothingLeft { budget, burst })
    } else {
        Ok(quota.burst(burst - budget))
    }
}

/// The quota of a bucket and what it leaves to others.
pub(super) fn with_budget(bucket: &TokenBucket, budget: u32) -> Quota {
    let quota = bucket.quota();
    // It was a `u32` before.
    quota.burst(quota.burst_size() + budget)
}

/// Puts a quota in force for a bucket that leaves `budget` of its burst to others.
pub(super) fn set_quota(
    bucket: &TokenBucket,
    quota: Quota,
    budget: u32,
    clock: &impl Clock,
) -> Result<(), SetQuotaError> {
    let own = set_aside(quota, budget).map_err(|_| SetQuotaError::BurstWithinBudget)?;
    bucket.set_quota(own, clock)
}
