//! A client behind breakers.

use super::{CircuitBreakFuture, Trailers};
use alloc::boxed::Box;
use core::error::Error;
use core::fmt;
use core::task::{Context, Poll};
use damper_core::breaker::Verdict;
use damper_core::internal::FailOnUnwind;
use damper_http::internal::Readiness;
use damper_http::{Breakers, Head, Single, WatchedBody};
use http::{Request, Response};
use http_body::Body;
use tonic::{Code, Status};
use tower_service::Service;

/// A gRPC client's service behind breakers, such as a `Channel`. Made by
/// [`CircuitBreakerLayer`](super::CircuitBreakerLayer).
///
/// Ready whenever the service behind it is, and whenever [one breaker](super::CircuitBreakerLayer::single) for all
/// requests would refuse the call: an open breaker answers at once and does not ask the service. An error of the
/// service's readiness is passed on and not counted, because it belongs to no request.
///
/// Readiness that a refusal does not use stays for the next call, as it does in
/// [the service of HTTP](damper_http::CircuitBreak), which has the rules in full.
///
/// # Cancel safety
///
/// A future that is dropped before its response records no verdict, nor does a stream that is dropped before its end; a
/// probe then gives its place back. A panic, in `call`, in the future or in the stream, is a failure, and reaches the
/// caller.
pub struct CircuitBreak<S, B = Single, V = fn(Code) -> Verdict> {
    service: S,
    breakers: B,
    classify: V,
    readiness: Readiness,
}

impl<S, B, V> CircuitBreak<S, B, V> {
    pub(super) fn new(service: S, breakers: B, classify: V) -> Self {
        Self { service, breakers, classify, readiness: Readiness::default() }
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

impl<S, B, V, Q, R> Service<Request<Q>> for CircuitBreak<S, B, V>
where
    S: Service<Request<Q>, Response = Response<R>, Error: Into<Box<dyn Error + Send + Sync>>>,
    B: Breakers,
    V: Fn(Code) -> Verdict + Clone,
    R: Body,
{
    type Response = Response<WatchedBody<R, B::Breaker, Trailers<V>>>;
    type Error = Status;
    type Future = CircuitBreakFuture<S::Future, B::Breaker, V>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let Self { service, breakers, readiness, .. } = self;
        readiness.poll(breakers, || service.poll_ready(context)).map_err(|error| Status::from_error(error.into()))
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

/// Clones share the breakers; they do not share readiness.
impl<S: Clone, B: Clone, V: Clone> Clone for CircuitBreak<S, B, V> {
    fn clone(&self) -> Self {
        Self::new(self.service.clone(), self.breakers.clone(), self.classify.clone())
    }
}

impl<S: fmt::Debug, B: fmt::Debug, V> fmt::Debug for CircuitBreak<S, B, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreak")
            .field("service", &self.service)
            .field("breakers", &self.breakers)
            .finish_non_exhaustive()
    }
}
