//! A service behind a limiter.

use super::{LimitFuture, OneToken, RequestCost, WaitingLimiter};
use crate::{FindDeadline, Refusing, Waiting, WaitingService};
use core::fmt;
use core::mem;
use core::task::{Context, Poll};
use core::time::Duration;
use damper_core::CallError;
use damper_core::limit::{Denied, Limiter};
use damper_core::time::Sleep;
use tower_service::Service;

/// A service behind a limiter. Made by [`LimitLayer`](super::LimitLayer).
///
/// Ready whenever the service behind it is. A call that waits for tokens is made by the service that was ready, and a clone
/// of it takes its place. Until then it holds what that service reserved in `poll_ready`, such as a permit of tower's
/// `ConcurrencyLimit`.
///
/// # Cancel safety
///
/// A future that is dropped while it waits gives its token back, unless another caller waits behind it. The token of a call
/// that was made is spent.
#[derive(Clone)]
pub struct LimitService<S, A, W = OneToken> {
    service: S,
    admission: A,
    cost: W,
}

impl<S, A, W> LimitService<S, A, W> {
    pub(super) fn new(service: S, admission: A, cost: W) -> Self {
        Self { service, admission, cost }
    }

    /// The service behind the limiter.
    pub fn get_ref(&self) -> &S {
        &self.service
    }

    /// The service behind the limiter.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// The service without the limiter.
    pub fn into_inner(self) -> S {
        self.service
    }
}

impl<S: Service<R>, L: Limiter, W: RequestCost<R>, R> Service<R> for LimitService<S, Refusing<L>, W> {
    type Response = S::Response;
    type Error = CallError<S::Error, Denied>;
    type Future = LimitFuture<S, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(context).map_err(CallError::Failed)
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        match self.admission.0.try_acquire(self.cost.cost(&request)) {
            Ok(()) => LimitFuture::calling(self.service.call(request)),
            Err(denied) => LimitFuture::denied(denied),
        }
    }
}

impl<S, L, Z, D, W, R> Service<R> for LimitService<S, Waiting<L, Z, D>, W>
where
    S: Service<R> + WaitingService,
    L: WaitingLimiter,
    Z: Sleep<Sleeping: Send> + Clone + Send + 'static,
    D: FindDeadline<R>,
    W: RequestCost<R>,
{
    type Response = S::Response;
    type Error = CallError<S::Error, Denied>;
    type Future = LimitFuture<S, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(context).map_err(CallError::Failed)
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        let Waiting { limit: limiter, longest, sleep, find_deadline } = &self.admission;
        let cost = self.cost.cost(&request);
        if limiter.try_acquire(cost).is_ok() {
            return LimitFuture::calling(self.service.call(request));
        }
        let left = find_deadline.deadline(&request).map_or(Duration::MAX, |deadline| deadline.remaining());
        let wait = limiter.clone().wait(cost, left.min(*longest), sleep.clone());
        // This service is the one that is ready. Its clone has to be polled first.
        let clone = self.service.clone();
        LimitFuture::waiting(wait, mem::replace(&mut self.service, clone), request)
    }
}

impl<S: fmt::Debug, A, W> fmt::Debug for LimitService<S, A, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitService").field("service", &self.service).finish_non_exhaustive()
    }
}
