//! The service that is called again, by either trait of services.

#[cfg(any(feature = "hyper", feature = "tower"))]
use core::fmt;
use core::task::{Context, Poll};

/// A service that is called once for each attempt.
pub trait Callee<R> {
    /// Its response.
    type Response;

    /// Its error.
    type Error;

    /// The future that it returns.
    type Future: Future<Output = Result<Self::Response, Self::Error>>;

    /// Polls whether it may be called.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>>;

    /// Calls it.
    fn call(&mut self, request: R) -> Self::Future;
}

/// A service of `tower_service`.
#[cfg(feature = "tower")]
#[derive(Clone)]
pub struct TowerService<S>(pub(crate) S);

#[cfg(feature = "tower")]
impl<S: tower_service::Service<R>, R> Callee<R> for TowerService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.0.call(request)
    }
}

#[cfg(feature = "tower")]
impl<S> fmt::Debug for TowerService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TowerService").finish_non_exhaustive()
    }
}

/// A service of `hyper::service`, which is always ready.
#[cfg(feature = "hyper")]
#[derive(Clone)]
pub struct HyperService<S>(pub(crate) S);

#[cfg(feature = "hyper")]
impl<S: hyper::service::Service<R>, R> Callee<R> for HyperService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> S::Future {
        self.0.call(request)
    }
}

#[cfg(feature = "hyper")]
impl<S> fmt::Debug for HyperService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HyperService").finish_non_exhaustive()
    }
}
