//! The body of a response that may be a refusal.

use bytes::Bytes;
use core::pin::Pin;
use core::task::{Context, Poll};
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of the service's response, or the text of a refusal.
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
        Refusal { text: Option<Bytes> },
    }
}

impl<B> Body<B> {
    pub(crate) fn service(body: B) -> Self {
        Self { source: BodySource::Service { body } }
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

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.project().source.project() {
            BodySourceProjection::Service { body } => body.poll_frame(cx),
            BodySourceProjection::Refusal { text } => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            BodySource::Service { body } => body.is_end_stream(),
            BodySource::Refusal { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Service { body } => body.size_hint(),
            BodySource::Refusal { text } => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
        }
    }
}
