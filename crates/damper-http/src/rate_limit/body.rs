//! The body of a response that may be a refusal, and may be counted.

use super::costs::BodyCounter;
use alloc::boxed::Box;
use bytes::Bytes;
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
    #[derive(Debug)]
    pub struct Body<B> {
        #[pin]
        source: BodySource<B>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = BodySourceProjection]
    enum BodySource<B> {
        Service { #[pin] body: B },
        // Boxed as a whole: beside the body of the service, a counter would make every response larger, and each is moved
        // on its way to the caller.
        Counted { counted: Pin<Box<CountedBody<B>>> },
        Refusal { text: Option<Bytes> },
    }
}

pin_project! {
    /// A body of the service by which the cost of its request is corrected.
    #[derive(Debug)]
    struct CountedBody<B> {
        #[pin]
        body: B,
        counter: BodyCounter,
    }
}

impl<B> Body<B> {
    pub(crate) fn service(body: B) -> Self {
        Self { source: BodySource::Service { body } }
    }

    /// Creates the body of a service by which the cost of its request is corrected.
    pub(super) fn counted(body: B, counter: BodyCounter) -> Self {
        Self { source: BodySource::Counted { counted: Box::pin(CountedBody { body, counter }) } }
    }

    pub(crate) fn refusal(text: impl Into<Bytes>) -> Self {
        let text: Bytes = text.into();
        // Without a text the response has headers only, where gRPC expects the status then.
        Self { source: BodySource::Refusal { text: (!text.is_empty()).then_some(text) } }
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

impl<B: http_body::Body<Data = Bytes>> http_body::Body for Body<B> {
    type Data = Bytes;
    type Error = B::Error;

    #[inline]
    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.project().source.project() {
            BodySourceProjection::Service { body } => body.poll_frame(cx),
            BodySourceProjection::Counted { counted } => counted.as_mut().poll_frame(cx),
            BodySourceProjection::Refusal { text } => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            BodySource::Service { body } => body.is_end_stream(),
            BodySource::Counted { counted } => counted.body.is_end_stream(),
            BodySource::Refusal { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Service { body } => body.size_hint(),
            BodySource::Counted { counted } => counted.body.size_hint(),
            BodySource::Refusal { text } => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
        }
    }
}

impl<B: http_body::Body<Data = Bytes>> CountedBody<B> {
    /// Polls the body, counts the frame, and settles the request at the end.
    ///
    /// Apart, so that [`Body::poll_frame`](http_body::Body::poll_frame) of a body that is not counted is inlined.
    #[cold]
    #[inline(never)]
    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let (mut body, counter) = (this.body, this.counter);
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
