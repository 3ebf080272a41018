//! A service behind breakers.

#[cfg(feature = "tower")]
use super::Readiness;
use super::{AtHead, Breakers, CircuitBreakFuture, Classify, Completion, PerHost, ServerErrors};
use crate::Head;
use core::fmt;
use core::marker::PhantomData;
use damper_core::breaker::CallError;
use damper_core::internal::FailOnUnwind;
use http::{Request, Response};

/// A client's service behind breakers. Made by [`CircuitBreakerLayer`](super::CircuitBreakerLayer).
///
/// Ready whenever the service behind it is, and whenever [one breaker](super::CircuitBreakerLayer::single) for all
/// requests would refuse the call: an open breaker answers at once and does not ask the service. An error of the
/// service's readiness is passed on as [`CallError::Failed`](damper_core::CallError) and not counted, because it
/// belongs to no
/// request.
///
/// Readiness that the service has and that a refusal does not use stays for the next call. If the breaker ceases to
/// refuse between `poll_ready` and `call`, that one call is still refused, with a `retry_after` of zero, because the
/// service was not asked. [One breaker per host](super::CircuitBreakerLayer::per_host) is known only in `call`: there
/// the service is always asked first, so put such a layer around a service that is soon ready, as clients with a
/// connection pool are.
///
/// # Cancel safety
///
/// A future that is dropped before its response records no verdict, and a probe gives its place back. A panic, in
/// `call` or in the future, is a failure, and reaches the caller.
pub struct CircuitBreak<S, B = PerHost, V = ServerErrors, W = AtHead> {
    service: S,
    breakers: B,
    classify: V,
    completion: PhantomData<fn() -> W>,
    #[cfg(feature = "tower")]
    readiness: Readiness,
}

impl<S, B, V, W> CircuitBreak<S, B, V, W> {
    pub(super) fn new(service: S, breakers: B, classify: V) -> Self {
        Self {
            service,
            breakers,
            classify,
            completion: PhantomData,
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
impl<S, B, V, W, Q, R> tower_service::Service<Request<Q>> for CircuitBreak<S, B, V, W>
where
    S: tower_service::Service<Request<Q>, Response = Response<R>>,
    B: Breakers,
    V: Classify<S::Error> + Clone,
    W: Completion<R>,
{
    type Response = Response<W::Body<B::Breaker>>;
    type Error = CallError<S::Error>;
    type Future = CircuitBreakFuture<S::Future, B::Breaker, V, W>;

    fn poll_ready(&mut self, context: &mut core::task::Context<'_>) -> core::task::Poll<Result<(), Self::Error>> {
        let Self { service, breakers, readiness, .. } = self;
        readiness.poll(breakers, || service.poll_ready(context)).map_err(CallError::Failed)
    }

    #[inline]
    fn call(&mut self, request: Request<Q>) -> Self::Future {
        match self.readiness.try_acquire(&self.breakers, &Head::of(&request)) {
            Ok(permit) => {
                let mut permit = Some(permit);
                let guard = FailOnUnwind::new(&mut permit);
                let future = self.service.call(request);
                guard.over();
                CircuitBreakFuture::permit(future, permit, self.classify.clone())
            }
            Err(open) => CircuitBreakFuture::refuse(open),
        }
    }
}

#[cfg(feature = "hyper")]
impl<S, B, V, W, Q, R> hyper::service::Service<Request<Q>> for CircuitBreak<S, B, V, W>
where
    S: hyper::service::Service<Request<Q>, Response = Response<R>>,
    B: Breakers,
    V: Classify<S::Error> + Clone,
    W: Completion<R>,
{
    type Response = Response<W::Body<B::Breaker>>;
    type Error = CallError<S::Error>;
    type Future = CircuitBreakFuture<S::Future, B::Breaker, V, W>;

    #[inline]
    fn call(&self, request: Request<Q>) -> Self::Future {
        match self.breakers.try_acquire(&Head::of(&request)) {
            Ok(permit) => {
                let mut permit = Some(permit);
                let guard = FailOnUnwind::new(&mut permit);
                let future = self.service.call(request);
                guard.over();
                CircuitBreakFuture::permit(future, permit, self.classify.clone())
            }
            Err(open) => CircuitBreakFuture::refuse(open),
        }
    }
}

/// Clones share the breakers; they do not share readiness.
impl<S: Clone, B: Clone, V: Clone, W> Clone for CircuitBreak<S, B, V, W> {
    fn clone(&self) -> Self {
        Self::new(self.service.clone(), self.breakers.clone(), self.classify.clone())
    }
}

impl<S: fmt::Debug, B: fmt::Debug, V, W> fmt::Debug for CircuitBreak<S, B, V, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreak")
            .field("service", &self.service)
            .field("breakers", &self.breakers)
            .finish_non_exhaustive()
    }
}
