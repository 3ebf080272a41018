//! How much of a quota is left.

use crate::quota::Quota;
use core::time::Duration;

/// The standing of a limit after a decision, which response headers report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Standing {
    /// The quota that decided.
    pub quota: Quota,
    /// The tokens that are left, rounded down.
    pub remaining: u32,
    /// The time until all tokens are there; `None` if they never will be.
    pub resets_in: Option<Duration>,
}

impl Standing {
    /// Creates the standing of a limit of this quota.
    #[must_use]
    pub const fn new(quota: Quota, remaining: u32, resets_in: Option<Duration>) -> Self {
        Self { quota, remaining, resets_in }
    }
}
