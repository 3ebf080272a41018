//! The calls of a service with deadlines.

use super::{Answer, Bounds, Expiry, Over, Protocol, Side};
use crate::telemetry::{DeadlineStage, DeadlineTelemetry};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http::Response;
use pin_project_lite::pin_project;

pin_project! {
    /// The future of [`DeadlineService`](super::DeadlineService), which is ready by the deadline at the latest.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct DeadlineFuture<F, L: Side> {
        #[pin]
        state: DeadlineCall<F, L::Sleep>,
    }
}

pin_project! {
    #[project = DeadlineCallProjection]
    enum DeadlineCall<F, S: damper_core::time::Sleep> {
        Called { #[pin] future: F, #[pin] expiry: Expiry<S>, protocol: Protocol, telemetry: DeadlineTelemetry },
        // `Some` until it is taken.
        Over { over: Option<Over> },
    }
}

impl<F, L: Side> DeadlineFuture<F, L> {
    #[inline]
    pub(super) fn call(future: F, bounds: Bounds<L::Sleep>) -> Self {
        let Bounds { deadline, sleep, protocol, telemetry } = bounds;
        Self { state: DeadlineCall::Called { future, expiry: Expiry::new(deadline, sleep), protocol, telemetry } }
    }

    #[cold]
    pub(super) fn over(over: Over) -> Self {
        Self { state: DeadlineCall::Over { over: Some(over) } }
    }
}

impl<F, L, R, E> Future for DeadlineFuture<F, L>
where
    F: Future<Output = Result<Response<R>, E>>,
    L: Answer<R, E>,
{
    type Output = Result<Response<L::Body>, L::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        let over = match state.as_mut().project() {
            DeadlineCallProjection::Called { future, expiry, protocol, telemetry } => {
                let exceeded = match future.poll(context) {
                    Poll::Ready(result) => match expiry.check() {
                        Ok(()) => {
                            let (deadline, sleep) = expiry.parts();
                            let (sleep, protocol, telemetry) = (sleep.clone(), protocol.clone(), telemetry.clone());
                            return Poll::Ready(L::in_time(result, Bounds { deadline, sleep, protocol, telemetry }));
                        }
                        // A result after the deadline is discarded, even if it is ready.
                        Err(exceeded) => exceeded,
                    },
                    Poll::Pending => ready!(expiry.poll_exceeded(context)),
                };
                telemetry.record_exceeded(DeadlineStage::Response, &exceeded);
                Over { exceeded, protocol: protocol.clone(), stage: DeadlineStage::Response }
            }
            DeadlineCallProjection::Over { over } => match over.take() {
                Some(over) => over,
                // It was polled again after it was ready.
                None => return Poll::Pending,
            },
        };
        // Drops the service's future.
        state.set(DeadlineCall::Over { over: None });
        Poll::Ready(L::over(over))
    }
}

impl<F, L: Side> fmt::Debug for DeadlineFuture<F, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_called = matches!(self.state, DeadlineCall::Called { .. });
        f.debug_struct("DeadlineFuture").field("is_called", &is_called).finish_non_exhaustive()
    }
}
