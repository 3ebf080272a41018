//! The calls of a client behind breakers.

use super::Trailers;
use super::verdict::{verdict_on, verdict_on_head};
use crate::IntoStatus;
use alloc::boxed::Box;
use core::error::Error;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use damper_core::breaker::{BreakerRef, CircuitOpen, Permit, Verdict};
use damper_core::internal::FailOnUnwind;
use damper_http::{WatchedBody, internal};
use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;
use tonic::{Code, Status};

pin_project! {
    /// The future of [`CircuitBreak`](super::CircuitBreak). A refusal is ready when it is first polled.
    ///
    /// # Cancel safety
    ///
    /// Dropped before the response, it records no verdict, and a probe gives its place back. A panic of the future is a
    /// failure.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct CircuitBreakFuture<F, B: BreakerRef, V> {
        #[pin]
        state: GrpcCall<F, B, V>,
    }
}

pin_project! {
    #[project = GrpcCallProjection]
    enum GrpcCall<F, B: BreakerRef, V> {
        // Both are there until the response is.
        Permitted { #[pin] future: F, permit: Option<Permit<B>>, classify: Option<V> },
        Refused { open: CircuitOpen },
    }
}

impl<F, B: BreakerRef, V> CircuitBreakFuture<F, B, V> {
    #[inline]
    pub(super) fn permit(future: F, permit: Option<Permit<B>>, classify: V) -> Self {
        Self { state: GrpcCall::Permitted { future, permit, classify: Some(classify) } }
    }

    pub(super) fn refuse(open: CircuitOpen) -> Self {
        Self { state: GrpcCall::Refused { open } }
    }
}

impl<F, B, V, R, E> Future for CircuitBreakFuture<F, B, V>
where
    F: Future<Output = Result<Response<R>, E>>,
    B: BreakerRef,
    V: Fn(Code) -> Verdict,
    R: Body,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    type Output = Result<Response<WatchedBody<R, B, Trailers<V>>>, Status>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            GrpcCallProjection::Permitted { future, permit, classify } => {
                let guard = FailOnUnwind::new(permit);
                let polled = future.poll(context).map_err(Into::into);
                let verdict = match (&polled, classify.as_ref()) {
                    (Poll::Ready(result), Some(classify)) => verdict_of(result, classify),
                    _ => None,
                };
                guard.over();
                let result = ready!(polled);
                // Polled again after it was ready.
                let (Some(permit), Some(classify)) = (permit.take(), classify.take()) else { return Poll::Pending };
                Poll::Ready(match (result, verdict) {
                    (Ok(response), Some(verdict)) => Ok(response.map(|body| internal::settled(body, permit, verdict))),
                    (Ok(response), None) => {
                        Ok(response.map(|body| internal::watch(body, permit, Trailers::new(classify))))
                    }
                    (Err(error), verdict) => {
                        permit.record(verdict.unwrap_or(Verdict::Failure));
                        // A generated client would do the same.
                        Err(Status::from_error(error))
                    }
                })
            }
            GrpcCallProjection::Refused { open } => Poll::Ready(Err(open.into_status())),
        }
    }
}

/// Returns the verdict, if there is one before the trailers.
///
/// An error that is a status comes from another layer. All others are failures of the transport.
fn verdict_of<R>(
    result: &Result<Response<R>, Box<dyn Error + Send + Sync>>,
    classify: &impl Fn(Code) -> Verdict,
) -> Option<Verdict> {
    match result {
        Ok(response) => verdict_on_head(response, classify),
        Err(error) => Some(error.downcast_ref().map_or(Verdict::Failure, |status| verdict_on(status, classify))),
    }
}

impl<F, B: BreakerRef, V> fmt::Debug for CircuitBreakFuture<F, B, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_permitted = matches!(self.state, GrpcCall::Permitted { .. });
        f.debug_struct("CircuitBreakFuture").field("is_permitted", &is_permitted).finish_non_exhaustive()
    }
}
