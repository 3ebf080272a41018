//! A service whose slow calls are made twice.

use super::kept::Kept;
use super::layer::HedgeSettings;
use super::{HedgedBody, HedgingFuture};
#[cfg(feature = "hyper")]
use crate::retry::HyperService;
#[cfg(feature = "tower")]
use crate::retry::TowerService;
use crate::retry::{Budgets, ClassifyFailure, RetryProtocol};
use alloc::sync::Arc;
use core::fmt;
use damper_core::retry::{Budget, Unlimited};
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
pub struct Hedging<S, C, B, P, Z, N = Unlimited> {
    service: S,
    settings: Arc<HedgeSettings<C, B, P, Z, N>>,
}

impl<S, C, B, P, Z, N> Hedging<S, C, B, P, Z, N> {
    pub(super) fn new(service: S, settings: Arc<HedgeSettings<C, B, P, Z, N>>) -> Self {
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

#[cfg(feature = "tower")]
impl<S, C, B, P, Z, N, Q, R> tower_service::Service<Request<Q>> for Hedging<S, C, B, P, Z, N>
where
    S: tower_service::Service<Request<P::Body>, Response = Response<R>> + Clone,
    C: Clock + Clone + Send + Sync + 'static,
    B: Budget,
    P: RetryProtocol<Q> + ClassifyFailure<S::Error>,
    Z: Sleep,
    N: Budgets,
{
    type Response = Response<HedgedBody<R>>;
    type Error = S::Error;
    type Future = HedgingFuture<TowerService<S>, Q, C, B, P, Z, R, N>;

    fn poll_ready(&mut self, context: &mut core::task::Context<'_>) -> core::task::Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let HedgeSettings { hedge, budgets, protocol, .. } = &*self.settings;
        let (first, kept) = Kept::begin(protocol, &**budgets, hedge.clock(), request);
        let Some((kept, budget)) = kept else { return HedgingFuture::single(self.service.call(first)) };
        // This service is the one that is ready. Its clone has to be polled first.
        let clone = TowerService(self.service.clone());
        HedgingFuture::hedged(&self.settings, clone, kept, budget, || self.service.call(first))
    }
}

#[cfg(feature = "hyper")]
impl<S, C, B, P, Z, N, Q, R> hyper::service::Service<Request<Q>> for Hedging<S, C, B, P, Z, N>
where
    S: hyper::service::Service<Request<P::Body>, Response = Response<R>> + Clone,
    C: Clock + Clone + Send + Sync + 'static,
    B: Budget,
    P: RetryProtocol<Q> + ClassifyFailure<S::Error>,
    Z: Sleep,
    N: Budgets,
{
    type Response = Response<HedgedBody<R>>;
    type Error = S::Error;
    type Future = HedgingFuture<HyperService<S>, Q, C, B, P, Z, R, N>;

    fn call(&self, request: Request<Q>) -> Self::Future {
        let HedgeSettings { hedge, budgets, protocol, .. } = &*self.settings;
        let (first, kept) = Kept::begin(protocol, &**budgets, hedge.clock(), request);
        let Some((kept, budget)) = kept else { return HedgingFuture::single(self.service.call(first)) };
        let clone = HyperService(self.service.clone());
        HedgingFuture::hedged(&self.settings, clone, kept, budget, || self.service.call(first))
    }
}

/// Clones share the hedge; they do not share readiness.
impl<S: Clone, C, B, P, Z, N> Clone for Hedging<S, C, B, P, Z, N> {
    fn clone(&self) -> Self {
        Self::new(self.service.clone(), Arc::clone(&self.settings))
    }
}

impl<S: fmt::Debug, C, B: fmt::Debug, P, Z, N> fmt::Debug for Hedging<S, C, B, P, Z, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hedging")
            .field("service", &self.service)
            .field("hedge", &self.settings.hedge)
            .finish_non_exhaustive()
    }
}
