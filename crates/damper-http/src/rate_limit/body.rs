//! The body of a response that may be a refusal, and may be counted.

use super::costs::BodyCounter;
use alloc::boxed::Box;
use bytes::Bytes;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of the service's response, or the text of a refusal.
    ///
    /// # Cancel safety
    ///
    /// A body that corrects the cost of its request, and is dropped before its end, corrects it by what was counted until then.
    pub struct Body<B> {
        #[pin]
        source: BodySource<B>,
    }
}

pin_project! {
    #[project = BodySourceProjection]
    enum BodySource<B> {
        Service { #[pin] body: B },
        // All that few responses have is in one box: each response is moved on its way to the caller, and a third variant has to be told
        // apart at each poll. `None` is an empty body.
        Apart { apart: Option<Pin<Box<BodyApart<B>>>> },
    }
}

pin_project! {
    /// A body that is not the service's alone.
    #[project = BodyApartProjection]
    enum BodyApart<B> {
        // A body of the service by which the cost of its request is corrected.
        Counted { #[pin] body: B, counter: BodyCounter },
        // `None` once it was read.
        Refusal { text: Option<Bytes> },
    }
}

impl<B> Body<B> {
    pub(crate) fn service(body: B) -> Self {
        Self { source: BodySource::Service { body } }
    }

    /// Creates the body of a service by which the cost of its request is corrected.
    pub(super) fn counted(body: B, counter: BodyCounter) -> Self {
        Self { source: BodySource::Apart { apart: Some(Box::pin(BodyApart::Counted { body, counter })) } }
    }

    pub(crate) fn refusal(text: impl Into<Bytes>) -> Self {
        let text: Bytes = text.into();
        // Without a text the response has headers only, where gRPC expects the status then.
        let text = (!text.is_empty()).then_some(text);
        let apart = text.map(|text| Box::pin(BodyApart::Refusal { text: Some(text) }));
        Self { source: BodySource::Apart { apart } }
    }
}

/// An empty body.
///
/// Middleware outside, such as tower-http's, answers in place of the service with it.
impl<B> Default for Body<B> {
    fn default() -> Self {
        Self::refusal(Bytes::new())
    }
}

impl<B> fmt::Debug for Body<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}

impl<B: http_body::Body<Data = Bytes>> http_body::Body for Body<B> {
    type Data = Bytes;
    type Error = B::Error;

    #[inline]
    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.project().source.project() {
            BodySourceProjection::Service { body } => body.poll_frame(cx),
            BodySourceProjection::Apart { apart } => BodyApart::poll_frame(apart, cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            BodySource::Service { body } => body.is_end_stream(),
            BodySource::Apart { apart } => apart.as_ref().is_none_or(|apart| match &**apart {
                BodyApart::Counted { body, .. } => body.is_end_stream(),
                BodyApart::Refusal { text } => text.is_none(),
            }),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Service { body } => body.size_hint(),
            BodySource::Apart { apart } => match apart.as_deref() {
                Some(BodyApart::Counted { body, .. }) => body.size_hint(),
                Some(BodyApart::Refusal { text: Some(text) }) => SizeHint::with_exact(text.len() as u64),
                Some(BodyApart::Refusal { text: None }) | None => SizeHint::with_exact(0),
            },
        }
    }
}

impl<B: http_body::Body<Data = Bytes>> BodyApart<B> {
    /// Polls the text of a refusal, or a body that is counted, whose request is settled at the end.
    ///
    /// Apart, so that [`Body::poll_frame`](http_body::Body::poll_frame) of all other bodies is inlined.
    #[cold]
    #[inline(never)]
    fn poll_frame(
        apart: &mut Option<Pin<Box<Self>>>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(apart) = apart else { return Poll::Ready(None) };
        let (mut body, counter) = match apart.as_mut().project() {
            BodyApartProjection::Counted { body, counter } => (body, counter),
            BodyApartProjection::Refusal { text } => {
                return Poll::Ready(text.take().map(|text| Ok(Frame::data(text))));
            }
        };
        let frame = ready!(body.as_mut().poll_frame(cx));
        match frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
            Some(data) => {
                counter.count(data);
                // Servers drop such a body without another poll, and not always at once.
                if body.is_end_stream() {
                    counter.settle();
                }
            }
            // The end, an error, or trailers, which are the last.
            None => counter.settle(),
        }
        Poll::Ready(frame)
    }
}
