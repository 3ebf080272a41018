//! A response body that reports to a breaker how it ended.

use bytes::Buf;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use damper_core::breaker::{BreakerRef, Permit, Verdict};
use damper_core::internal::FailOnUnwind;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// Returns the verdict on the end of a body.
pub trait ClassifyEnd {
    /// Returns the verdict.
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

/// The verdict on the head of the response, unless the body ends by an error.
impl ClassifyEnd for Verdict {
    fn verdict(self, end: BodyEnd<'_>) -> Verdict {
        if matches!(end, BodyEnd::Error) { Verdict::Failure } else { self }
    }
}

pin_project! {
    /// A response body that reports to a breaker how it ended.
    ///
    /// The body of a probe counts as a success when its first data arrives, so that a stream that lasts for hours does
    /// not keep the breaker half-open. If that closes the breaker, the end of the body counts as that of any other call
    /// of the closed state; if more probes are needed, the end counts for nothing.
    ///
    /// # Cancel safety
    ///
    /// Dropped before its end, it records no verdict, and a probe gives its place back. A panic of the body is a
    /// failure.
    pub struct WatchedBody<R, B: BreakerRef, V = Verdict> {
        #[pin]
        body: R,
        // Both are there until the verdict is recorded.
        permit: Option<Permit<B>>,
        classify: Option<V>,
        // Whether data of the body has arrived.
        has_data: bool,
    }
}

impl<R: Body, B: BreakerRef, V: ClassifyEnd> WatchedBody<R, B, V> {
    /// Watches a body until its end, which may be reached already.
    pub(crate) fn watch(body: R, permit: Permit<B>, classify: V) -> Self {
        let mut permit = Some(permit);
        let guard = FailOnUnwind::new(&mut permit);
        let is_over = body.is_end_stream();
        guard.over();
        let mut this = Self { body, permit, classify: Some(classify), has_data: false };
        if is_over {
            record_end(&mut this.permit, &mut this.classify, BodyEnd::Plain);
        }
        this
    }

    /// Records the verdict on the head at once, and does not watch the body.
    pub(crate) fn settled(body: R, permit: Permit<B>, verdict: Verdict) -> Self {
        permit.record(verdict);
        Self { body, permit: None, classify: None, has_data: true }
    }
}

/// Records the verdict on the end of a body, once.
fn record_end<B: BreakerRef, V: ClassifyEnd>(
    permit: &mut Option<Permit<B>>,
    classify: &mut Option<V>,
    end: BodyEnd<'_>,
) {
    if let Some(classify) = classify.take() {
        let guard = FailOnUnwind::new(permit);
        let verdict = classify.verdict(end);
        guard.over();
        if let Some(permit) = permit.take() {
            permit.record(verdict);
        }
    }
}

impl<R: Body, B: BreakerRef, V: ClassifyEnd> Body for WatchedBody<R, B, V> {
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
                (Some(trailers), _) => record_end(this.permit, this.classify, BodyEnd::Trailers(trailers)),
                _ if is_over => record_end(this.permit, this.classify, BodyEnd::Plain),
                (_, Some(data)) if !*this.has_data && data.has_remaining() => {
                    *this.has_data = true;
                    if let Some(permit) = this.permit {
                        permit.probe_answered();
                    }
                }
                _ => {}
            },
            Some(Err(_)) => record_end(this.permit, this.classify, BodyEnd::Error),
            None => record_end(this.permit, this.classify, BodyEnd::Plain),
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
