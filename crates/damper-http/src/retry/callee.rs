//! The service that makes the attempts of a call, of tower or of hyper.

#[cfg(feature = "hyper")]
use damper_tower::internal::HyperService;
use tower_service::Service;

/// A service that is borrowed for one call, and can be cloned for later ones.
pub trait BorrowedCallee<R> {
    /// The clone.
    type Later: Service<R>;

    /// Calls the service now.
    fn call(self, request: R) -> <Self::Later as Service<R>>::Future;

    /// Returns a clone for later calls, which may not be ready.
    fn later(&self) -> Self::Later;

    /// Releases the readiness of the service, and returns a clone to be polled for readiness.
    ///
    /// A wait must not keep what the readiness holds, such as a permit, from other calls.
    fn release(self) -> Self::Later;
}

impl<S: Service<R> + Clone, R> BorrowedCallee<R> for &mut S {
    type Later = S;

    #[inline]
    fn call(self, request: R) -> S::Future {
        Service::call(self, request)
    }

    fn later(&self) -> S {
        S::clone(self)
    }

    fn release(self) -> S {
        let unready = S::clone(self);
        *self = S::clone(&unready);
        unready
    }
}

/// It is always ready.
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
