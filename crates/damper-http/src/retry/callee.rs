//! The retried service, with either trait of services.

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

    /// Polls whether the service is ready for a call.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>>;

    /// Calls it.
    fn call(&mut self, request: R) -> Self::Future;
}

/// A service that is borrowed for one call, and can be cloned for later ones.
#[cfg(any(feature = "hyper", feature = "tower"))]
pub trait BorrowedCallee<R> {
    /// The clone.
    type Later: Callee<R>;

    /// Calls the service now.
    fn call(self, request: R) -> <Self::Later as Callee<R>>::Future;

    /// Returns a clone for later calls, which may not be ready.
    fn later(&self) -> Self::Later;

    /// Releases the readiness of the service, and returns a clone to be polled for readiness.
    ///
    /// A wait must not keep what the readiness holds, such as a permit, from other calls.
    fn release(self) -> Self::Later;
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

#[cfg(feature = "tower")]
impl<S: tower_service::Service<R> + Clone, R> BorrowedCallee<R> for &mut S {
    type Later = TowerService<S>;

    #[inline]
    fn call(self, request: R) -> S::Future {
        tower_service::Service::call(self, request)
    }

    fn later(&self) -> TowerService<S> {
        TowerService(S::clone(self))
    }

    fn release(self) -> TowerService<S> {
        let unready = S::clone(self);
        *self = S::clone(&unready);
        TowerService(unready)
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
impl<S: hyper::service::Service<R> + Clone, R> BorrowedCallee<R> for &S {
    type Later = HyperService<S>;

    #[inline]
    fn call(self, request: R) -> S::Future {
        hyper::service::Service::call(self, request)
    }

    fn later(&self) -> HyperService<S> {
        HyperService(S::clone(self))
    }

    fn release(self) -> HyperService<S> {
        self.later()
    }
}

#[cfg(feature = "hyper")]
impl<S> fmt::Debug for HyperService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HyperService").finish_non_exhaustive()
    }
}
