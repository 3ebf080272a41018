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
    /// Dropped before the response, it records no verdict, and a probe gives its place back. A panic of the future is a
    /// failure.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct CircuitBreakFuture<F, B: BreakerRef, V, W> {
        #[pin]
        state: BreakerCall<F, B, V>,
        completion: PhantomData<fn() -> W>,
    }
}

pin_project! {
    #[project = BreakerCallProjection]
    enum BreakerCall<F, B: BreakerRef, V> {
        // The permit is there until the response is.
        Permitted { #[pin] future: F, permit: Option<Permit<B>>, classify: V },
        Refused { open: CircuitOpen },
    }
}

impl<F, B: BreakerRef, V, W> CircuitBreakFuture<F, B, V, W> {
    #[inline]
    pub(super) fn permit(future: F, permit: Option<Permit<B>>, classify: V) -> Self {
        Self { state: BreakerCall::Permitted { future, permit, classify }, completion: PhantomData }
    }

    pub(super) fn refuse(open: CircuitOpen) -> Self {
        Self { state: BreakerCall::Refused { open }, completion: PhantomData }
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
            BreakerCallProjection::Permitted { future, permit, classify } => {
                let guard = FailOnUnwind::new(permit);
                let polled = future.poll(context);
                let verdict = match &polled {
                    Poll::Ready(Ok(response)) => Some(classify.verdict(Ok(&ResponseHead::of(response)))),
                    Poll::Ready(Err(error)) => Some(classify.verdict(Err(error))),
                    Poll::Pending => None,
                };
                guard.over();
                let result = ready!(polled);
                // Polled again after it was ready.
                let (Some(permit), Some(verdict)) = (permit.take(), verdict) else { return Poll::Pending };
                Poll::Ready(match result {
                    Ok(response) => Ok(W::conclude(response, permit, verdict)),
                    Err(error) => {
                        permit.record(verdict);
                        Err(CallError::Failed(error))
                    }
                })
            }
            BreakerCallProjection::Refused { open } => Poll::Ready(Err(CallError::Open(*open))),
        }
    }
}

impl<F, B: BreakerRef, V, W> fmt::Debug for CircuitBreakFuture<F, B, V, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_permitted = matches!(self.state, BreakerCall::Permitted { .. });
        f.debug_struct("CircuitBreakFuture").field("is_permitted", &is_permitted).finish_non_exhaustive()
    }
}
