//! A service whose slow calls are made twice.

use super::HedgingFuture;
use super::settings::HedgeSettings;
#[cfg(feature = "hyper")]
use crate::retry::HyperService;
#[cfg(feature = "tower")]
use crate::retry::TowerService;
use crate::retry::{ClassifyFailure, Idempotent, ReplayableBody, copy};
use alloc::sync::Arc;
use core::fmt;
use damper_core::retry::Budget;
use damper_core::time::{Clock, Sleep};
use http::{Request, Response};

/// A client's service whose slow calls are made twice. Made by [`HedgeLayer`](super::HedgeLayer).
///
/// Ready when the service behind it is, which makes the first attempt. Each other attempt is made by a clone of it, once the
/// clone is ready. A clone that fails to become ready is an attempt that failed.
///
/// # Cancel safety
///
/// A future that is dropped drops all attempts in flight. An extra request that the budgets allowed is spent.
pub struct Hedging<S, C, B, V, Z> {
    service: S,
    settings: Arc<HedgeSettings<C, B, V, Z>>,
}

impl<S, C, B, V, Z> Hedging<S, C, B, V, Z> {
    pub(super) fn new(service: S, settings: Arc<HedgeSettings<C, B, V, Z>>) -> Self {
        Self { service, settings }
    }

    /// The service whose slow calls are made twice.
    pub fn get_ref(&self) -> &S {
        &self.service
    }

    /// The service whose slow calls are made twice.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// The service without hedges.
    pub fn into_inner(self) -> S {
        self.service
    }
}

/// Returns what other attempts send; `None` if the request must be sent once.
fn replay<Q: ReplayableBody>(request: &Request<Q>) -> Option<Request<Q>> {
    if Idempotent::is(request) { copy(request) } else { None }
}

#[cfg(feature = "tower")]
impl<S, C, B, V, Z, Q, R> tower_service::Service<Request<Q>> for Hedging<S, C, B, V, Z>
where
    S: tower_service::Service<Request<Q>, Response = Response<R>> + Clone,
    C: Clock + Send + Sync + 'static,
    B: Budget,
    V: ClassifyFailure<S::Error>,
    Z: Sleep,
    Q: ReplayableBody,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = HedgingFuture<TowerService<S>, Q, C, B, V, Z>;

    fn poll_ready(&mut self, context: &mut core::task::Context<'_>) -> core::task::Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        match replay(&request) {
            // This service is the one that is ready. Its clone has to be polled first.
            Some(other) => {
                let clone = TowerService(self.service.clone());
                HedgingFuture::hedged(&self.settings, clone, other, || self.service.call(request))
            }
            None => HedgingFuture::single(self.service.call(request)),
        }
    }
}

#[cfg(feature = "hyper")]
impl<S, C, B, V, Z, Q, R> hyper::service::Service<Request<Q>> for Hedging<S, C, B, V, Z>
where
    S: hyper::service::Service<Request<Q>, Response = Response<R>> + Clone,
    C: Clock + Send + Sync + 'static,
    B: Budget,
    V: ClassifyFailure<S::Error>,
    Z: Sleep,
    Q: ReplayableBody,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = HedgingFuture<HyperService<S>, Q, C, B, V, Z>;

    fn call(&self, request: Request<Q>) -> Self::Future {
        match replay(&request) {
            Some(other) => {
                let clone = HyperService(self.service.clone());
                HedgingFuture::hedged(&self.settings, clone, other, || self.service.call(request))
            }
            None => HedgingFuture::single(self.service.call(request)),
        }
    }
}

/// Clones share the hedge; they do not share readiness.
impl<S: Clone, C, B, V, Z> Clone for Hedging<S, C, B, V, Z> {
    fn clone(&self) -> Self {
        Self::new(self.service.clone(), Arc::clone(&self.settings))
    }
}

impl<S: fmt::Debug, C, B: fmt::Debug, V, Z> fmt::Debug for Hedging<S, C, B, V, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hedging")
            .field("service", &self.service)
            .field("hedge", &self.settings.hedge)
            .finish_non_exhaustive()
    }
}
