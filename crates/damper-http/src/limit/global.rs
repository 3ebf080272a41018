//! One limit for all requests.

use super::{Answer, Decision, Detail, Limit, Limited, Refusal, Standing};
use crate::Head;
use core::future::Ready;
use core::time::Duration;
use damper_core::limit::{Algorithm, Allowed, Denied, LimitSet, RateLimiter, Usage};
use damper_core::quota::Quota;
use damper_core::time::Clock;

/// One limit for all requests.
impl<A: Algorithm, C: Clock> Limit for RateLimiter<A, C> {
    type Future = Ready<Answer>;

    #[inline]
    fn decide(&self, _: &Head<'_>, detail: Detail) -> Decision<Self::Future> {
        if detail == Detail::Standing {
            return Decision::Now(decide_with_standing(self));
        }
        match self.check() {
            Ok(_) => Decision::Now(Ok(None)),
            Err(denied) => Decision::Now(Err(refusal(self, denied))),
        }
    }
}

/// Apart, so that decisions without a standing do not compute it.
#[inline(never)]
fn decide_with_standing<A: Algorithm, C: Clock>(limiter: &RateLimiter<A, C>) -> Answer {
    match limiter.check() {
        Ok(allowed) => Ok(Some(standing_after(limiter, allowed))),
        Err(denied) => Err(refusal(limiter, denied)),
    }
}

pub(super) fn standing_after<A: Algorithm, C: Clock>(limiter: &RateLimiter<A, C>, allowed: Allowed) -> Standing {
    let quota = reported_quota(limiter.quota(), limiter.peek());
    Standing::new(quota, allowed.remaining(), allowed.resets_in())
}

#[cold]
fn refusal<A: Algorithm, C: Clock>(limiter: &RateLimiter<A, C>, denied: Denied) -> Refusal {
    Limited::by(denied, reported_quota(limiter.quota(), limiter.peek())).into()
}

/// Several limits for all requests. Headers report the one that has the fewest tokens left, or that refused.
impl<const N: usize, A: Algorithm, C: Clock> Limit for LimitSet<N, A, C> {
    type Future = Ready<Answer>;

    fn decide(&self, _: &Head<'_>, detail: Detail) -> Decision<Self::Future> {
        Decision::Now(match self.check() {
            Ok(_) if detail == Detail::None => Ok(None),
            Ok(_) => Ok(self.peek().into_iter().min_by_key(Usage::remaining).map(|usage| {
                Standing::new(reported_quota(Quota::UNLIMITED, usage), usage.remaining(), usage.resets_in())
            })),
            Err(refused) => Err(Limited::by(refused.denied(), refused.quota()).into()),
        })
    }
}

/// Returns the quota as headers report it: the tokens, and the window in which these are refilled, for any algorithm.
pub(super) fn reported_quota(quota: Quota, usage: Usage) -> Quota {
    // A bucket's own quota states the rate exactly, however short its refill is.
    if usage.limit() == quota.burst_size() && usage.window() == quota.refill_window() {
        return quota;
    }
    match usage.window() {
        Some(window) => Quota::per(usage.limit(), window).unwrap_or(quota),
        None if quota.is_unlimited() || usage.limit() == u32::MAX => Quota::UNLIMITED,
        None => Quota::per(0, Duration::from_secs(1)).map_or(quota, |nothing| nothing.burst(usage.limit())),
    }
}
