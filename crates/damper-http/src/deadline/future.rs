//! The calls of a service with deadlines.

use super::{Answer, Bounds, BoundsOf, Expiry, Over, Side};
use crate::telemetry::{DeadlineStage, Telemetry};
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
        state: DeadlineCall<F, L::Sleep, L::Report>,
    }
}

pin_project! {
    #[project = DeadlineCallProjection]
    enum DeadlineCall<F, S: damper_core::time::Sleep, P> {
        Called { #[pin] future: F, #[pin] expiry: Expiry<S>, report: P, telemetry: Telemetry },
        // `Some` until it is taken.
        Over { over: Option<Over<P>> },
    }
}

impl<F, L: Side> DeadlineFuture<F, L> {
    #[inline]
    pub(super) fn call(future: F, bounds: BoundsOf<L>) -> Self {
        let Bounds { deadline, sleep, report, telemetry } = bounds;
        Self { state: DeadlineCall::Called { future, expiry: Expiry::new(deadline, sleep), report, telemetry } }
    }

    #[cold]
    pub(super) fn over(over: Over<L::Report>) -> Self {
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
            DeadlineCallProjection::Called { future, expiry, report, telemetry } => {
                let exceeded = match future.poll(context) {
                    Poll::Ready(result) => match expiry.check() {
                        Ok(()) => {
                            let (deadline, sleep) = expiry.parts();
                            let (sleep, report, telemetry) = (sleep.clone(), report.clone(), telemetry.clone());
                            return Poll::Ready(L::in_time(result, Bounds { deadline, sleep, report, telemetry }));
                        }
                        // A result after the deadline is discarded, even if it is ready.
                        Err(exceeded) => exceeded,
                    },
                    Poll::Pending => ready!(expiry.poll_exceeded(context)),
                };
                telemetry.record_exceeded(DeadlineStage::Response, &exceeded);
                Over { exceeded, report: report.clone(), stage: DeadlineStage::Response }
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
