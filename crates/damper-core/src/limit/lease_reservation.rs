//! Tokens of a lease that were spent, to be settled.

use super::{Lease, LeasingBucket, LimiterRef};

/// The tokens of a [`Lease`] that a call spent on an estimate. [`Lease::reserve`] returns it.
///
/// Settle it when the true cost is known. If it is dropped instead, the tokens stay spent.
#[derive(Debug)]
#[must_use = "a reservation that is dropped at once counts as used"]
pub struct LeaseReservation<'a, L: LimiterRef<Algorithm = LeasingBucket>> {
    lease: &'a mut Lease<L>,
    n: u32,
}

impl<'a, L: LimiterRef<Algorithm = LeasingBucket>> LeaseReservation<'a, L> {
    #[inline]
    pub(super) fn new(lease: &'a mut Lease<L>, n: u32) -> Self {
        Self { lease, n }
    }

    /// Corrects the number of tokens spent to those that the call `used`.
    ///
    /// - A call that used fewer gives the rest back to the lease. Tokens that the lease has no room for go to the bucket, as
    ///   by [`refund`](crate::RateLimiter::refund).
    /// - A call that used more spends the excess from the lease. Tokens that the lease lacks are charged to the bucket, into
    ///   debt if necessary, but not beyond [`Quota::max_debt`](crate::Quota::max_debt). Leases then find no tokens until the
    ///   debt is repaid.
    ///
    /// While the lease has room and tokens enough, settling touches no memory that other threads use.
    #[inline]
    pub fn settle(self, used: u32) {
        self.lease.settle(self.n, used);
    }
}
