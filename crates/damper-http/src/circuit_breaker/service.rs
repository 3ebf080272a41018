//! A service behind breakers.

use super::{Breakers, CircuitBreakFuture, CircuitBreakerLayer, PerHost};
use crate::Head;
use crate::completion::{AtHead, CallGuard, Completion, DeadlineObserver};
use core::fmt;
use damper_core::breaker::Permit;
#[cfg(feature = "tower")]
use damper_core::internal::{Readiness, open_for_no_time};
use http::{Request, Response};

/// A client's service behind breakers. Made by [`CircuitBreakerLayer`](super::CircuitBreakerLayer).
///
/// Ready whenever the service behind it is, and whenever [one breaker](super::CircuitBreakerLayer::single) for all
/// requests would refuse the call: an open breaker answers at once and does not ask the service. An error of the
/// service's readiness is passed on, as [`CallError::Failed`](damper_core::CallError) or what the completion makes of
/// it, and not counted, because it belongs to no request.
///
/// Readiness that the service has and that a refusal does not use stays for the next call. If the breaker ceases to
/// refuse between `poll_ready` and `call`, that one call is still refused, with a `retry_after` of zero, because the
/// service was not asked. [One breaker per host](super::CircuitBreakerLayer::per_host) is known only in `call`: there
/// the service is always asked first, so put such a layer around a service that is soon ready, as clients with a
/// connection pool are.
///
/// # Cancel safety
///
/// A future that is dropped before its response records no verdict, nor does a body that is dropped before the call has
/// ended; a probe then gives its place back. The exception: if the [`Deadline`](damper_core::Deadline) in the request's
/// extensions has passed while the call waited for the server, that is a failure. A panic, in `call`, in the future or in
/// the body, is a failure, and reaches the caller.
pub struct CircuitBreak<S, B = PerHost, W = AtHead> {
    service: S,
    layer: CircuitBreakerLayer<B, W>,
    #[cfg(feature = "tower")]
    readiness: Readiness,
}

impl<S, B, W> CircuitBreak<S, B, W> {
    pub(super) fn new(service: S, layer: CircuitBreakerLayer<B, W>) -> Self {
        Self {
            service,
            layer,
            #[cfg(feature = "tower")]
            readiness: Readiness::default(),
        }
    }

    /// The service behind the breakers.
    pub fn get_ref(&self) -> &S {
        &self.service
    }

    /// The service behind the breakers.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// The service without the breakers.
    pub fn into_inner(self) -> S {
        self.service
    }
}

#[cfg(feature = "tower")]
impl<S, B, W, Q, R> tower_service::Service<Request<Q>> for CircuitBreak<S, B, W>
where
    S: tower_service::Service<Request<Q>, Response = Response<R>>,
    B: Breakers,
    W: Completion<R, S::Error> + Clone,
{
    type Response = Response<W::Body<DeadlineObserver<Permit<B::Breaker>>>>;
    type Error = W::Error;
    type Future = CircuitBreakFuture<S::Future, B::Breaker, W>;

    fn poll_ready(&mut self, context: &mut core::task::Context<'_>) -> core::task::Poll<Result<(), Self::Error>> {
        let Self { service, layer: CircuitBreakerLayer { breakers, completion, .. }, readiness } = self;
        readiness
            .poll(breakers.refusal(), || service.poll_ready(context))
            .map_err(|error| completion.not_called(damper_core::CallError::Failed(error)))
    }

    #[inline]
    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let CircuitBreakerLayer { breakers, completion, min_budget } = &self.layer;
        let head = Head::of(&request);
        let skipped = || {
            let open = breakers.refusal().unwrap_or_else(open_for_no_time);
            breakers.record_refusal(&open);
            open
        };
        match self.readiness.try_acquire(|| breakers.try_acquire(&head), skipped) {
            Ok(permit) => {
                let observer = DeadlineObserver::new(permit, &head, min_budget);
                let guard = CallGuard::new(observer, completion.clone());
                let future = self.service.call(request);
                CircuitBreakFuture::permitted(future, guard)
            }
            Err(open) => CircuitBreakFuture::refused(open, completion.clone()),
        }
    }
}

#[cfg(feature = "hyper")]
impl<S, B, W, Q, R> hyper::service::Service<Request<Q>> for CircuitBreak<S, B, W>
where
    S: hyper::service::Service<Request<Q>, Response = Response<R>>,
    B: Breakers,
    W: Completion<R, S::Error> + Clone,
{
    type Response = Response<W::Body<DeadlineObserver<Permit<B::Breaker>>>>;
    type Error = W::Error;
    type Future = CircuitBreakFuture<S::Future, B::Breaker, W>;

    #[inline]
    fn call(&self, request: Request<Q>) -> Self::Future {
        let CircuitBreakerLayer { breakers, completion, min_budget } = &self.layer;
        let head = Head::of(&request);
        match breakers.try_acquire(&head) {
            Ok(permit) => {
                let observer = DeadlineObserver::new(permit, &head, min_budget);
                let guard = CallGuard::new(observer, completion.clone());
                let future = self.service.call(request);
                CircuitBreakFuture::permitted(future, guard)
            }
            Err(open) => CircuitBreakFuture::refused(open, completion.clone()),
        }
    }
}

/// Clones share the breakers; they do not share readiness.
impl<S: Clone, B: Clone, W: Clone> Clone for CircuitBreak<S, B, W> {
    fn clone(&self) -> Self {
        Self::new(self.service.clone(), self.layer.clone())
    }
}

impl<S: fmt::Debug, B: fmt::Debug, W> fmt::Debug for CircuitBreak<S, B, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreak")
            .field("service", &self.service)
            .field("breakers", &self.layer.breakers)
            .finish_non_exhaustive()
    }
}
