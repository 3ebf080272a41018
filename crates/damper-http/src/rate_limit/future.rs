//! The calls of a service behind a limit.

use super::costs::Unsettled;
use super::settings::RateLimitSettings;
use super::shadow::CandidateAnswer;
use super::{Body, RateLimitLayer};
use crate::Head;
use crate::call_once::CallOnce;
use crate::limit::{Answer, Limit, Standing};
use alloc::boxed::Box;
use alloc::sync::Arc;
use bytes::Bytes;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http::{Request, Response};
use pin_project_lite::pin_project;

pin_project! {
    /// The future of [`RateLimit`](super::RateLimit). A refusal is ready when it is first polled.
    ///
    /// # Cancel safety
    ///
    /// Dropping it does not give back the tokens, unless the request still waits for them.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct RateLimitFuture<W: CallOnce<Request<B>>, B, L: Limit> {
        #[pin]
        state: LimitedCall<W, B, L>,
    }
}

pin_project! {
    #[project = LimitedCallProjection]
    enum LimitedCall<W: CallOnce<Request<B>>, B, L: Limit> {
        Called { #[pin] future: W::Future, report: Option<(Standing, Arc<RateLimitSettings<L>>)> },
        Settled { #[pin] future: W::Future, unsettled: Box<Unsettled<L>> },
        // In a box, because it is larger than most futures, and few requests wait.
        Waiting { request: Pin<Box<WaitingRequest<W, B, L>>> },
        Refused { response: Option<Box<Response<Bytes>>> },
    }
}

pin_project! {
    /// A request that waits for its decision.
    struct WaitingRequest<W, B, L: Limit> {
        #[pin]
        decision: L::Future,
        cost: u32,
        candidate: CandidateAnswer,
        // There until the service is called.
        call: Option<(W, Request<B>)>,
        layer: RateLimitLayer<L>,
    }
}

impl<W: CallOnce<Request<B>>, B, L: Limit> RateLimitFuture<W, B, L> {
    #[inline]
    pub(super) fn call(future: W::Future) -> Self {
        Self { state: LimitedCall::Called { future, report: None } }
    }

    #[inline]
    pub(super) fn call_and_report(future: W::Future, standing: Standing, settings: &Arc<RateLimitSettings<L>>) -> Self {
        Self { state: LimitedCall::Called { future, report: Some((standing, Arc::clone(settings))) } }
    }

    pub(super) fn call_and_settle(future: W::Future, unsettled: Box<Unsettled<L>>) -> Self {
        Self { state: LimitedCall::Settled { future, unsettled } }
    }

    pub(super) fn respond(response: Box<Response<Bytes>>) -> Self {
        Self { state: LimitedCall::Refused { response: Some(response) } }
    }

    pub(super) fn wait(
        decision: L::Future,
        cost: u32,
        candidate: CandidateAnswer,
        service: W,
        request: Request<B>,
        layer: RateLimitLayer<L>,
    ) -> Self {
        let waiting = WaitingRequest { decision, cost, candidate, call: Some((service, request)), layer };
        Self { state: LimitedCall::Waiting { request: Box::pin(waiting) } }
    }
}

impl<W, B, L, R, E> Future for RateLimitFuture<W, B, L>
where
    W: CallOnce<Request<B>, Future: Future<Output = Result<Response<R>, E>>>,
    L: Limit,
{
    type Output = Result<Response<Body<R>>, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                // Apart, so that the response is not moved on its way to the caller.
                LimitedCallProjection::Called { future, report: None } => {
                    return future.poll(context).map_ok(|response| response.map(Body::service));
                }
                LimitedCallProjection::Called { future, report } => {
                    let mut response = ready!(future.poll(context))?;
                    if let Some((standing, settings)) = report.take() {
                        settings.write_headers(response.headers_mut(), standing);
                    }
                    return Poll::Ready(Ok(response.map(Body::service)));
                }
                LimitedCallProjection::Settled { future, unsettled } => {
                    let (mut parts, body) = ready!(future.poll(context))?.into_parts();
                    unsettled.settle(&mut parts);
                    return Poll::Ready(Ok(Response::from_parts(parts, Body::service(body))));
                }
                LimitedCallProjection::Refused { response } => {
                    return match response.take() {
                        Some(response) => Poll::Ready(Ok(response.map(Body::refusal))),
                        // Polled again after it was ready.
                        None => Poll::Pending,
                    };
                }
                LimitedCallProjection::Waiting { request } => ready!(request.as_mut().poll_decision(context)),
            };
            state.set(next);
        }
    }
}

impl<W: CallOnce<Request<B>>, B, L: Limit> WaitingRequest<W, B, L> {
    /// Polls the decision. When it is there, returns the state that follows from it.
    fn poll_decision(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<LimitedCall<W, B, L>> {
        let this = self.project();
        let answer: Answer = ready!(this.decision.poll(context));
        let Some((service, request)) = this.call.take() else { return Poll::Pending };
        let RateLimitLayer { settings, peer } = this.layer;
        let head = Head::of(&request).with_peer(peer.as_ref());
        Poll::Ready(match settings.conclude_later(&head, answer, this.candidate) {
            Ok(None) => RateLimitFuture::call(service.call_once(request)).state,
            Ok(Some(standing)) => match Unsettled::of(&head, *this.cost, standing, settings) {
                Some(unsettled) => RateLimitFuture::call_and_settle(service.call_once(request), unsettled).state,
                None => RateLimitFuture::call_and_report(service.call_once(request), standing, settings).state,
            },
            Err(response) => LimitedCall::Refused { response: Some(response) },
        })
    }
}

impl<W: CallOnce<Request<B>>, B, L: Limit> fmt::Debug for RateLimitFuture<W, B, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            LimitedCall::Called { .. } | LimitedCall::Settled { .. } => "called",
            LimitedCall::Waiting { .. } => "waiting",
            LimitedCall::Refused { .. } => "refused",
        };
        f.debug_struct("RateLimitFuture").field("state", &state).finish_non_exhaustive()
    }
}
