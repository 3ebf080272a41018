//! The calls of a service behind breakers.

use crate::completion::{CallGuard, Completion, DeadlineObserver, RefusableCall};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use damper_core::breaker::{BreakerRef, CircuitOpen, Permit};
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
        call: RefusableCall<F, DeadlineObserver<Permit<B>>, W, CircuitOpen>,
    }
}

impl<F, B: BreakerRef, W> CircuitBreakFuture<F, B, W> {
    /// The call that a permit was acquired for.
    #[inline]
    pub(super) fn permitted(future: F, guard: CallGuard<DeadlineObserver<Permit<B>>, W>) -> Self {
        Self { call: RefusableCall::permitted(future, guard) }
    }

    /// A call that is not made.
    pub(super) fn refused(open: CircuitOpen, completion: W) -> Self {
        Self { call: RefusableCall::refused(open, completion) }
    }
}

impl<F, B, W, R, E> Future for CircuitBreakFuture<F, B, W>
where
    F: Future<Output = Result<Response<R>, E>>,
    B: BreakerRef,
    W: Completion<R, E>,
{
    type Output = Result<Response<W::Body<DeadlineObserver<Permit<B>>>>, W::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().call.poll(context)
    }
}

impl<F, B: BreakerRef, W> fmt::Debug for CircuitBreakFuture<F, B, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreakFuture").field("is_permitted", &self.call.is_permitted()).finish_non_exhaustive()
    }
}
