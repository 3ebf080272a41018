//! The calls of a service behind a limiter.

use super::shared_limiter::Wait;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use damper_core::CallError;
use damper_core::limit::Denied;
use pin_project_lite::pin_project;
use tower_service::Service;

pin_project! {
    /// The future of [`LimitService`](super::LimitService). A refusal is ready when it is first polled.
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits, it gives its token back, unless another caller waits behind it.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct LimitFuture<S: Service<R>, R> {
        #[pin]
        call: LimitedCall<S, R, S::Future>,
    }
}

pin_project! {
    #[project = LimitedCallProjection]
    enum LimitedCall<S, R, F> {
        // The request is there until the call is made.
        Waiting { wait: Wait, service: S, request: Option<R> },
        Calling { #[pin] future: F },
        Denied { denied: Denied },
    }
}

impl<S: Service<R>, R> LimitFuture<S, R> {
    #[inline]
    pub(super) fn calling(future: S::Future) -> Self {
        Self { call: LimitedCall::Calling { future } }
    }

    pub(super) fn waiting(wait: Wait, service: S, request: R) -> Self {
        Self { call: LimitedCall::Waiting { wait, service, request: Some(request) } }
    }

    #[cold]
    pub(super) fn denied(denied: Denied) -> Self {
        Self { call: LimitedCall::Denied { denied } }
    }
}

impl<S: Service<R>, R> Future for LimitFuture<S, R> {
    type Output = Result<S::Response, CallError<S::Error, Denied>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut call = self.project().call;
        loop {
            let next = match call.as_mut().project() {
                LimitedCallProjection::Calling { future } => return future.poll(context).map_err(CallError::Failed),
                LimitedCallProjection::Denied { denied } => return Poll::Ready(Err(CallError::Refused(*denied))),
                LimitedCallProjection::Waiting { wait, service, request } => {
                    match (ready!(wait.as_mut().poll(context)), request.take()) {
                        (Ok(()), Some(request)) => LimitedCall::Calling { future: service.call(request) },
                        (Err(denied), _) => LimitedCall::Denied { denied },
                        // The service panicked, and it is polled again.
                        (Ok(()), None) => return Poll::Pending,
                    }
                }
            };
            call.set(next);
        }
    }
}

impl<S: Service<R>, R> fmt::Debug for LimitFuture<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_waiting = matches!(self.call, LimitedCall::Waiting { .. });
        f.debug_struct("LimitFuture").field("is_waiting", &is_waiting).finish_non_exhaustive()
    }
}
