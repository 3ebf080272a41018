//! One limit for all requests.

use super::{Answer, Decision, Limit, Limited, Refusal, Standing};
use crate::Head;
use core::future::Ready;
use core::time::Duration;
use damper_core::limit::{Algorithm, Allowed, Denied, LimitSet, RateLimiter, Usage};
use damper_core::quota::Quota;
use damper_core::time::Clock;

/// One limit for all requests.
impl<A: Algorithm, C: Clock> Limit for RateLimiter<A, C> {
    type Later = Ready<Answer>;

    #[inline]
    fn decide(&self, _: &Head<'_>, tell: bool) -> Decision<Self::Later> {
        if tell {
            return Decision::Now(check_and_tell(self));
        }
        match self.check() {
            Ok(_) => Decision::Now(Ok(None)),
            Err(denied) => Decision::Now(Err(refusal(self, denied))),
        }
    }
}

/// Apart, so that where nobody asks how the limit stands that is not computed.
#[inline(never)]
fn check_and_tell<A: Algorithm, C: Clock>(limiter: &RateLimiter<A, C>) -> Answer {
    match limiter.check() {
        Ok(allowed) => Ok(Some(standing(limiter, allowed))),
        Err(denied) => Err(refusal(limiter, denied)),
    }
}

pub(super) fn standing<A: Algorithm, C: Clock>(limiter: &RateLimiter<A, C>, allowed: Allowed) -> Standing {
    let quota = told_quota(limiter.quota(), limiter.peek());
    Standing::new(quota, allowed.remaining(), allowed.resets_in())
}

#[cold]
fn refusal<A: Algorithm, C: Clock>(limiter: &RateLimiter<A, C>, denied: Denied) -> Refusal {
    Limited::by(denied, told_quota(limiter.quota(), limiter.peek())).into()
}

/// Several limits for all requests. Headers tell of the one that has the fewest left, or that refused.
impl<const N: usize, A: Algorithm, C: Clock> Limit for LimitSet<N, A, C> {
    type Later = Ready<Answer>;

    fn decide(&self, _: &Head<'_>, tell: bool) -> Decision<Self::Later> {
        Decision::Now(match self.check() {
            Ok(_) if !tell => Ok(None),
            Ok(_) => {
                Ok(self.peek().into_iter().min_by_key(Usage::remaining).map(|usage| {
                    Standing::new(told_quota(Quota::UNLIMITED, usage), usage.remaining(), usage.resets_in())
                }))
            }
            Err(refused) => Err(Limited::by(refused.denied(), refused.quota()).into()),
        })
    }
}

/// The quota as headers tell it: so many tokens, and the window in which these are refilled, whatever the algorithm.
pub(super) fn told_quota(quota: Quota, usage: Usage) -> Quota {
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
