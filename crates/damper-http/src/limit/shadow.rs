//! Limits that decide beside the one in force.

use super::{ByHeader, ByKey, Limit, NoWait, PerClient, limits_like};
use crate::Head;
use alloc::sync::Arc;
use core::hash::Hash;
use damper_core::keyed::{ClientAddress, KeyedLimiter};
use damper_core::limit::RateLimiter;
use damper_core::quota::Quota;

/// A candidate that can decide beside the limit `L`: what [`RateLimitLayer::shadow`](crate::RateLimitLayer::shadow) takes.
///
/// A [`Quota`], which makes a limit by the same keys with buckets of its own, or any [`Limit`] that decides at once.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot decide beside the limit `{L}`",
    note = "a `Quota` can beside the limits that layers build, and any limit that decides at once beside every limit"
)]
pub trait ShadowCandidate<L> {
    /// The limit that decides beside `L`.
    type Limit: Limit<Future = NoWait> + Send + Sync + 'static;

    /// Creates the limit that decides beside `in_force`.
    fn beside(self, in_force: &L) -> Self::Limit;
}

impl<L, M: Limit<Future = NoWait> + Send + Sync + 'static> ShadowCandidate<L> for M {
    type Limit = M;

    fn beside(self, _: &L) -> M {
        self
    }
}

impl<L: LimitByQuota> ShadowCandidate<L> for Quota {
    type Limit = L::Other;

    fn beside(self, in_force: &L) -> L::Other {
        in_force.of_quota(self)
    }
}

/// A limit of which there can be another one with another quota and the same keys.
pub trait LimitByQuota {
    /// The other limit.
    type Other: Limit<Future = NoWait> + Send + Sync + 'static;

    /// Creates a limit of this quota, with buckets of its own, all full.
    fn of_quota(&self, quota: Quota) -> Self::Other;
}

impl LimitByQuota for Arc<RateLimiter> {
    type Other = RateLimiter;

    fn of_quota(&self, quota: Quota) -> RateLimiter {
        RateLimiter::new(quota)
    }
}

impl LimitByQuota for &'static RateLimiter {
    type Other = RateLimiter;

    fn of_quota(&self, quota: Quota) -> RateLimiter {
        RateLimiter::new(quota)
    }
}

/// A candidate without waits: it refuses the requests for which it has no token when they arrive.
#[cfg(feature = "tokio")]
impl LimitByQuota for super::WaitingLimit {
    type Other = RateLimiter;

    fn of_quota(&self, quota: Quota) -> RateLimiter {
        RateLimiter::new(quota)
    }
}

/// Clients have the candidate's quota, and wider prefixes keep theirs.
impl LimitByQuota for PerClient<Arc<KeyedLimiter<ClientAddress>>> {
    type Other = Self;

    fn of_quota(&self, quota: Quota) -> Self {
        self.with_limits(|limits, prefix| limits_like(limits, if prefix.is_some() { limits.quota() } else { quota }))
    }
}

impl<F, K> LimitByQuota for ByKey<F, Arc<KeyedLimiter<K>>>
where
    F: Fn(&Head<'_>) -> K + Send + Sync + 'static,
    K: Hash + 'static,
    Arc<KeyedLimiter<K>>: Send + Sync,
{
    type Other = Self;

    fn of_quota(&self, quota: Quota) -> Self {
        self.with_limits(|limits| limits_like(limits, quota))
    }
}

impl LimitByQuota for ByHeader {
    type Other = Self;

    fn of_quota(&self, quota: Quota) -> Self {
        self.with_limits(|limits| limits_like(limits, quota))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidate_has_the_capacity_of_the_limit_in_force() {
        let quota = Quota::per_hour(8);
        for capacity in [1, 100, 100_000] {
            let limits = KeyedLimiter::<ClientAddress>::builder(quota).capacity(capacity).build().unwrap();
            let candidate = Quota::per_hour(3).beside(&PerClient::new(Arc::new(limits)));
            _ = candidate.with_limits(|limits, _| {
                assert_eq!((limits.capacity(), limits.quota()), (capacity, Quota::per_hour(3)));
                limits_like(limits, quota)
            });
        }
    }
}
