//! One limit for all requests.

use super::{Detail, Limit, LimitAnswer, LimitDecision, Limited, NoWait, Refusal, Standing};
use crate::Head;
use core::time::Duration;
use damper_core::RateLimiter32;
use damper_core::gate::Forecast;
use damper_core::internal::set_refusal;
use damper_core::limit::{
    Algorithm, Allowed, Denied, LimitSet, LimitSetDenied, Limiter, Limits, RateLimiter, Striped, Usage,
};
use damper_core::quota::Quota;
use damper_core::time::{Clock, FixedFrequency};

/// One limit for all requests.
impl<A: Algorithm, C: Clock> Limit for RateLimiter<A, C> {
    type Future = NoWait;

    #[inline]
    fn decide(&self, _: &Head<'_>, cost: u32, detail: Detail) -> LimitDecision<Self::Future> {
        if detail == Detail::Standing {
            return LimitDecision::from(decide_with_standing(self, cost));
        }
        match self.check_n(cost) {
            Ok(_) => LimitDecision::Pass(None),
            Err(denied) => LimitDecision::Refuse(refusal(self, denied)),
        }
    }

    fn forecast(&self, _: &Head<'_>, cost: u32) -> Forecast<Refusal> {
        forecast_of(self, cost)
    }
}

/// Returns the forecast of a limiter, with its standing.
fn forecast_of(limiter: &(impl Limiter + ?Sized), cost: u32) -> Forecast<Refusal> {
    match limiter.forecast(cost) {
        Forecast::Pass(_) => Forecast::Pass(Some(standing_of(limiter.usage()))),
        other => other.map(|denied| Limited::by(denied, reported_quota(limiter.usage())).into()),
    }
}

/// Apart, so that decisions without a standing do not compute it.
#[inline(never)]
fn decide_with_standing<A: Algorithm, C: Clock>(limiter: &RateLimiter<A, C>, cost: u32) -> LimitAnswer {
    match limiter.check_n(cost) {
        Ok(allowed) => Ok(Some(standing_after(limiter, allowed))),
        Err(denied) => Err(refusal(limiter, denied)),
    }
}

pub(super) fn standing_after<A: Algorithm, C: Clock>(limiter: &RateLimiter<A, C>, allowed: Allowed) -> Standing {
    Standing::new(reported_quota(limiter.peek()), allowed.remaining(), allowed.resets_in())
}

#[cold]
pub(super) fn refusal<A: Algorithm, C: Clock>(limiter: &RateLimiter<A, C>, denied: Denied) -> Refusal {
    Limited::by(denied, reported_quota(limiter.peek())).into()
}

/// Several limits for all requests.
///
/// Headers report the one that has the fewest tokens left, or that refused.
impl<L: Limits<Usages: IntoIterator<Item = Usage>>, C: Clock> Limit for LimitSet<L, C> {
    type Future = NoWait;

    fn decide(&self, _: &Head<'_>, cost: u32, detail: Detail) -> LimitDecision<Self::Future> {
        LimitDecision::from(match self.check_n(cost) {
            Ok(_) if detail == Detail::None => Ok(None),
            Ok(_) => Ok(Some(standing_of(self.usage()))),
            Err(refused) => Err(refusal_of_set(self, refused)),
        })
    }

    fn forecast(&self, _: &Head<'_>, cost: u32) -> Forecast<Refusal> {
        match set_refusal(self, cost) {
            Some(refused) => Forecast::Refuse(refusal_of_set(self, refused)),
            None => Forecast::Pass(Some(standing_of(self.usage()))),
        }
    }
}

#[cold]
fn refusal_of_set<L, C: Clock>(limits: &LimitSet<L, C>, refused: LimitSetDenied) -> Refusal
where
    L: Limits<Usages: IntoIterator<Item = Usage>>,
{
    let usage = limits.peek().into_iter().nth(refused.index());
    let quota = usage.map_or_else(|| refused.quota(), reported_quota);
    Limited::by(refused.denied(), quota).of_part(refused.index()).into()
}

/// Implements [`Limit`] for limiters whose decision does not include the remaining tokens.
macro_rules! limit_by_usage {
    ($(#[$attribute:meta])* [$($parameter:ident: $bound:ident)?] $limiter:ty) => {
        $(#[$attribute])*
        impl$(<$parameter: $bound>)? Limit for $limiter {
            type Future = NoWait;

            fn decide(&self, _: &Head<'_>, cost: u32, detail: Detail) -> LimitDecision<Self::Future> {
                LimitDecision::from(match self.try_acquire(cost) {
                    Ok(()) => Ok(detail.then(|| standing_of(self.usage()))),
                    Err(denied) => Err(Limited::by(denied, reported_quota(self.usage())).into()),
                })
            }

            fn forecast(&self, _: &Head<'_>, cost: u32) -> Forecast<Refusal> {
                forecast_of(self, cost)
            }
        }
    };
}

limit_by_usage!(
    /// One limit for all requests, in stripes.
    [C: Clock] Striped<C>
);
limit_by_usage!(
    /// One limit for all requests, in a word of 32 bits.
    [C: FixedFrequency] RateLimiter32<C>
);
limit_by_usage!(
    /// One limit for all requests, which is chosen at run time or is your own.
    [] dyn Limiter + Send + Sync
);

/// The standing of a limiter by what is used of it.
fn standing_of(usage: Usage) -> Standing {
    Standing::new(reported_quota(usage), usage.remaining(), usage.resets_in())
}

/// Returns the quota as headers report it, for any algorithm.
///
/// That is the tokens, and the window in which these are refilled.
pub(super) fn reported_quota(usage: Usage) -> Quota {
    let quota = usage.quota();
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
