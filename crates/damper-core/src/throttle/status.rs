//! The counts of a throttle, and the share that it refuses.

use super::call_counts::CallSums;

/// The counts of a throttle in the last 30 s, and the share of the calls that it refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ThrottleStatus {
    requests: u64,
    accepted: u64,
    refused: u32,
}

impl ThrottleStatus {
    pub(super) fn new(sums: &CallSums, refused: u64) -> Self {
        // At most 10,000.
        Self { requests: sums.requests, accepted: sums.accepted, refused: refused as u32 }
    }

    /// Returns the number of calls, including those that the throttle refused.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the number of calls that the service accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Returns the share of the calls that the throttle refuses now, 0.0 to 0.99.
    #[must_use]
    pub fn share_refused(&self) -> f64 {
        f64::from(self.refused) / 10_000.0
    }

    /// Returns whether a new throttle in its place would send calls that this one refuses.
    ///
    /// It does if this one refuses some now and was called in the last 30 s. For [`BoundedStore::keep_if`](crate::BoundedStore::keep_if)
    /// of a store of throttles.
    #[must_use]
    pub fn is_worth_keeping(&self) -> bool {
        self.refused > 0 && self.requests > 0
    }
}
