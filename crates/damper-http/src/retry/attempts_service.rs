//! A client's service whose calls are made in attempts.

use super::BorrowedCallee;
use core::task::{Context, Poll};
#[cfg(feature = "hyper")]
use damper_tower::internal::HyperService;
use http::Request;
use tower_service::Service;

/// A client's service whose calls are made in attempts, by a layer with retries or hedges.
///
/// It is ready when the service behind it is. Clones share the settings of the layer, but not readiness.
#[derive(Clone, Debug)]
pub struct AttemptsService<S, L> {
    service: S,
    layer: L,
}

impl<S, L> AttemptsService<S, L> {
    pub(crate) const fn new(service: S, layer: L) -> Self {
        Self { service, layer }
    }
}

/// A layer that makes calls with the body `Q` in attempts.
pub trait AttemptBody<Q> {
    /// The body of the attempts.
    type Body;
}

/// A layer that makes the first attempt by a service that is ready, and others by its clones `S`.
pub trait CallInAttempts<Q, S: Service<Request<Self::Body>>>: AttemptBody<Q> {
    /// The response that the caller gets.
    type Response;

    /// The error that the caller gets.
    type Error;

    /// A call.
    type Future: Future<Output = Result<Self::Response, Self::Error>>;

    /// Returns the error of a service that has failed to become ready.
    fn not_ready(&self, error: S::Error) -> Self::Error;

    /// Makes a call.
    fn call<B>(&self, service: B, request: Request<Q>) -> Self::Future
    where
        B: BorrowedCallee<Request<Self::Body>, Later = S>;
}

impl<S, L, Q> Service<Request<Q>> for AttemptsService<S, L>
where
    L: AttemptBody<Q> + CallInAttempts<Q, S>,
    S: Service<Request<<L as AttemptBody<Q>>::Body>> + Clone,
{
    type Response = L::Response;
    type Error = L::Error;
    type Future = L::Future;

    #[inline]
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), L::Error>> {
        self.service.poll_ready(context).map_err(|error| self.layer.not_ready(error))
    }

    #[inline]
    fn call(&mut self, request: Request<Q>) -> L::Future {
        self.layer.call(&mut self.service, request)
    }
}

#[cfg(feature = "hyper")]
impl<S, L, Q> hyper::service::Service<Request<Q>> for AttemptsService<S, L>
where
    L: AttemptBody<Q> + CallInAttempts<Q, HyperService<S>>,
    S: hyper::service::Service<Request<<L as AttemptBody<Q>>::Body>> + Clone,
{
    type Response = L::Response;
    type Error = L::Error;
    type Future = L::Future;

    #[inline]
    fn call(&self, request: Request<Q>) -> L::Future {
        self.layer.call(&self.service, request)
    }
}
