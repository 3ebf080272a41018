//! A service behind a gate.

use crate::future::Call;
use crate::future::GateFuture;
use crate::side::{Side, Stand};
use crate::unwinding::Unwinding;
use core::fmt;
use core::task::{Context, Poll};
use damper_core::gate::{Answer, Gate, WaitsWith};
use tower_service::Service;

/// A service behind a gate. Made by [`GateLayer`](crate::GateLayer), and by the layers of `damper::http`.
///
/// It is a service of tower where the one behind it is, and with the feature `hyper` one of hyper, which has no readiness.
///
/// Ready whenever the service behind it is, and whenever the gate [would refuse every call](Gate::refusal): an open breaker answers at once
/// and does not ask the service. An error of the service's readiness is passed on and no gate is told of it, because it belongs to no
/// request.
///
/// If the gate ceases to refuse between `poll_ready` and `call`, that one call is still refused, because the service was not asked. The gate
/// of a key is known only in `call`: there the service is always asked first.
///
/// A service that is ready and not called, because the gate refused the call, keeps its readiness for the next one. A call that waits is
/// made by the service that was ready, and a clone takes its place. Until then it holds what that service reserved in `poll_ready`, such as
/// a permit of tower's `ConcurrencyLimit`. The sleeps of [pacing](damper_core::gate::Paces) reserve nothing: the service is polled for
/// readiness after them.
pub struct GateService<S, X: Stand> {
    pub(crate) service: S,
    pub(crate) side: X,
    /// The refusal that every call would have got in `poll_ready`, for which the service was not polled.
    skipped: Option<<X::Gate as Gate>::Refusal>,
    /// Whether the service is ready, and holds its reservation for a call.
    is_ready: bool,
}

impl<S, X: Stand> GateService<S, X> {
    /// Puts a service behind the gate of this side.
    pub const fn new(service: S, side: X) -> Self {
        Self { service, side, skipped: None, is_ready: false }
    }

    /// The service behind the gate.
    pub const fn get_ref(&self) -> &S {
        &self.service
    }

    /// The service behind the gate.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// The service without the gate.
    pub fn into_inner(self) -> S {
        self.service
    }

    /// The service without the gate, and the gate's side.
    pub fn into_parts(self) -> (S, X) {
        (self.service, self.side)
    }
}

impl<S, X, R> Service<R> for GateService<S, X>
where
    S: Service<R>,
    X: Side<R, S::Response, S::Error>,
    <X::Gate as Gate>::Wait: WaitsWith<S>,
{
    type Response = X::Response;
    type Error = X::Error;
    type Future = GateFuture<S, R, X>;

    #[inline]
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), X::Error>> {
        self.skipped = self.side.gate().refusal();
        if self.skipped.is_some() {
            // A service that is ready can be called whatever the gate says then.
            if self.is_ready {
                self.skipped = None;
            }
            return Poll::Ready(Ok(()));
        }
        let polled = self.service.poll_ready(context);
        self.is_ready = matches!(polled, Poll::Ready(Ok(())));
        polled.map_err(X::failed)
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        if let Some(refusal) = self.skipped.take() {
            self.side.gate().refused_unasked(&refusal);
            return GateFuture::refused(self.side.refuse(refusal, &request));
        }
        match self.side.ask(&request) {
            Answer::Pass(permit) => {
                self.is_ready = false;
                let mut held = Some(self.side.hold(permit, &request));
                let watch = Unwinding::watch(&mut held);
                let future = self.service.call(request);
                watch.over();
                // No constructor makes it, because each function that a future passes through copies it.
                GateFuture { call: Call::Calling { future, held } }
            }
            Answer::Refuse(refusal) => {
                // Otherwise the service, if it is ready, stays so for the next call.
                self.is_ready &= !<X::Gate as Gate>::Wait::give_back(&mut self.service);
                GateFuture::refused(self.side.refuse(refusal, &request))
            }
            Answer::Wait(wait) => {
                self.is_ready = false;
                let service = wait.keep(&mut self.service);
                let is_released = wait.releases();
                GateFuture::waiting(wait, service, is_released, self.side.clone(), request)
            }
        }
    }
}

/// Clones share the gate; they do not share readiness.
impl<S: Clone, X: Stand> Clone for GateService<S, X> {
    fn clone(&self) -> Self {
        Self::new(self.service.clone(), self.side.clone())
    }
}

impl<S: fmt::Debug, X: Stand> fmt::Debug for GateService<S, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateService").field("service", &self.service).finish_non_exhaustive()
    }
}

/// The name of the service behind the gate.
#[cfg(feature = "tonic")]
impl<S: tonic::server::NamedService, X: Stand> tonic::server::NamedService for GateService<S, X> {
    const NAME: &'static str = S::NAME;
}
