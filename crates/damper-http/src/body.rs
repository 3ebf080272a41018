//! The body of an answer that may be a refusal.

use bytes::Bytes;
use core::pin::Pin;
use core::task::{Context, Poll};
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of the service's answer, or the text of a refusal.
    #[derive(Debug)]
    pub struct Body<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = KindProjection]
    enum Kind<B> {
        Answer { #[pin] body: B },
        Refusal { text: Option<Bytes> },
    }
}

impl<B> Body<B> {
    pub(super) fn answer(body: B) -> Self {
        Self { kind: Kind::Answer { body } }
    }

    pub(super) fn refusal(text: impl Into<Bytes>) -> Self {
        let text: Bytes = text.into();
        // Without a text the answer is its head only, which is what gRPC asks of a status that stands there.
        Self { kind: Kind::Refusal { text: (!text.is_empty()).then_some(text) } }
    }
}

impl<B: http_body::Body<Data = Bytes>> http_body::Body for Body<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.project().kind.project() {
            KindProjection::Answer { body } => body.poll_frame(cx),
            KindProjection::Refusal { text } => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Answer { body } => body.is_end_stream(),
            Kind::Refusal { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Answer { body } => body.size_hint(),
            Kind::Refusal { text } => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
        }
    }
}
