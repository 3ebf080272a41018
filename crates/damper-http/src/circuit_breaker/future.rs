//! The calls of a service behind breakers.

use super::{Classify, Completion};
use crate::ResponseHead;
use core::fmt;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use damper_core::breaker::{BreakerRef, CallError, CircuitOpen, Permit};
use damper_core::internal::FailOnUnwind;
use http::Response;
use pin_project_lite::pin_project;

pin_project! {
    /// The future of [`CircuitBreak`](super::CircuitBreak). A refusal is ready when it is first polled.
    ///
    /// # Cancel safety
    ///
    /// Dropped before the answer is there, it tells no verdict: a probe gives its place back. A future that panics has
    /// failed.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct CircuitBreakFuture<F, B: BreakerRef, V, W> {
        #[pin]
        state: State<F, B, V>,
        moment: PhantomData<fn() -> W>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, B: BreakerRef, V> {
        // The permit is there until the answer is.
        Permitted { #[pin] future: F, permit: Option<Permit<B>>, classify: V },
        Refused { open: CircuitOpen },
    }
}

impl<F, B: BreakerRef, V, W> CircuitBreakFuture<F, B, V, W> {
    #[inline]
    pub(super) fn permit(future: F, permit: Option<Permit<B>>, classify: V) -> Self {
        Self { state: State::Permitted { future, permit, classify }, moment: PhantomData }
    }

    pub(super) fn refuse(open: CircuitOpen) -> Self {
        Self { state: State::Refused { open }, moment: PhantomData }
    }
}

impl<F, B, V, W, R, E> Future for CircuitBreakFuture<F, B, V, W>
where
    F: Future<Output = Result<Response<R>, E>>,
    B: BreakerRef,
    V: Classify<E>,
    W: Completion<R>,
{
    type Output = Result<Response<W::Body<B>>, CallError<E>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Permitted { future, permit, classify } => {
                let guard = FailOnUnwind::new(permit);
                let polled = future.poll(context);
                let verdict = match &polled {
                    Poll::Ready(Ok(answer)) => Some(classify.verdict(Ok(&ResponseHead::of(answer)))),
                    Poll::Ready(Err(error)) => Some(classify.verdict(Err(error))),
                    Poll::Pending => None,
                };
                guard.over();
                let result = ready!(polled);
                // Polled again after it was ready.
                let (Some(permit), Some(verdict)) = (permit.take(), verdict) else { return Poll::Pending };
                Poll::Ready(match result {
                    Ok(answer) => Ok(W::conclude(answer, permit, verdict)),
                    Err(error) => {
                        permit.record(verdict);
                        Err(CallError::Failed(error))
                    }
                })
            }
            StateProjection::Refused { open } => Poll::Ready(Err(CallError::Open(*open))),
        }
    }
}

impl<F, B: BreakerRef, V, W> fmt::Debug for CircuitBreakFuture<F, B, V, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_permitted = matches!(self.state, State::Permitted { .. });
        f.debug_struct("CircuitBreakFuture").field("is_permitted", &is_permitted).finish_non_exhaustive()
    }
}
