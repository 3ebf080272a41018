//! The body of an answer, whose end is waited for.

use crate::breaker::{BreakerRef, Permit, Verdict, fail_on_unwind};
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
    /// Dropped before it ended, it tells no verdict: a probe gives its place back. A body that panics has failed.
    pub struct WatchedBody<R, B: BreakerRef, V = Verdict> {
        #[pin]
        body: R,
        // There until the verdict is told, both.
        permit: Option<Permit<B>>,
        ending: Option<V>,
    }
}

impl<R: Body, B: BreakerRef, V: Ending> WatchedBody<R, B, V> {
    /// Waits for the end, unless it is there: a body that is over is not asked for.
    pub(crate) fn watch(body: R, permit: Permit<B>, ending: V) -> Self {
        let mut permit = Some(permit);
        let is_over = fail_on_unwind(&mut permit, || body.is_end_stream());
        let mut this = Self { body, permit, ending: Some(ending) };
        if is_over {
            end(&mut this.permit, &mut this.ending, BodyEnd::Plain);
        }
        this
    }

    /// Waits for nothing: the head said it all.
    pub(crate) fn settled(body: R, permit: Permit<B>, verdict: Verdict) -> Self {
        permit.tell(verdict);
        Self { body, permit: None, ending: None }
    }
}

/// Tells the verdict, once.
fn end<B: BreakerRef, V: Ending>(permit: &mut Option<Permit<B>>, ending: &mut Option<V>, how: BodyEnd<'_>) {
    if let Some(ending) = ending.take() {
        let verdict = fail_on_unwind(permit, || ending.verdict(how));
        if let Some(permit) = permit.take() {
            permit.tell(verdict);
        }
    }
}

impl<R: Body, B: BreakerRef, V: Ending> Body for WatchedBody<R, B, V> {
    type Data = R::Data;
    type Error = R::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<R::Data>, R::Error>>> {
        let mut this = self.project();
        let (frame, is_over) = ready!(fail_on_unwind(this.permit, || {
            this.body.as_mut().poll_frame(context).map(|frame| (frame, this.body.is_end_stream()))
        }));
        let how = match &frame {
            Some(Ok(frame)) => match frame.trailers_ref() {
                Some(trailers) => Some(BodyEnd::Trailers(trailers)),
                None => is_over.then_some(BodyEnd::Plain),
            },
            Some(Err(_)) => Some(BodyEnd::Error),
            None => Some(BodyEnd::Plain),
        };
        if let Some(how) = how {
            end(this.permit, this.ending, how);
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
