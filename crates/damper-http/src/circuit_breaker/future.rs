//! The calls of a service behind breakers.

use super::BreakerObserver;
use crate::completion::{CallGuard, Completion, ObservedCall};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use damper_core::breaker::{BreakerRef, CallError, CircuitOpen};
use http::Response;
use pin_project_lite::pin_project;

pin_project! {
    /// The future of [`CircuitBreak`](super::CircuitBreak). A refusal is ready when it is first polled.
    ///
    /// # Cancel safety
    ///
    /// Dropped before the response, it records no verdict, and a probe gives its place back. Dropped once the request's
    /// deadline has passed, it is a failure, and so is a panic of the future.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct CircuitBreakFuture<F, B: BreakerRef, W> {
        #[pin]
        state: BreakerCall<F, B, W>,
    }
}

pin_project! {
    #[project = BreakerCallProjection]
    enum BreakerCall<F, B: BreakerRef, W> {
        Permitted { #[pin] call: ObservedCall<F, BreakerObserver<B>, W> },
        Refused { open: CircuitOpen, completion: W },
    }
}

impl<F, B: BreakerRef, W> CircuitBreakFuture<F, B, W> {
    /// The call that a permit was acquired for.
    #[inline]
    pub(super) fn permitted(future: F, guard: CallGuard<BreakerObserver<B>, W>) -> Self {
        // Not by `observe`: every function that a future passes through copies it.
        Self { state: BreakerCall::Permitted { call: ObservedCall { future, pending: guard.finish() } } }
    }

    /// A call that is not made.
    pub(super) fn refused(open: CircuitOpen, completion: W) -> Self {
        Self { state: BreakerCall::Refused { open, completion } }
    }
}

impl<F, B, W, R, E> Future for CircuitBreakFuture<F, B, W>
where
    F: Future<Output = Result<Response<R>, E>>,
    B: BreakerRef,
    W: Completion<R, E>,
{
    type Output = Result<Response<W::Body<BreakerObserver<B>>>, W::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            BreakerCallProjection::Permitted { call } => call.poll(context),
            BreakerCallProjection::Refused { open, completion } => {
                Poll::Ready(Err(completion.not_called(CallError::Refused(*open))))
            }
        }
    }
}

impl<F, B: BreakerRef, W> fmt::Debug for CircuitBreakFuture<F, B, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_permitted = matches!(self.state, BreakerCall::Permitted { .. });
        f.debug_struct("CircuitBreakFuture").field("is_permitted", &is_permitted).finish_non_exhaustive()
    }
}
