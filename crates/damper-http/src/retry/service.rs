//! A service whose calls are tried again.

use super::call::Call;
#[cfg(feature = "hyper")]
use super::callee::HyperService;
#[cfg(feature = "tower")]
use super::callee::TowerService;
use super::settings::RetrySettings;
use super::{Budgets, GiveUp, RetryProtocol, RetryingFuture};
use alloc::sync::Arc;
use core::fmt;
#[cfg(feature = "tower")]
use core::time::Duration;
#[cfg(feature = "tower")]
use damper_core::retry::{GaveUp, RetryError};
use damper_core::time::{Clock, Sleep};
use http::{Request, Response};

/// A client's service whose calls are tried again. Made by [`RetryLayer`](super::RetryLayer).
///
/// Ready when the service behind it is, which makes the first attempt. Other attempts are made by a clone of it, which is
/// polled for readiness before each. An error of the readiness ends the call.
///
/// # Cancel safety
///
/// A future that is dropped drops the attempt in flight, and makes no other. A retry that the budget allowed for that
/// attempt is spent.
pub struct Retrying<S, C, B, P, Z> {
    service: S,
    settings: Arc<RetrySettings<C, B, P, Z>>,
}

impl<S, C, B, P, Z> Retrying<S, C, B, P, Z> {
    pub(super) fn new(service: S, settings: Arc<RetrySettings<C, B, P, Z>>) -> Self {
        Self { service, settings }
    }

    /// The service whose calls are tried again.
    pub fn get_ref(&self) -> &S {
        &self.service
    }

    /// The service whose calls are tried again.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// The service without retries.
    pub fn into_inner(self) -> S {
        self.service
    }
}

#[cfg(feature = "tower")]
impl<S, C, B, P, Z, Q, R> tower_service::Service<Request<Q>> for Retrying<S, C, B, P, Z>
where
    S: tower_service::Service<Request<P::Body>, Response = Response<R>> + Clone,
    C: Clock + Clone + Send + Sync + 'static,
    B: Budgets,
    P: RetryProtocol<Q> + GiveUp<S::Error>,
    Z: Sleep,
{
    type Response = Response<R>;
    type Error = <P as GiveUp<S::Error>>::Error;
    type Future = RetryingFuture<TowerService<S>, Q, C, B, P, Z>;

    fn poll_ready(&mut self, context: &mut core::task::Context<'_>) -> core::task::Poll<Result<(), Self::Error>> {
        let not_ready = |error| RetryError::new(GaveUp::NotRetryable, 0, Duration::ZERO, Some(error));
        self.service.poll_ready(context).map_err(|error| self.settings.protocol.give_up(not_ready(error)))
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let (call, first) = Call::begin(&self.settings, request);
        let Some(first) = first else { return RetryingFuture::expired(call) };
        // This service is the one that is ready. Its clone has to be polled first.
        let again = call.may_be_repeated().then(|| TowerService(self.service.clone()));
        RetryingFuture::calling(call, self.service.call(first), again)
    }
}

#[cfg(feature = "hyper")]
impl<S, C, B, P, Z, Q, R> hyper::service::Service<Request<Q>> for Retrying<S, C, B, P, Z>
where
    S: hyper::service::Service<Request<P::Body>, Response = Response<R>> + Clone,
    C: Clock + Clone + Send + Sync + 'static,
    B: Budgets,
    P: RetryProtocol<Q> + GiveUp<S::Error>,
    Z: Sleep,
{
    type Response = Response<R>;
    type Error = <P as GiveUp<S::Error>>::Error;
    type Future = RetryingFuture<HyperService<S>, Q, C, B, P, Z>;

    fn call(&self, request: Request<Q>) -> Self::Future {
        let (call, first) = Call::begin(&self.settings, request);
        let Some(first) = first else { return RetryingFuture::expired(call) };
        let again = call.may_be_repeated().then(|| HyperService(self.service.clone()));
        RetryingFuture::calling(call, self.service.call(first), again)
    }
}

/// Clones share the policy; they do not share readiness.
impl<S: Clone, C, B, P, Z> Clone for Retrying<S, C, B, P, Z> {
    fn clone(&self) -> Self {
        Self::new(self.service.clone(), Arc::clone(&self.settings))
    }
}

impl<S: fmt::Debug, C, B: fmt::Debug, P, Z> fmt::Debug for Retrying<S, C, B, P, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retrying")
            .field("service", &self.service)
            .field("retry", &self.settings.retry)
            .field("budgets", &self.settings.budgets)
            .finish_non_exhaustive()
    }
}
