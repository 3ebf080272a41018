//! The body of an answer, whose end is waited for.

use crate::breaker::{BreakerRef, Permit, Verdict};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of an answer, which tells a breaker how it ended: a failure, if by an error.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it ended, it tells no verdict: a probe gives its place back.
    pub struct WatchedBody<R, B: BreakerRef> {
        #[pin]
        body: R,
        // What the head came to. There until the verdict is told.
        permit: Option<(Permit<B>, Verdict)>,
    }
}

impl<R: Body, B: BreakerRef> WatchedBody<R, B> {
    pub(super) fn new(body: R, permit: Permit<B>, verdict: Verdict) -> Self {
        // Of a failure no body makes a success, and one that is over is not asked for.
        let is_settled = verdict != Verdict::Success || body.is_end_stream();
        let permit = if is_settled {
            permit.tell(verdict);
            None
        } else {
            Some((permit, verdict))
        };
        Self { body, permit }
    }
}

impl<R: Body, B: BreakerRef> Body for WatchedBody<R, B> {
    type Data = R::Data;
    type Error = R::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<R::Data>, R::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(context));
        let is_over = match &frame {
            Some(Ok(_)) => this.body.is_end_stream(),
            Some(Err(_)) | None => true,
        };
        if is_over && let Some((permit, verdict)) = this.permit.take() {
            permit.tell(if matches!(frame, Some(Err(_))) { Verdict::Failure } else { verdict });
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<R: fmt::Debug, B: BreakerRef> fmt::Debug for WatchedBody<R, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedBody").field("body", &self.body).field("is_settled", &self.permit.is_none()).finish()
    }
}
