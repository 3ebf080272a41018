//! A call on its way through its attempts.

use super::HedgedBody;
use super::attempt::Attempt;
use super::body::WithHedgedBody;
use super::kept::Kept;
use super::layer::HedgeSettings;
use crate::ClassifyResponse;
use crate::retry::{Budgets, RetryProtocol};
use alloc::sync::Arc;
use core::cell::RefCell;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use damper_core::internal::HedgedCall;
use damper_core::retry::{Budget, Failure};
use damper_core::time::{Clock, Sleep};
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

pin_project! {
    /// The future of [`Hedging`](super::Hedging).
    ///
    /// The first attempt was begun by the service's `call`.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct HedgingFuture<S: Service<Request<P::Body>>, Q, C: Clock, B: Budget, P: RetryProtocol<Q>, Z: Sleep, R, N: Budgets> {
        #[pin]
        call: Call<S, Q, C, B, P, Z, R, N>,
    }

    impl<S: Service<Request<P::Body>>, Q, C: Clock, B: Budget, P: RetryProtocol<Q>, Z: Sleep, R, N: Budgets> PinnedDrop for HedgingFuture<S, Q, C, B, P, Z, R, N> {
        fn drop(this: Pin<&mut Self>) {
            if let CallReference::Hedged { call, settings, .. } = this.as_ref().project_ref().call.project_ref() {
                call.abandon(&settings.hedge);
            }
        }
    }
}

pin_project! {
    #[project = CallProjection]
    #[project_ref = CallReference]
    enum Call<S: Service<Request<P::Body>>, Q, C, B, P: RetryProtocol<Q>, Z: Sleep, R, N: Budgets> {
        // Of a request that is sent once.
        Single { #[pin] response: WithHedgedBody<S::Future> },
        Hedged {
            #[pin]
            call: HedgedCall<
                WithHedgedBody<S::Future>,
                WithHedgedBody<Attempt<S, P::Body>>,
                Z::Sleeping,
                Result<Response<HedgedBody<R>>, S::Error>,
            >,
            settings: Arc<HedgeSettings<C, B, P, Z, N>>,
            budget: N::Choice,
            // For other attempts.
            service: S,
            // None once the call is over, so that a body that is still being sent is kept no longer.
            kept: Option<Kept<P::Kept, C>>,
        },
    }
}

impl<S, Q, C, B, P, Z, R, N> HedgingFuture<S, Q, C, B, P, Z, R, N>
where
    S: Service<Request<P::Body>>,
    C: Clock,
    B: Budget,
    P: RetryProtocol<Q>,
    Z: Sleep,
    N: Budgets,
{
    /// A call that is not hedged.
    pub(super) const fn single(response: S::Future) -> Self {
        Self { call: Call::Single { response: WithHedgedBody::new(response) } }
    }

    /// A call whose other attempts are made by `service`.
    pub(super) fn hedged(
        settings: &Arc<HedgeSettings<C, B, P, Z, N>>,
        service: S,
        kept: Kept<P::Kept, C>,
        budget: N::Choice,
        first: impl FnOnce() -> S::Future,
    ) -> Self {
        let first = || WithHedgedBody::new(first());
        let call = HedgedCall::begin(&settings.hedge, settings.inside_of_retries, first);
        Self { call: Call::Hedged { call, settings: Arc::clone(settings), budget, service, kept: Some(kept) } }
    }
}

impl<S, Q, C, B, P, Z, R, N> Future for HedgingFuture<S, Q, C, B, P, Z, R, N>
where
    S: Service<Request<P::Body>, Response = Response<R>> + Clone,
    C: Clock + Clone + Send + Sync + 'static,
    B: Budget,
    P: RetryProtocol<Q> + ClassifyResponse<S::Error, Option<Failure>>,
    Z: Sleep,
    N: Budgets,
{
    type Output = Result<Response<HedgedBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().call.project() {
            CallProjection::Single { response } => response.poll(context),
            CallProjection::Hedged { call, settings, budget, service, kept: for_others } => {
                // Polled again after it was ready.
                let Some(kept) = for_others else { return Poll::Pending };
                let HedgeSettings { hedge, budgets, protocol, sleep, .. } = &**settings;
                let budget = budgets.budget(budget);
                let kept = RefCell::new(kept);
                let failure = |outcome: &_| kept.borrow_mut().judge(protocol, outcome);
                let may_start = |wait| kept.borrow().may_start(wait);
                let start = |number| {
                    let request = kept.borrow().request(protocol, number)?;
                    Some(WithHedgedBody::new(Attempt::new(service.clone(), request)))
                };
                let outcome =
                    ready!(call.poll(context, hedge, budget, sleep, failure, may_start, start, HedgedBody::give_up));
                *for_others = None;
                Poll::Ready(outcome)
            }
        }
    }
}

impl<S: Service<Request<P::Body>>, Q, C: Clock, B: Budget, P: RetryProtocol<Q>, Z: Sleep, R, N: Budgets> fmt::Debug
    for HedgingFuture<S, Q, C, B, P, Z, R, N>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_hedged = matches!(self.call, Call::Hedged { .. });
        f.debug_struct("HedgingFuture").field("is_hedged", &is_hedged).finish_non_exhaustive()
    }
}
