//! The service that a waiting call keeps.

use super::{Never, WaitFor};
use core::mem;

/// The wait of a call that a service of the type `S` makes when the wait is over.
///
/// At a gate at which no call waits any service will do. Elsewhere it has to be `Clone`.
///
/// A gate of yours whose calls wait needs nothing of this, if its [`Wait`](super::Gate::Wait) is a `Pin<Box<dyn Future<…>>>`.
#[diagnostic::on_unimplemented(
    message = "a call that waits by `{Self}` keeps no service of the type `{S}`",
    note = "a `Pin<Box<dyn Future<…>>>` keeps every service that is `Clone`; for a future of your own implement `damper::gate::WaitsWith` by `damper::gate::keep`",
    note = "in a function that is generic over a limit, bound its future: `L: Limit<Future: WaitsWith<{S}>>`"
)]
pub trait WaitsWith<S> {
    /// Takes the service that is ready, and leaves one that is not in its place.
    fn keep(&self, service: &mut S) -> S;

    /// Returns whether the call holds nothing of the service while it waits. Default: `false`.
    ///
    /// Then [`keep`](Self::keep) returns a service that has to be polled for readiness after the wait, and the wait is polled again while that
    /// is not ready. It returns the refusal if that takes too long, and is pending otherwise.
    #[inline]
    fn releases(&self) -> bool {
        false
    }

    /// Gives the readiness of the service back when a call is refused. Returns whether it did.
    ///
    /// Default: returns `false`, and the service stays ready for the next call.
    #[inline]
    fn give_back(service: &mut S) -> bool {
        _ = service;
        false
    }
}

/// A service that can be kept for a call that waits: every one that is `Clone`.
#[diagnostic::on_unimplemented(
    message = "the service `{Self}` is not `Clone`, so it cannot be called after a wait",
    note = "put tower's `BufferLayer` between the layer and the service, or call `boxed_clone` before the type is lost",
    note = "a layer whose gate lets no call wait takes every service"
)]
pub trait Keepable: Clone {}

#[diagnostic::do_not_recommend]
impl<S: Clone> Keepable for S {}

/// Takes `service`, which is ready, and leaves a clone in its place.
///
/// For implementations of [`WaitsWith`].
#[cold]
pub fn keep<S: Keepable>(service: &mut S) -> S {
    // The clone has to be polled for its readiness first.
    let clone = service.clone();
    mem::replace(service, clone)
}

/// Gives the readiness of `service` back, and returns a clone, to be polled for readiness.
///
/// The readiness may hold a permit, which a long wait must not keep from other calls.
#[cfg(feature = "alloc")]
#[cold]
pub(super) fn release<S: Keepable>(service: &mut S) -> S {
    let unready = service.clone();
    *service = unready.clone();
    unready
}

impl<P, R, S> WaitsWith<S> for Never<P, R> {
    #[inline]
    fn keep(&self, _: &mut S) -> S {
        match self.never {}
    }
}

impl<W: WaitsWith<S>, P, S> WaitsWith<S> for WaitFor<W, P> {
    fn keep(&self, service: &mut S) -> S {
        self.wait.keep(service)
    }

    fn releases(&self) -> bool {
        self.wait.releases()
    }

    fn give_back(service: &mut S) -> bool {
        W::give_back(service)
    }
}

/// Makes futures waits with every service that can be kept.
macro_rules! waits {
    ($($(#[$attribute:meta])* [$($generics:tt)*] $wait:ty,)*) => {
        $(
            $(#[$attribute])*
            impl<$($generics)*, S: Keepable> WaitsWith<S> for $wait {
                fn keep(&self, service: &mut S) -> S {
                    keep(service)
                }
            }
        )*
    };
}

#[cfg(feature = "alloc")]
waits! {
    [F: ?Sized] core::pin::Pin<alloc::boxed::Box<F>>,
    [B: crate::concurrency::SlotRef, T: crate::time::Sleep] crate::concurrency::PermitFuture<B, T>,
}

waits! {
    [Q: crate::limit::Queue, T: crate::time::Sleep] crate::limit::TokensFuture<Q, T>,
}
