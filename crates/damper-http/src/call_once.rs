//! Calls of a service, by either trait of services.

#[cfg(any(feature = "hyper", feature = "tower"))]
use core::fmt;

/// A service that is called once.
pub trait CallOnce<R> {
    /// The future that the service returns.
    type Future;

    /// Calls the service.
    fn call_once(self, request: R) -> Self::Future;
}

/// A borrowed service, for a call.
///
/// `keep` takes it for a call made later, which needs `S: Clone`. Limits that never wait need the bound too, because a
/// second impl without it would overlap.
pub(crate) trait Callee<R> {
    /// The service for a later call.
    type Kept: CallOnce<R>;

    /// Calls the service now.
    fn call(self, request: R) -> <Self::Kept as CallOnce<R>>::Future;

    /// Keeps the service for a later call.
    fn keep(self) -> Self::Kept;
}

/// A service that is cloned for each attempt.
#[cfg(feature = "tower")]
#[diagnostic::on_unimplemented(
    message = "the client `{Self}` is not `Clone`, so it cannot make another attempt",
    note = "`retry` and `hedge` need a client that is `Clone`, because each attempt takes its own",
    note = "derive `Clone` for the client that `service` or `boxed` gets, or put tower's `BufferLayer` around it"
)]
pub trait RepeatableService: Clone {}

#[cfg(feature = "tower")]
#[diagnostic::do_not_recommend]
impl<S: Clone> RepeatableService for S {}

/// A service of `tower_service`, which is ready.
#[cfg(feature = "tower")]
pub struct TowerService<S>(S);

#[cfg(feature = "tower")]
impl<S: tower_service::Service<R>, R> CallOnce<R> for TowerService<S> {
    type Future = S::Future;

    fn call_once(mut self, request: R) -> S::Future {
        self.0.call(request)
    }
}

#[cfg(feature = "tower")]
impl<S: tower_service::Service<R> + Clone, R> Callee<R> for &mut S {
    type Kept = TowerService<S>;

    #[inline]
    fn call(self, request: R) -> S::Future {
        tower_service::Service::call(self, request)
    }

    // Keep this service for the call, because it is ready. Its clone has to be polled for readiness first.
    fn keep(self) -> TowerService<S> {
        let clone = S::clone(self);
        TowerService(core::mem::replace(self, clone))
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
pub struct HyperService<S>(S);

#[cfg(feature = "hyper")]
impl<S: hyper::service::Service<R>, R> CallOnce<R> for HyperService<S> {
    type Future = S::Future;

    fn call_once(self, request: R) -> S::Future {
        self.0.call(request)
    }
}

#[cfg(feature = "hyper")]
impl<S: hyper::service::Service<R> + Clone, R> Callee<R> for &S {
    type Kept = HyperService<S>;

    #[inline]
    fn call(self, request: R) -> S::Future {
        hyper::service::Service::call(self, request)
    }

    fn keep(self) -> HyperService<S> {
        HyperService(S::clone(self))
    }
}

#[cfg(feature = "hyper")]
impl<S> fmt::Debug for HyperService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HyperService").finish_non_exhaustive()
    }
}
