//! Services of hyper behind a gate.

use crate::GateService;
use crate::future::Call;
use crate::future::GateFuture;
use crate::side::Side;
use crate::unwinding::Unwinding;
use core::task::{Context, Poll};
use damper_core::gate::Answer;
use hyper::service::Service;

/// A service of hyper as one of tower, which is always ready.
///
/// Calls that wait or are made again keep it.
#[derive(Clone, Debug)]
pub struct HyperService<S>(pub S);

impl<S: Service<R>, R> tower_service::Service<R> for HyperService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, request: R) -> S::Future {
        self.0.call(request)
    }
}

/// A call that waits is made by a clone of the service.
impl<S: Service<R> + Clone, X: Side<R, S::Response, S::Error>, R> Service<R> for GateService<S, X> {
    type Response = X::Response;
    type Error = X::Error;
    type Future = GateFuture<HyperService<S>, R, X>;

    #[inline]
    fn call(&self, request: R) -> Self::Future {
        match self.side.ask(&request) {
            Answer::Pass(permit) => {
                let mut held = Some(self.side.hold(permit, &request));
                let watch = Unwinding::watch(&mut held);
                let future = self.service.call(request);
                watch.over();
                // No constructor makes it, because each function that a future passes through copies it.
                GateFuture { call: Call::Calling { future, held } }
            }
            Answer::Refuse(refusal) => GateFuture::refused(self.side.refuse(refusal, &request)),
            Answer::Wait(wait) => {
                let service = HyperService(self.service.clone());
                GateFuture::waiting(wait, service, false, self.side.clone(), request)
            }
        }
    }
}
