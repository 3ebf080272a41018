//! One call of a service, by either trait of services.

#[cfg(any(feature = "hyper", feature = "tower"))]
use core::fmt;

/// A service that is called once.
pub trait CallOnce<R> {
    /// The future that the service returns.
    type Future;

    /// Calls the service.
    fn call_once(self, request: R) -> Self::Future;
}

/// A service of `tower_service`, which is ready.
#[cfg(feature = "tower")]
pub struct TowerService<S>(pub(super) S);

#[cfg(feature = "tower")]
impl<S: tower_service::Service<R>, R> CallOnce<R> for TowerService<S> {
    type Future = S::Future;

    fn call_once(mut self, request: R) -> S::Future {
        self.0.call(request)
    }
}

#[cfg(feature = "tower")]
impl<S> fmt::Debug for TowerService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TowerService").finish_non_exhaustive()
    }
}

/// A service of `hyper::service`.
#[cfg(feature = "hyper")]
pub struct HyperService<S>(pub(super) S);

#[cfg(feature = "hyper")]
impl<S: hyper::service::Service<R>, R> CallOnce<R> for HyperService<S> {
    type Future = S::Future;

    fn call_once(self, request: R) -> S::Future {
        self.0.call(request)
    }
}

#[cfg(feature = "hyper")]
impl<S> fmt::Debug for HyperService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HyperService").finish_non_exhaustive()
    }
}
