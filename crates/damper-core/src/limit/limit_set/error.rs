//! The error of a change of a set's quotas.

use crate::quota::SetQuotaError;
use core::fmt;

/// The reason why a [`LimitSet`](super::LimitSet) did not put a quota in force.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum LimitSetQuotaError {
    /// The set has no limit with this index.
    NoSuchLimit {
        /// The index, counted from 0.
        index: usize,
        /// How many limits there are.
        limits: usize,
    },
    /// The limit refused the quota.
    Refused {
        /// The index of the limit, counted from 0.
        index: usize,
        /// The reason of the refusal.
        error: SetQuotaError,
    },
    /// There are not as many quotas as limits.
    WrongNumber {
        /// How many quotas were given.
        quotas: usize,
        /// How many limits there are.
        limits: usize,
    },
}

/// The message counts the limits from 1, as that of [`LimitSetDenied`](super::LimitSetDenied) does.
impl fmt::Display for LimitSetQuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchLimit { index, limits } => {
                write!(f, "limit {} does not exist, there are {limits}", index.saturating_add(1))
            }
            Self::Refused { index, error } => write!(f, "limit {}: {error}", index.saturating_add(1)),
            Self::WrongNumber { quotas, limits } => {
                write!(f, "{quotas} quotas for {limits} limits, there must be one for each")
            }
        }
    }
}

crate::internal::debug_by_display!(LimitSetQuotaError);

impl core::error::Error for LimitSetQuotaError {}
