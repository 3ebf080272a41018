//! The limiters as limits of damper-http's layers.

use crate::limiter::{FirstLook, KeyedRedisLimiter, LimitHandle, RedisKey, RedisLimiter};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use damper_core::gate::{WaitsWith, keep};
use damper_core::internal::Keepable;
use damper_core::{Allowed, Denied, Quota};
use damper_http::{Detail, Head, KeyedLimit, Limit, LimitAnswer, LimitDecision, Limited, Settle, Standing};

/// The future of a decision that the server or the policy makes.
///
/// Poll it soon, or drop it. It may hold the request for leased tokens that other requests wait for, and the first poll sends it.
#[must_use = "futures do nothing unless polled"]
pub struct RedisDecision(Pin<Box<dyn Future<Output = LimitAnswer> + Send>>);

impl Future for RedisDecision {
    type Output = LimitAnswer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<LimitAnswer> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for RedisDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisDecision").finish_non_exhaustive()
    }
}

/// Returns a decision as a layer sees it.
fn answer(decided: Result<Allowed, Denied>, quota: Quota, detail: Detail) -> LimitAnswer {
    match decided {
        Ok(allowed) => Ok(detail.then(|| Standing::new(quota, allowed.remaining(), allowed.resets_in()))),
        Err(denied) => Err(Limited::by(denied, quota).into()),
    }
}

/// Returns the decision of the first look, or a wait in which `limit` decides.
fn decision(
    first_look: Option<FirstLook>,
    limit: impl FnOnce() -> Option<LimitHandle>,
    quota: Quota,
    cost: u32,
    detail: Detail,
) -> LimitDecision<RedisDecision> {
    match (first_look, limit) {
        (None, _) => {
            let standing = || Standing::new(Quota::UNLIMITED, u32::MAX, Some(Duration::ZERO));
            LimitDecision::Pass(detail.then(standing))
        }
        (Some(FirstLook::Done(decided)), _) => LimitDecision::from(answer(decided, quota, detail)),
        (Some(open), limit) => {
            let limit = limit();
            LimitDecision::Wait(RedisDecision(Box::pin(async move {
                match limit {
                    Some(limit) => answer(limit.decide(cost, open).await, quota, detail),
                    // An open check has a limit.
                    None => Ok(None),
                }
            })))
        }
    }
}

/// Returns the quota that headers report: the one with the smallest burst.
fn reported(quotas: &[Quota]) -> Quota {
    quotas.iter().copied().min_by_key(Quota::burst_size).unwrap_or(Quota::UNLIMITED)
}

/// One limit for all requests of all processes.
///
/// A request that leased tokens allow, or that this process denies, is decided at once. Headers are those of a local limit of the same
/// quota. Of several quotas they report the one with the smallest burst.
///
/// # Examples
///
/// ```no_run
/// # mod damper { pub use damper_core::*; pub extern crate damper_redis as redis; pub extern crate damper_http as http; }
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use damper::Quota;
/// use damper::http::RateLimitLayer;
/// use damper::redis::RedisLimiter;
///
/// let fleet = RedisLimiter::connect("redis://127.0.0.1/").quota(Quota::per_second(10_000)).build().await?;
/// let layer = RateLimitLayer::new(fleet.clone());
/// # let _ = layer;
/// # Ok(())
/// # }
/// ```
impl Limit for RedisLimiter {
    type Future = RedisDecision;

    fn decide(&self, _: &Head<'_>, cost: u32, detail: Detail) -> LimitDecision<Self::Future> {
        decision(self.begin(cost), || self.handle(), reported(self.quotas()), cost, detail)
    }
}

impl<Q: ?Sized> Settle<Q> for RedisLimiter {
    fn settle(&self, _: &Q, taken: u32, used: u32) {
        if used > taken {
            self.charge(used - taken);
        } else {
            self.refund(taken - used);
        }
    }
}

/// A limit for each key, for the requests of all processes. It goes into `PerClient`, `ByHeader` and `ByKey`.
///
/// # Examples
///
/// ```no_run
/// # mod damper { pub use damper_core::*; pub extern crate damper_redis as redis; pub extern crate damper_http as http; }
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use damper::Quota;
/// use damper::http::{PerClient, RateLimitLayer};
/// use damper::redis::RedisLimiter;
///
/// let clients = RedisLimiter::connect("redis://127.0.0.1/").quota(Quota::per_second(50)).build_keyed().await?;
/// let layer = RateLimitLayer::new(PerClient::new(clients.clone()));
/// # let _ = layer;
/// # Ok(())
/// # }
/// ```
impl<K: RedisKey + ?Sized> KeyedLimit<K> for KeyedRedisLimiter {
    type Future = RedisDecision;

    fn decide(&self, key: &K, cost: u32, detail: Detail) -> LimitDecision<Self::Future> {
        let limit = self.of(key);
        let first_look = limit.as_ref().map(|limit| limit.begin(cost));
        decision(first_look, || limit, reported(self.quotas()), cost, detail)
    }
}

impl<K: RedisKey + ?Sized> Settle<K> for KeyedRedisLimiter {
    fn settle(&self, key: &K, taken: u32, used: u32) {
        if used > taken {
            self.charge(key, used - taken);
        } else {
            self.refund(key, taken - used);
        }
    }
}

impl<S: Keepable> WaitsWith<S> for RedisDecision {
    fn keep(&self, service: &mut S) -> S {
        keep(service)
    }
}
