//! One limit for all requests, which wait for their tokens.

use super::global::{reported_quota, standing_after};
use super::{Detail, Limit, LimitAnswer, LimitDecision, Limited, Refusal, Standing};
use crate::{Head, RequestDeadline};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use damper_core::Reads;
use damper_core::gate::{Forecast, WaitsWith, keep};
use damper_core::internal::Keepable;
use damper_core::limit::{RateLimiter, TokenBucket};
use damper_core::time::{Clock, DefaultClock};

/// One limit for all requests, which wait for their tokens. Made by
/// [`RateLimitLayer::wait`](crate::RateLimitLayer::wait).
#[cfg(feature = "tokio")]
pub struct WaitingLimit<C = DefaultClock> {
    limiter: Arc<RateLimiter<TokenBucket, C>>,
    longest: Duration,
}

impl<C> WaitingLimit<C> {
    pub(crate) fn new(limiter: Arc<RateLimiter<TokenBucket, C>>, longest: Duration) -> Self {
        Self { limiter, longest }
    }

    pub(super) fn limiter(&self) -> &RateLimiter<TokenBucket, C> {
        &self.limiter
    }

    /// Returns how long this request may wait.
    ///
    /// A token that comes after the call's deadline would be spent on a response that is too late. At a client, one that comes within the
    /// margin would be spent on a request that the server has no time for.
    fn longest_wait(&self, head: &Head<'_>) -> Duration {
        RequestDeadline.read_from(head).map_or(self.longest, |left| self.longest.min(left))
    }
}

impl<C: Clock + Send + Sync + 'static> Limit for WaitingLimit<C> {
    type Future = WaitFuture;

    fn decide(&self, head: &Head<'_>, cost: u32, detail: Detail) -> LimitDecision<WaitFuture> {
        // This overtakes no waiter: while there are some, no token is available.
        if let Ok(allowed) = self.limiter.check_n(cost) {
            return LimitDecision::Pass(detail.then(|| standing_after(&self.limiter, allowed)));
        }
        let limiter = Arc::clone(&self.limiter);
        let longest = self.longest_wait(head);
        LimitDecision::Wait(WaitFuture(Box::pin(async move {
            let waited = limiter.acquire(cost).within(longest).await;
            let usage = limiter.peek();
            let quota = reported_quota(usage);
            match waited {
                Ok(()) => Ok(detail.then(|| Standing::new(quota, usage.remaining(), usage.resets_in()))),
                // The wait of a refusal is what exceeds `longest`: after it the same call succeeds.
                Err(denied) => Err(Refusal::Limited(Limited::by(denied, quota))),
            }
        })))
    }

    fn forecast(&self, head: &Head<'_>, cost: u32) -> Forecast<Refusal> {
        match Limit::forecast(self.limiter(), head, cost) {
            Forecast::Refuse(Refusal::Limited(limited)) => {
                let beyond = limited.retry_after().map(|wait| wait.saturating_sub(self.longest_wait(head)));
                match beyond {
                    Some(Duration::ZERO) => Forecast::Wait,
                    beyond => Forecast::Refuse(Limited::new(beyond, limited.standing()).into()),
                }
            }
            other => other,
        }
    }
}

/// Clones share the limiter.
#[cfg(feature = "metrics")]
impl<C: Clock> damper_metrics::Source for WaitingLimit<C> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.limiter.read(readings);
    }
}

impl<C> Clone for WaitingLimit<C> {
    fn clone(&self) -> Self {
        Self { limiter: Arc::clone(&self.limiter), longest: self.longest }
    }
}

impl<C: fmt::Debug> fmt::Debug for WaitingLimit<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingLimit").field("limiter", &self.limiter).field("longest", &self.longest).finish()
    }
}

/// The decision on a request that waits.
#[must_use = "futures do nothing unless they are polled"]
#[cfg(feature = "tokio")]
pub struct WaitFuture(Pin<Box<dyn Future<Output = LimitAnswer> + Send>>);

impl Future for WaitFuture {
    type Output = LimitAnswer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<LimitAnswer> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for WaitFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitFuture").finish_non_exhaustive()
    }
}

impl<S: Keepable> WaitsWith<S> for WaitFuture {
    fn keep(&self, service: &mut S) -> S {
        keep(service)
    }
}
