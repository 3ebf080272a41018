//! A body that ends at a deadline.

use super::expiry::BoxedSleep;
use super::{Bounds, BoxError, DeadlineError, Expiry, Protocol};
use crate::telemetry::{DeadlineStage, Kind, Telemetry};
use alloc::boxed::Box;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use damper_core::deadline::{Deadline, DeadlineExceeded};
use damper_core::time::Sleep;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// A response body that is cut off when the deadline passes.
    ///
    /// The service's body is dropped then. The last item is an error with a [`DeadlineExceeded`](damper_core::DeadlineExceeded) among its
    /// sources, or trailers with `DEADLINE_EXCEEDED` from a gRPC server.
    pub struct DeadlineBody<B, S: Sleep> {
        // `Some` until the body is cut off.
        #[pin]
        body: Option<B>,
        #[pin]
        expiry: Expiry<BoxedSleep<S>>,
        end: End,
        telemetry: Telemetry,
    }
}

/// The end of a body that is cut off.
#[derive(Debug)]
pub(super) enum End {
    /// At a server: trailers if the protocol has a status in them, else an error.
    Served(Protocol),
    /// At a client: an error.
    Called(DeadlineError),
}

impl End {
    #[cold]
    fn frame<D>(&self, exceeded: DeadlineExceeded) -> Result<Frame<D>, BoxError> {
        match self {
            Self::Served(protocol) => match protocol.trailers(exceeded) {
                Some(trailers) => Ok(Frame::trailers(trailers)),
                None => Err(Box::new(exceeded)),
            },
            Self::Called(error) => Err(error(exceeded)),
        }
    }
}

impl<B, S: Sleep> DeadlineBody<B, S> {
    /// Wraps a body in the deadline of its call.
    pub(super) fn new<P>(body: B, bounds: Bounds<S, P>, end: impl FnOnce(P) -> End) -> Self {
        let Bounds { deadline, sleep, report, telemetry } = bounds;
        Self { body: Some(body), expiry: Expiry::new(deadline, BoxedSleep(sleep)), end: end(report), telemetry }
    }
}

/// An empty body.
///
/// Middleware outside, such as tower-http's, answers in place of the service with it.
impl<B, S: Sleep + Default> Default for DeadlineBody<B, S> {
    fn default() -> Self {
        Self {
            body: None,
            expiry: Expiry::new(Deadline::NEVER, BoxedSleep(S::default())),
            end: End::Served(Protocol::Http),
            telemetry: Telemetry::new(Kind::ClientDeadline, "default"),
        }
    }
}

impl<B: Body<Error: Into<BoxError>>, S: Sleep> Body for DeadlineBody<B, S> {
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let mut this = self.project();
        let Some(body) = this.body.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        let polled = body.poll_frame(context);
        let exceeded = match &polled {
            // The whole body arrived in time.
            Poll::Ready(None) => None,
            Poll::Ready(Some(_)) => this.expiry.check().err(),
            Poll::Pending => match this.expiry.poll_exceeded(context) {
                Poll::Ready(exceeded) => Some(exceeded),
                Poll::Pending => None,
            },
        };
        if let Some(exceeded) = exceeded {
            this.telemetry.record_exceeded(DeadlineStage::Body, &exceeded);
            this.body.set(None);
            return Poll::Ready(Some(this.end.frame(exceeded)));
        }
        polled.map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

impl<B: fmt::Debug, S: Sleep> fmt::Debug for DeadlineBody<B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (deadline, _) = self.expiry.parts();
        f.debug_struct("DeadlineBody").field("body", &self.body).field("deadline", &deadline).finish_non_exhaustive()
    }
}
