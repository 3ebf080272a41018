//! A call of a service, whichever trait of services it is.

#[cfg(any(feature = "hyper", feature = "tower"))]
use core::fmt;

/// A service that is about to be called once.
pub trait Call<R> {
    /// What the service returns.
    type Future;

    /// Calls it.
    fn call(self, request: R) -> Self::Future;
}

/// A service of `tower_service`, which is ready.
#[cfg(feature = "tower")]
pub struct Tower<S>(pub(super) S);

#[cfg(feature = "tower")]
impl<S: tower_service::Service<R>, R> Call<R> for Tower<S> {
    type Future = S::Future;

    fn call(mut self, request: R) -> S::Future {
        self.0.call(request)
    }
}

#[cfg(feature = "tower")]
impl<S> fmt::Debug for Tower<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tower").finish_non_exhaustive()
    }
}

/// A service of `hyper::service`.
#[cfg(feature = "hyper")]
pub struct Hyper<S>(pub(super) S);

#[cfg(feature = "hyper")]
impl<S: hyper::service::Service<R>, R> Call<R> for Hyper<S> {
    type Future = S::Future;

    fn call(self, request: R) -> S::Future {
        self.0.call(request)
    }
}

#[cfg(feature = "hyper")]
impl<S> fmt::Debug for Hyper<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hyper").finish_non_exhaustive()
    }
}
