//! The calls of a client behind breakers.

use super::code::verdict_on;
use super::{Trailers, head};
use crate::breaker::{BreakerRef, CircuitOpen, Permit, Verdict};
use crate::http::WatchedBody;
use alloc::boxed::Box;
use core::error::Error;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;
use tonic::{Code, Status};

pin_project! {
    /// The future of [`CircuitBreak`](super::CircuitBreak). A refusal is ready when it is first polled.
    ///
    /// # Cancel safety
    ///
    /// Dropped before the answer is there, it tells no verdict: a probe gives its place back.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct CircuitBreakFuture<F, B: BreakerRef, V> {
        #[pin]
        state: State<F, B, V>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, B: BreakerRef, V> {
        // The permit is there until the answer is.
        Permitted { #[pin] future: F, permit: Option<(Permit<B>, V)> },
        Refused { open: CircuitOpen },
    }
}

impl<F, B: BreakerRef, V> CircuitBreakFuture<F, B, V> {
    #[inline]
    pub(super) fn permit(future: F, permit: Permit<B>, classify: V) -> Self {
        Self { state: State::Permitted { future, permit: Some((permit, classify)) } }
    }

    pub(super) fn refuse(open: CircuitOpen) -> Self {
        Self { state: State::Refused { open } }
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
            StateProjection::Permitted { future, permit } => {
                let result = ready!(future.poll(context));
                // Polled again after it was ready.
                let Some((permit, classify)) = permit.take() else { return Poll::Pending };
                Poll::Ready(match result {
                    Ok(answer) => Ok(watch(answer, permit, classify)),
                    Err(error) => Err(fail(error.into(), permit, &classify)),
                })
            }
            StateProjection::Refused { open } => Poll::Ready(Err((*open).into())),
        }
    }
}

/// Tells what the head said, or waits for the trailers.
fn watch<R: Body, B: BreakerRef, V: Fn(Code) -> Verdict>(
    answer: Response<R>,
    permit: Permit<B>,
    classify: V,
) -> Response<WatchedBody<R, B, Trailers<V>>> {
    match head::verdict(&answer, &classify) {
        Some(verdict) => answer.map(|body| WatchedBody::settled(body, permit, verdict)),
        None => answer.map(|body| WatchedBody::watch(body, permit, Trailers::new(classify))),
    }
}

/// The status that a generated client would make of the error. One that is a status already was some layer's answer,
/// all others are the transport's failures.
#[cold]
fn fail<B: BreakerRef>(
    error: Box<dyn Error + Send + Sync>,
    permit: Permit<B>,
    classify: &impl Fn(Code) -> Verdict,
) -> Status {
    permit.tell(error.downcast_ref().map_or(Verdict::Failure, |status| verdict_on(status, classify)));
    Status::from_error(error)
}

impl<F, B: BreakerRef, V> fmt::Debug for CircuitBreakFuture<F, B, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_permitted = matches!(self.state, State::Permitted { .. });
        f.debug_struct("CircuitBreakFuture").field("is_permitted", &is_permitted).finish_non_exhaustive()
    }
}
