//! Services of hyper behind a gate.

use crate::service::{self, AtHand};
use crate::{GateFuture, GateService, Side};
use core::task::{Context, Poll};
use hyper::service::Service;

/// A service of hyper as one of tower, which is always ready. Calls of a [`GateService`] that wait keep it.
#[derive(Clone, Debug)]
pub struct HyperService<S>(S);

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

impl<S: Service<R> + Clone, R, W> AtHand<R, W> for &S {
    type Kept = HyperService<S>;

    #[inline]
    fn call(self, request: R) -> S::Future {
        S::call(self, request)
    }

    fn keep_for(self, _: &W) -> HyperService<S> {
        HyperService(self.clone())
    }
}

/// A call that waits is made by a clone of the service.
impl<S: Service<R> + Clone, X: Side<R, S::Response, S::Error>, R> Service<R> for GateService<S, X> {
    type Response = X::Response;
    type Error = X::Error;
    type Future = GateFuture<HyperService<S>, R, X>;

    #[inline]
    fn call(&self, request: R) -> Self::Future {
        service::call(&self.side, &self.service, request)
    }
}
