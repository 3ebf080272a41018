//! The calls of a service behind throttles.

use crate::ClassifyResult;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use damper_core::CallError;
use damper_core::throttle::{ThrottlePermit, ThrottleRef, Throttled};
use pin_project_lite::pin_project;

pin_project! {
    /// The future of [`ThrottleService`](super::ThrottleService). A refusal is ready when it is first polled.
    ///
    /// # Cancel safety
    ///
    /// Dropped before its result, it is as if the call had not been made.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct ThrottleFuture<F, T: ThrottleRef, V> {
        #[pin]
        call: ThrottledCall<F, T, V>,
    }
}

pin_project! {
    #[project = ThrottledCallProjection]
    enum ThrottledCall<F, T: ThrottleRef, V> {
        // The permit is there until the result is.
        Permitted { #[pin] future: F, pending: Option<(ThrottlePermit<T>, V)> },
        Refused { throttled: Throttled },
    }
}

impl<F, T: ThrottleRef, V> ThrottleFuture<F, T, V> {
    /// The call that a permit was acquired for.
    #[inline]
    pub(super) fn permitted(future: F, permit: ThrottlePermit<T>, classify: V) -> Self {
        Self { call: ThrottledCall::Permitted { future, pending: Some((permit, classify)) } }
    }

    /// A call that is not made.
    #[cold]
    pub(super) fn refused(throttled: Throttled) -> Self {
        Self { call: ThrottledCall::Refused { throttled } }
    }
}

impl<F, T, V, A, E> Future for ThrottleFuture<F, T, V>
where
    F: Future<Output = Result<A, E>>,
    T: ThrottleRef,
    V: ClassifyResult<A, E>,
{
    type Output = Result<A, CallError<E, Throttled>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().call.project() {
            ThrottledCallProjection::Permitted { future, pending } => {
                let result = ready!(future.poll(context));
                if let Some((permit, classify)) = pending.take() {
                    permit.record(classify.verdict(&result));
                }
                Poll::Ready(result.map_err(CallError::Failed))
            }
            ThrottledCallProjection::Refused { throttled } => Poll::Ready(Err(CallError::Refused(*throttled))),
        }
    }
}

impl<F, T: ThrottleRef, V> fmt::Debug for ThrottleFuture<F, T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_permitted = matches!(self.call, ThrottledCall::Permitted { .. });
        f.debug_struct("ThrottleFuture").field("is_permitted", &is_permitted).finish_non_exhaustive()
    }
}
