//! The calls of a service behind a limit.

use super::{Answer, ConcurrencyLimit, Held, PermitOf, Side};
use crate::Head;
use crate::call_once::CallOnce;
use crate::completion::ResponseHead;
use alloc::boxed::Box;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http::{Request, Response};
use pin_project_lite::pin_project;

pin_project! {
    /// The future of [`ConcurrencyService`](super::ConcurrencyService). A refusal without a wait is ready when it is first polled.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it frees its slot at once, or gives up its place in the queue.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct ConcurrencyFuture<W: CallOnce<Request<B>>, B, Y: Side> {
        #[pin]
        state: LimitedCall<W, B, Y>,
    }
}

pin_project! {
    #[project = LimitedCallProjection]
    enum LimitedCall<W: CallOnce<Request<B>>, B, Y: Side> {
        // The permit is there until the response is, unless the call needs none.
        Called { #[pin] future: W::Future, held: Option<Held<PermitOf<Y>, Y::Classify>> },
        // In a box, because it is larger than most futures, and few requests wait.
        Waiting { call: Pin<Box<WaitingCall<W, B, Y>>> },
        Refused { refused: Option<Y::Refused> },
    }
}

pin_project! {
    /// A request that waits for its permit.
    struct WaitingCall<W, B, Y: Side> {
        #[pin]
        acquire: <Y::Limit as ConcurrencyLimit>::Future,
        // There until the service is called.
        call: Option<(W, Request<B>)>,
        side: Y,
    }
}

impl<W: CallOnce<Request<B>>, B, Y: Side> ConcurrencyFuture<W, B, Y> {
    #[inline]
    pub(super) fn call(future: W::Future, held: Option<Held<PermitOf<Y>, Y::Classify>>) -> Self {
        Self { state: LimitedCall::Called { future, held } }
    }

    pub(super) fn refuse(refused: Y::Refused) -> Self {
        Self { state: LimitedCall::Refused { refused: Some(refused) } }
    }

    #[cold]
    pub(super) fn wait(
        acquire: <Y::Limit as ConcurrencyLimit>::Future,
        service: W,
        request: Request<B>,
        side: Y,
    ) -> Self {
        let call = WaitingCall { acquire, call: Some((service, request)), side };
        Self { state: LimitedCall::Waiting { call: Box::pin(call) } }
    }
}

impl<W, B, Y, R, E> Future for ConcurrencyFuture<W, B, Y>
where
    W: CallOnce<Request<B>, Future: Future<Output = Result<Response<R>, E>>>,
    Y: Answer<R, E>,
{
    type Output = Result<Response<Y::Body>, Y::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                LimitedCallProjection::Called { future, held } => {
                    // On the stack while the service runs, so that a panic frees the slot.
                    let permit = held.take();
                    return match future.poll(context) {
                        Poll::Ready(Ok(response)) => {
                            let observer = permit.and_then(|permit| permit.judge(Ok(&ResponseHead::of(&response))));
                            Poll::Ready(Ok(Y::answered(response, observer)))
                        }
                        Poll::Ready(Err(error)) => {
                            drop(permit.map(|permit| permit.judge(Err(&error))));
                            Poll::Ready(Err(Y::failed(error)))
                        }
                        Poll::Pending => {
                            *held = permit;
                            Poll::Pending
                        }
                    };
                }
                LimitedCallProjection::Refused { refused } => {
                    return match refused.take() {
                        Some(refused) => Poll::Ready(Y::refused(refused)),
                        // Polled again after it was ready.
                        None => Poll::Pending,
                    };
                }
                LimitedCallProjection::Waiting { call } => ready!(call.as_mut().poll_permit(context)),
            };
            state.set(next);
        }
    }
}

impl<W: CallOnce<Request<B>>, B, Y: Side> WaitingCall<W, B, Y> {
    /// Returns the next state once the permit is granted or refused.
    fn poll_permit(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<LimitedCall<W, B, Y>> {
        let this = self.project();
        let acquired = ready!(this.acquire.poll(context));
        let Some((service, request)) = this.call.take() else { return Poll::Pending };
        let head = Head::of(&request);
        Poll::Ready(match acquired {
            Ok(permit) => {
                this.side.record_allowed();
                let permit = Held::new(permit, &head, &*this.side);
                LimitedCall::Called { future: service.call_once(request), held: Some(permit) }
            }
            Err(refusal) => LimitedCall::Refused { refused: Some(this.side.refuse(&head, refusal)) },
        })
    }
}

impl<W: CallOnce<Request<B>>, B, Y: Side> fmt::Debug for ConcurrencyFuture<W, B, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            LimitedCall::Called { .. } => "called",
            LimitedCall::Waiting { .. } => "waiting",
            LimitedCall::Refused { .. } => "refused",
        };
        f.debug_struct("ConcurrencyFuture").field("state", &state).finish_non_exhaustive()
    }
}
