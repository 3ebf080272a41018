//! The bodies of the page's responses, and of those of the services beside it.

use super::stream::EventStream;
use alloc::boxed::Box;
use bytes::Bytes;
use core::error::Error;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_http::ReaderStalled;
use damper_http::internal::TimedBody;
use damper_http::internal::{BodyLimits, timed_body};
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

/// The body of a response of the page: a text, or a stream of events.
#[derive(Debug)]
pub struct LiveBody(Content);

#[derive(Debug)]
enum Content {
    Text(Option<Bytes>),
    /// Dropped by a timer if its browser takes nothing, because a server does not poll it then.
    Events(Pin<Box<TimedBody<EventStream>>>),
}

impl LiveBody {
    pub(super) fn text(text: impl Into<Bytes>) -> Self {
        let text: Bytes = text.into();
        Self(Content::Text((!text.is_empty()).then_some(text)))
    }

    pub(super) fn events(stream: EventStream, patience: Duration) -> Self {
        let limits = BodyLimits { deadline: Deadline::NEVER, stall: Some(patience) };
        Self(Content::Events(Box::pin(timed_body(stream, Some(limits)))))
    }
}

/// An empty body.
///
/// Middleware outside, such as tower-http's, answers in place of the service with it.
impl Default for LiveBody {
    fn default() -> Self {
        Self(Content::Text(None))
    }
}

/// Returns the error of a stream of events, which its timer may have dropped.
fn stalled(error: &(dyn Error + Send + Sync + 'static)) -> ReaderStalled {
    error.downcast_ref().copied().unwrap_or(ReaderStalled::new(Duration::ZERO))
}

impl http_body::Body for LiveBody {
    type Data = Bytes;
    type Error = ReaderStalled;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ReaderStalled>>> {
        match &mut self.0 {
            Content::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Content::Events(stream) => {
                stream.as_mut().poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(|error| stalled(&*error))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Content::Text(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            Content::Events(_) => SizeHint::default(),
        }
    }
}

pin_project! {
    /// The body of a response of the page, or of the service beside it.
    #[derive(Debug)]
    pub struct BesideBody<B> {
        #[pin]
        origin: Origin<B>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = OriginProjection]
    enum Origin<B> {
        Page { #[pin] body: LiveBody },
        Service { #[pin] body: B },
    }
}

impl<B> BesideBody<B> {
    pub(super) fn page(body: LiveBody) -> Self {
        Self { origin: Origin::Page { body } }
    }

    pub(super) fn service(body: B) -> Self {
        Self { origin: Origin::Service { body } }
    }
}

/// An empty body.
///
/// Middleware outside, such as tower-http's, answers in place of the service with it.
impl<B> Default for BesideBody<B> {
    fn default() -> Self {
        Self::page(LiveBody::default())
    }
}

impl<B> http_body::Body for BesideBody<B>
where
    B: http_body::Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    #[inline]
    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.project().origin.project() {
            OriginProjection::Page { body } => body.poll_frame(cx).map_err(Into::into),
            OriginProjection::Service { body } => body.poll_frame(cx).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.origin {
            Origin::Page { body } => body.is_end_stream(),
            Origin::Service { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.origin {
            Origin::Page { body } => body.size_hint(),
            Origin::Service { body } => body.size_hint(),
        }
    }
}
