//! The body of an answer, whose end is waited for.

use crate::breaker::{BreakerRef, Permit, Verdict};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// What the end of a body comes to.
pub trait Ending {
    /// The verdict.
    fn verdict(self, end: BodyEnd<'_>) -> Verdict;
}

/// How a body ended.
#[derive(Clone, Copy, Debug)]
pub enum BodyEnd<'a> {
    /// With trailers.
    Trailers(&'a HeaderMap),
    /// Without.
    Plain,
    /// By an error.
    Error,
}

/// What the head of the answer came to, unless the body ends by an error.
impl Ending for Verdict {
    fn verdict(self, end: BodyEnd<'_>) -> Verdict {
        if matches!(end, BodyEnd::Error) { Verdict::Failure } else { self }
    }
}

pin_project! {
    /// The body of an answer, which tells a breaker how it ended.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it ended, it tells no verdict: a probe gives its place back.
    pub struct WatchedBody<R, B: BreakerRef, V = Verdict> {
        #[pin]
        body: R,
        // There until the verdict is told.
        permit: Option<(Permit<B>, V)>,
    }
}

impl<R: Body, B: BreakerRef, V: Ending> WatchedBody<R, B, V> {
    /// Waits for the end, unless it is there: a body that is over is not asked for.
    pub(crate) fn watch(body: R, permit: Permit<B>, ending: V) -> Self {
        let permit = if body.is_end_stream() {
            permit.tell(ending.verdict(BodyEnd::Plain));
            None
        } else {
            Some((permit, ending))
        };
        Self { body, permit }
    }

    /// Waits for nothing: the head said it all.
    pub(crate) fn settled(body: R, permit: Permit<B>, verdict: Verdict) -> Self {
        permit.tell(verdict);
        Self { body, permit: None }
    }
}

impl<R: Body, B: BreakerRef, V: Ending> Body for WatchedBody<R, B, V> {
    type Data = R::Data;
    type Error = R::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<R::Data>, R::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(context));
        let end = match &frame {
            Some(Ok(frame)) => match frame.trailers_ref() {
                Some(trailers) => Some(BodyEnd::Trailers(trailers)),
                None => this.body.is_end_stream().then_some(BodyEnd::Plain),
            },
            Some(Err(_)) => Some(BodyEnd::Error),
            None => Some(BodyEnd::Plain),
        };
        if let Some(end) = end
            && let Some((permit, ending)) = this.permit.take()
        {
            permit.tell(ending.verdict(end));
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

impl<R: fmt::Debug, B: BreakerRef, V> fmt::Debug for WatchedBody<R, B, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedBody").field("body", &self.body).field("is_settled", &self.permit.is_none()).finish()
    }
}
