//! The body of an answer, whose end is waited for.

use bytes::Buf;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use damper_core::breaker::{BreakerRef, Permit, Verdict};
use damper_core::internal::FailOnUnwind;
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
    /// The body of a probe counts as a success when its first data arrives, so that a stream that lasts for hours does
    /// not keep the breaker half-open. If that closes the breaker, the end of the body counts as that of any other call
    /// of the closed state; if more probes are needed, the end counts for nothing.
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
        // Whether some of the body was there already.
        is_answered: bool,
    }
}

impl<R: Body, B: BreakerRef, V: Ending> WatchedBody<R, B, V> {
    /// Waits for the end, unless it is there: a body that is over is not asked for.
    pub(crate) fn watch(body: R, permit: Permit<B>, ending: V) -> Self {
        let mut permit = Some(permit);
        let guard = FailOnUnwind::new(&mut permit);
        let is_over = body.is_end_stream();
        guard.over();
        let mut this = Self { body, permit, ending: Some(ending), is_answered: false };
        if is_over {
            end(&mut this.permit, &mut this.ending, BodyEnd::Plain);
        }
        this
    }

    /// Waits for nothing: the head said it all.
    pub(crate) fn settled(body: R, permit: Permit<B>, verdict: Verdict) -> Self {
        permit.record(verdict);
        Self { body, permit: None, ending: None, is_answered: true }
    }
}

/// Tells the verdict, once.
fn end<B: BreakerRef, V: Ending>(permit: &mut Option<Permit<B>>, ending: &mut Option<V>, how: BodyEnd<'_>) {
    if let Some(ending) = ending.take() {
        let guard = FailOnUnwind::new(permit);
        let verdict = ending.verdict(how);
        guard.over();
        if let Some(permit) = permit.take() {
            permit.record(verdict);
        }
    }
}

impl<R: Body, B: BreakerRef, V: Ending> Body for WatchedBody<R, B, V> {
    type Data = R::Data;
    type Error = R::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<R::Data>, R::Error>>> {
        let mut this = self.project();
        let guard = FailOnUnwind::new(this.permit);
        let polled = this.body.as_mut().poll_frame(context);
        let is_data = matches!(&polled, Poll::Ready(Some(Ok(frame))) if !frame.is_trailers());
        let is_over = is_data && this.body.is_end_stream();
        guard.over();
        let frame = ready!(polled);
        match &frame {
            Some(Ok(frame)) => match (frame.trailers_ref(), frame.data_ref()) {
                (Some(trailers), _) => end(this.permit, this.ending, BodyEnd::Trailers(trailers)),
                _ if is_over => end(this.permit, this.ending, BodyEnd::Plain),
                (_, Some(data)) if !*this.is_answered && data.has_remaining() => {
                    *this.is_answered = true;
                    if let Some(permit) = this.permit {
                        permit.probe_answered();
                    }
                }
                _ => {}
            },
            Some(Err(_)) => end(this.permit, this.ending, BodyEnd::Error),
            None => end(this.permit, this.ending, BodyEnd::Plain),
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
        let is_settled = self.permit.is_none();
        f.debug_struct("WatchedBody").field("body", &self.body).field("is_settled", &is_settled).finish_non_exhaustive()
    }
}
