//! The calls of a service behind bulkheads.

use super::SharedBulkhead;
use core::fmt;
use core::future::Pending;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use damper_core::CallError;
use damper_core::concurrency::{BulkheadFull, BulkheadPermit, BulkheadRef};
use pin_project_lite::pin_project;
use tower_service::Service;

pin_project! {
    /// The future of [`BulkheadService`](super::BulkheadService). A refusal is ready when it is first polled.
    ///
    /// `A` waits for a permit. In a layer without `waiting` none does.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it gives its permit back, or leaves its place in the queue.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct BulkheadFuture<S: Service<R>, R, B: BulkheadRef, A = Pending<Result<BulkheadPermit<B>, BulkheadFull>>> {
        #[pin]
        call: BulkheadCall<S, R, S::Future, B, A>,
    }
}

pin_project! {
    #[project = BulkheadCallProjection]
    enum BulkheadCall<S, R, F, B: BulkheadRef, A> {
        // The request is there until the call is made.
        Waiting { #[pin] wait: A, service: S, request: Option<R> },
        // The permit is there until the call has ended or panicked.
        Calling { #[pin] future: F, permit: Option<BulkheadPermit<B>> },
        Refused { full: BulkheadFull },
    }
}

impl<S: Service<R>, R, B: BulkheadRef, A> BulkheadFuture<S, R, B, A> {
    #[inline]
    pub(super) fn calling(future: S::Future, permit: BulkheadPermit<B>) -> Self {
        Self { call: BulkheadCall::Calling { future, permit: Some(permit) } }
    }

    pub(super) fn waiting(wait: A, service: S, request: R) -> Self {
        Self { call: BulkheadCall::Waiting { wait, service, request: Some(request) } }
    }

    #[cold]
    pub(super) fn refused(full: BulkheadFull) -> Self {
        Self { call: BulkheadCall::Refused { full } }
    }
}

impl<S, R, B, A> Future for BulkheadFuture<S, R, B, A>
where
    S: Service<R>,
    B: SharedBulkhead,
    A: Future<Output = Result<BulkheadPermit<B>, BulkheadFull>>,
{
    type Output = Result<S::Response, CallError<S::Error, BulkheadFull>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut call = self.project().call;
        loop {
            let next = match call.as_mut().project() {
                BulkheadCallProjection::Calling { future, permit } => {
                    // On the stack while the service runs, so that a panic frees the slot.
                    let Some(held) = permit.take() else { return Poll::Pending };
                    return match future.poll(context) {
                        Poll::Ready(result) => {
                            B::ended(held, &result);
                            Poll::Ready(result.map_err(CallError::Failed))
                        }
                        Poll::Pending => {
                            *permit = Some(held);
                            Poll::Pending
                        }
                    };
                }
                BulkheadCallProjection::Refused { full } => return Poll::Ready(Err(CallError::Refused(*full))),
                BulkheadCallProjection::Waiting { wait, service, request } => {
                    match (ready!(wait.poll(context)), request.take()) {
                        (Ok(permit), Some(request)) => {
                            BulkheadCall::Calling { future: service.call(request), permit: Some(permit) }
                        }
                        (Err(full), _) => BulkheadCall::Refused { full },
                        // The service panicked, and it is polled again.
                        (Ok(_), None) => return Poll::Pending,
                    }
                }
            };
            call.set(next);
        }
    }
}

impl<S: Service<R>, R, B: BulkheadRef, A> fmt::Debug for BulkheadFuture<S, R, B, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_waiting = matches!(self.call, BulkheadCall::Waiting { .. });
        f.debug_struct("BulkheadFuture").field("is_waiting", &is_waiting).finish_non_exhaustive()
    }
}
