//! A service whose slow calls are made twice.

use super::kept::Kept;
use super::layer::HedgeSettings;
use super::{HedgedBody, HedgingFuture};
use crate::ClassifyResponse;
use crate::retry::BorrowedCallee;
use crate::retry::{AttemptBody, AttemptsService, Budgets, CallInAttempts, RetryProtocol};
use alloc::sync::Arc;
use damper_core::retry::{Budget, Failure, Unlimited};
use damper_core::time::{Clock, Sleep};
use http::{Request, Response};
use tower_service::Service;

/// A client's service whose slow calls are made twice. Made by [`HedgeLayer`](super::HedgeLayer).
///
/// Ready when the service behind it is, which makes the first attempt. Each other attempt is made by a clone of it, once the
/// clone is ready. A clone that fails to become ready is an attempt that failed.
///
/// # Cancel safety
///
/// A future that is dropped drops all attempts in flight. An extra request that the budgets allowed is spent.
pub type Hedging<S, C, B, P, Z, N = Unlimited> = AttemptsService<S, Arc<HedgeSettings<C, B, P, Z, N>>>;

impl<C, B, P: RetryProtocol<Q>, Z, N, Q> AttemptBody<Q> for Arc<HedgeSettings<C, B, P, Z, N>> {
    type Body = P::Body;
}

impl<S, C, B, P, Z, N, Q, R> CallInAttempts<Q, S> for Arc<HedgeSettings<C, B, P, Z, N>>
where
    S: Service<Request<P::Body>, Response = Response<R>> + Clone,
    C: Clock + Clone + Send + Sync + 'static,
    B: Budget,
    P: RetryProtocol<Q> + ClassifyResponse<S::Error, Option<Failure>>,
    Z: Sleep,
    N: Budgets,
{
    type Response = Response<HedgedBody<R>>;
    type Error = S::Error;
    type Future = HedgingFuture<S, Q, C, B, P, Z, R, N>;

    fn not_ready(&self, error: S::Error) -> S::Error {
        error
    }

    #[inline]
    fn call<T: BorrowedCallee<Request<P::Body>, Later = S>>(&self, service: T, request: Request<Q>) -> Self::Future {
        let HedgeSettings { hedge, budgets, protocol, .. } = &**self;
        let (first, kept) = Kept::begin(protocol, &**budgets, hedge.clock(), request);
        let Some((kept, budget)) = kept else { return HedgingFuture::single(service.call(first)) };
        // This service is the one that is ready. Its clone has to be polled first.
        let clone = service.later();
        HedgingFuture::hedged(self, clone, kept, budget, || service.call(first))
    }
}
