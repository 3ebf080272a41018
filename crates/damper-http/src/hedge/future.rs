//! A call on its way through its attempts.

use super::attempt::Attempt;
use super::settings::HedgeSettings;
use crate::ResponseHead;
use crate::retry::{Callee, ClassifyFailure, ReplayableBody, copy};
use alloc::sync::Arc;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use damper_core::deadline::Deadline;
use damper_core::internal::HedgedCall;
use damper_core::retry::Budget;
use damper_core::time::{Clock, Sleep};
use http::{Request, Response};
use pin_project_lite::pin_project;

pin_project! {
    /// The future of [`Hedging`](super::Hedging).
    ///
    /// The first attempt was begun by the service's `call`.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it drops all attempts in flight. An extra request that the budgets allowed is spent.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct HedgingFuture<S: Callee<Request<Q>>, Q, C: Clock, B: Budget, V, Z: Sleep> {
        #[pin]
        call: Call<S, Q, C, B, V, Z>,
    }

    impl<S: Callee<Request<Q>>, Q, C: Clock, B: Budget, V, Z: Sleep> PinnedDrop for HedgingFuture<S, Q, C, B, V, Z> {
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
    enum Call<S: Callee<Request<Q>>, Q, C, B, V, Z: Sleep> {
        // Of a request that is sent once.
        Single { #[pin] response: S::Future },
        Hedged {
            #[pin]
            call: HedgedCall<S::Future, Attempt<S, Q>, Z::Sleeping, Result<S::Response, S::Error>>,
            settings: Arc<HedgeSettings<C, B, V, Z>>,
            // For other attempts: the service, and the request.
            service: S,
            request: Request<Q>,
        },
    }
}

impl<S, Q, C, B, V, Z> HedgingFuture<S, Q, C, B, V, Z>
where
    S: Callee<Request<Q>>,
    C: Clock,
    B: Budget,
    Z: Sleep,
{
    /// A call that is not hedged.
    pub(super) const fn single(response: S::Future) -> Self {
        Self { call: Call::Single { response } }
    }

    /// A call whose other attempts are made by `service`.
    pub(super) fn hedged(
        settings: &Arc<HedgeSettings<C, B, V, Z>>,
        service: S,
        request: Request<Q>,
        first: impl FnOnce() -> S::Future,
    ) -> Self {
        let call = HedgedCall::begin(&settings.hedge, first);
        Self { call: Call::Hedged { call, settings: Arc::clone(settings), service, request } }
    }
}

impl<S, Q, C, B, V, Z, R> Future for HedgingFuture<S, Q, C, B, V, Z>
where
    S: Callee<Request<Q>, Response = Response<R>> + Clone,
    Q: ReplayableBody,
    C: Clock + Send + Sync + 'static,
    B: Budget,
    V: ClassifyFailure<S::Error>,
    Z: Sleep,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().call.project() {
            CallProjection::Single { response } => response.poll(context),
            CallProjection::Hedged { call, settings, service, request } => {
                let HedgeSettings { hedge, failures, sleep } = &**settings;
                let failure = |outcome: &Result<Response<R>, S::Error>| {
                    failures.failure(outcome.as_ref().map(ResponseHead::of).as_ref().map_err(|error| *error))
                };
                let start = |_| {
                    let deadline = request.extensions().get::<Deadline<C>>();
                    let request = if deadline.is_some_and(Deadline::is_expired) { None } else { copy(request) };
                    request.map(|request| Attempt::new(service.clone(), request))
                };
                call.poll(context, hedge, sleep, failure, start)
            }
        }
    }
}

impl<S: Callee<Request<Q>>, Q, C: Clock, B: Budget, V, Z: Sleep> fmt::Debug for HedgingFuture<S, Q, C, B, V, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_hedged = matches!(self.call, Call::Hedged { .. });
        f.debug_struct("HedgingFuture").field("is_hedged", &is_hedged).finish_non_exhaustive()
    }
}
