//! The calls of a service behind throttles.

use super::ThrottleObserver;
use crate::completion::{CallGuard, Completion, DeadlineObserver, RefusableCall};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use damper_core::throttle::{ThrottleRef, Throttled};
use http::Response;
use pin_project_lite::pin_project;

pin_project! {
    /// The future of [`ThrottleService`](super::ThrottleService). A refusal is ready when it is first polled.
    ///
    /// # Cancel safety
    ///
    /// Dropped before the response, it is as if the call had not been made. Dropped once the request's deadline has passed,
    /// it is a rejection.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct ThrottleFuture<F, T: ThrottleRef, W> {
        #[pin]
        call: RefusableCall<F, DeadlineObserver<ThrottleObserver<T>>, W, Throttled>,
    }
}

impl<F, T: ThrottleRef, W> ThrottleFuture<F, T, W> {
    /// The call that a permit was acquired for.
    #[inline]
    pub(super) fn permitted(future: F, guard: CallGuard<DeadlineObserver<ThrottleObserver<T>>, W>) -> Self {
        Self { call: RefusableCall::permitted(future, guard) }
    }

    /// A call that is not made.
    pub(super) fn refused(throttled: Throttled, completion: W) -> Self {
        Self { call: RefusableCall::refused(throttled, completion) }
    }
}

impl<F, T, W, R, E> Future for ThrottleFuture<F, T, W>
where
    F: Future<Output = Result<Response<R>, E>>,
    T: ThrottleRef,
    W: Completion<R, E, Throttled>,
{
    type Output = Result<Response<W::Body<DeadlineObserver<ThrottleObserver<T>>>>, W::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().call.poll(context)
    }
}

impl<F, T: ThrottleRef, W> fmt::Debug for ThrottleFuture<F, T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottleFuture").field("is_permitted", &self.call.is_permitted()).finish_non_exhaustive()
    }
}
