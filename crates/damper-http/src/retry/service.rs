//! A service whose calls are retried.

use super::call::{BegunCall, Call};
#[cfg(feature = "hyper")]
use super::callee::HyperService;
#[cfg(feature = "tower")]
use super::callee::TowerService;
use super::layer::RetrySettings;
use super::{Budgets, GiveUp, RetryProtocol, RetryingFuture};
use crate::Head;
use alloc::sync::Arc;
use core::fmt;
#[cfg(feature = "tower")]
use core::time::Duration;
#[cfg(any(feature = "hyper", feature = "tower"))]
use damper_core::retry::GaveUp;
#[cfg(feature = "tower")]
use damper_core::retry::RetryError;
use damper_core::time::{Clock, Sleep};
use http::{Request, Response};

/// A client's service whose calls are retried, created by [`RetryLayer`](super::RetryLayer).
///
/// It is ready when the service behind it is, which makes the first attempt. A clone of that service makes the other attempts, and is
/// polled for readiness before each. An error of the readiness ends the call.
///
/// # Errors
///
/// A future's error is a [`RetryError`](damper_core::RetryError), where the last attempt ended with an error, or the deadline passed during
/// it; or what the [protocol](super::GiveUp) makes of that, such as a status of gRPC.
///
/// # Cancel safety
///
/// Dropping a future drops the attempt in flight. No other attempt is made. A retry that the budget allowed for that attempt is spent.
pub struct Retrying<S, C, B, P, Z> {
    service: S,
    settings: Arc<RetrySettings<C, B, P, Z>>,
}

impl<S, C, B, P, Z> Retrying<S, C, B, P, Z> {
    pub(super) fn new(service: S, settings: Arc<RetrySettings<C, B, P, Z>>) -> Self {
        Self { service, settings }
    }

    /// Returns the service whose calls are retried.
    pub fn get_ref(&self) -> &S {
        &self.service
    }

    /// Returns the service whose calls are retried.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// Returns the service without retries.
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
        let Self { service, settings } = self;
        let begun = BegunCall::new::<Q, _, _>(settings, &Head::of(&request));
        if begun.is_too_late() {
            return RetryingFuture::not_begun(Call::new(settings, begun, None), GaveUp::Deadline { hint: None });
        }
        let (first, kept) = begun.first_request(settings, request);
        // This service is ready, so it makes the first attempt. Its clone has to be polled for readiness first.
        let again = kept.is_some().then(|| TowerService(service.clone()));
        let attempt = service.call(first);
        RetryingFuture::calling(Call::new(settings, begun, kept), attempt, again)
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
        let Self { service, settings } = self;
        let begun = BegunCall::new::<Q, _, _>(settings, &Head::of(&request));
        if begun.is_too_late() {
            return RetryingFuture::not_begun(Call::new(settings, begun, None), GaveUp::Deadline { hint: None });
        }
        let (first, kept) = begun.first_request(settings, request);
        let again = kept.is_some().then(|| HyperService(service.clone()));
        let attempt = service.call(first);
        RetryingFuture::calling(Call::new(settings, begun, kept), attempt, again)
    }
}

/// Clones share the policy, but not readiness.
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
