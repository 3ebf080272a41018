//! The calls of a service behind a limit.

use super::policy::Policy;
use crate::call::Call;
use crate::limit::{Answer, Limit, Standing};
use crate::{Body, Head};
use alloc::boxed::Box;
use alloc::sync::Arc;
use bytes::Bytes;
use core::fmt;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http::{Request, Response};
use pin_project_lite::pin_project;

pin_project! {
    /// The future of [`RateLimit`](super::RateLimit). A refusal is ready when it is first polled.
    ///
    /// # Cancel safety
    ///
    /// Dropping it does not give back the token, unless the request still waits for one.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct RateLimitFuture<W: Call<Request<B>>, B, L: Limit> {
        #[pin]
        state: State<W, B, L>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<W: Call<Request<B>>, B, L: Limit> {
        Called { #[pin] future: W::Future, told: Option<(Standing, Arc<Policy<L>>)> },
        // In a box, because it is larger than most futures, and few requests wait.
        Waiting { held: Pin<Box<Held<W, B, L>>> },
        Refused { response: Option<Box<Response<Bytes>>> },
    }
}

pin_project! {
    /// A request that waits for its decision.
    struct Held<W, B, L: Limit> {
        #[pin]
        later: L::Later,
        // Until it is called.
        call: Option<(W, Request<B>)>,
        policy: Arc<Policy<L>>,
        peer: Option<SocketAddr>,
    }
}

impl<W: Call<Request<B>>, B, L: Limit> RateLimitFuture<W, B, L> {
    #[inline]
    pub(super) fn pass(future: W::Future) -> Self {
        Self { state: State::Called { future, told: None } }
    }

    #[inline]
    pub(super) fn pass_and_tell(future: W::Future, standing: Standing, policy: &Arc<Policy<L>>) -> Self {
        Self { state: State::Called { future, told: Some((standing, Arc::clone(policy))) } }
    }

    pub(super) fn refuse(response: Box<Response<Bytes>>) -> Self {
        Self { state: State::Refused { response: Some(response) } }
    }

    pub(super) fn wait(
        later: L::Later,
        service: W,
        request: Request<B>,
        policy: &Arc<Policy<L>>,
        peer: Option<SocketAddr>,
    ) -> Self {
        let held = Held { later, call: Some((service, request)), policy: Arc::clone(policy), peer };
        Self { state: State::Waiting { held: Box::pin(held) } }
    }
}

impl<W, B, L, R, E> Future for RateLimitFuture<W, B, L>
where
    W: Call<Request<B>, Future: Future<Output = Result<Response<R>, E>>>,
    L: Limit,
{
    type Output = Result<Response<Body<R>>, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                // The answer goes from the service to the caller without a stop on the way.
                StateProjection::Called { future, told: None } => {
                    return future.poll(context).map_ok(|response| response.map(Body::answer));
                }
                StateProjection::Called { future, told } => {
                    let mut response = ready!(future.poll(context))?;
                    if let Some((standing, policy)) = told.take() {
                        policy.tell(response.headers_mut(), standing);
                    }
                    return Poll::Ready(Ok(response.map(Body::answer)));
                }
                StateProjection::Refused { response } => {
                    return match response.take() {
                        Some(response) => Poll::Ready(Ok(response.map(Body::refusal))),
                        // Polled again after it was ready.
                        None => Poll::Pending,
                    };
                }
                StateProjection::Waiting { held } => ready!(held.as_mut().poll_held(context)),
            };
            state.set(next);
        }
    }
}

impl<W: Call<Request<B>>, B, L: Limit> Held<W, B, L> {
    /// Waits for the decision, and does what follows from it.
    fn poll_held(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<State<W, B, L>> {
        let this = self.project();
        let answer: Answer = ready!(this.later.poll(context));
        let Some((service, request)) = this.call.take() else { return Poll::Pending };
        Poll::Ready(match this.policy.conclude(&Head::of(&request).told(this.peer.as_ref()), answer) {
            Ok(None) => RateLimitFuture::pass(service.call(request)).state,
            Ok(Some(standing)) => RateLimitFuture::pass_and_tell(service.call(request), standing, this.policy).state,
            Err(response) => State::Refused { response: Some(response) },
        })
    }
}

impl<W: Call<Request<B>>, B, L: Limit> fmt::Debug for RateLimitFuture<W, B, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Called { .. } => "called",
            State::Waiting { .. } => "waiting",
            State::Refused { .. } => "refused",
        };
        f.debug_struct("RateLimitFuture").field("state", &state).finish_non_exhaustive()
    }
}
