//! A client's service whose calls are made in attempts.

#[cfg(any(feature = "hyper", feature = "tower"))]
use super::BorrowedCallee;
use super::Callee;
#[cfg(feature = "hyper")]
use super::HyperService;
#[cfg(feature = "tower")]
use super::TowerService;
use http::Request;

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

    /// Returns the service that makes the attempts.
    pub const fn get_ref(&self) -> &S {
        &self.service
    }

    /// Returns the service that makes the attempts.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// Returns the service without the layer.
    pub fn into_inner(self) -> S {
        self.service
    }
}

/// A layer that makes calls with the body `Q` in attempts.
pub trait AttemptBody<Q> {
    /// The body of the attempts.
    type Body;
}

/// A layer that makes the first attempt by a service that is ready, and others by its clones `S`.
pub trait CallInAttempts<Q, S: Callee<Request<Self::Body>>>: AttemptBody<Q> {
    /// The response that the caller gets.
    type Response;

    /// The error that the caller gets.
    type Error;

    /// A call.
    type Future: Future<Output = Result<Self::Response, Self::Error>>;

    /// Returns the error of a service that has failed to become ready.
    fn not_ready(&self, error: S::Error) -> Self::Error;

    /// Makes a call.
    #[cfg(any(feature = "hyper", feature = "tower"))]
    fn call<B>(&self, service: B, request: Request<Q>) -> Self::Future
    where
        B: BorrowedCallee<Request<Self::Body>, Later = S>;
}

#[cfg(feature = "tower")]
impl<S, L, Q> tower_service::Service<Request<Q>> for AttemptsService<S, L>
where
    L: AttemptBody<Q> + CallInAttempts<Q, TowerService<S>>,
    S: tower_service::Service<Request<<L as AttemptBody<Q>>::Body>> + Clone,
{
    type Response = L::Response;
    type Error = L::Error;
    type Future = L::Future;

    #[inline]
    fn poll_ready(&mut self, context: &mut core::task::Context<'_>) -> core::task::Poll<Result<(), L::Error>> {
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
