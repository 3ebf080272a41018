//! The body of a response that came through a hedge.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use http::Response;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of the service's response.
    ///
    /// It is empty where the response failed and its body was given up for another attempt, which ended with an error: the unread body
    /// would have kept the slot that the attempt needed.
    pub struct HedgedBody<R> {
        #[pin]
        body: Option<R>,
    }
}

impl<R> HedgedBody<R> {
    #[inline]
    pub(super) fn new(body: R) -> Self {
        Self { body: Some(body) }
    }

    /// Drops the body of a response, and with it what the body holds.
    #[cold]
    pub(super) fn give_up(response: &mut Response<Self>) {
        response.body_mut().body = None;
        // They would be those of the body that is gone.
        for name in [CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING] {
            response.headers_mut().remove(name);
        }
    }
}

/// An empty body.
///
/// Middleware outside, such as tower-http's, answers in place of the service with it.
impl<R> Default for HedgedBody<R> {
    fn default() -> Self {
        Self { body: None }
    }
}

impl<R: Body> Body for HedgedBody<R> {
    type Data = R::Data;
    type Error = R::Error;

    #[inline]
    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<R::Data>, R::Error>>> {
        match self.project().body.as_pin_mut() {
            Some(body) => body.poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    #[inline]
    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    #[inline]
    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl<R: fmt::Debug> fmt::Debug for HedgedBody<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HedgedBody").field(&self.body).finish()
    }
}

pin_project! {
    /// An attempt whose response has a body that can be given up.
    pub(super) struct WithHedgedBody<F> {
        #[pin]
        future: F,
    }
}

impl<F> WithHedgedBody<F> {
    #[inline]
    pub(super) const fn new(future: F) -> Self {
        Self { future }
    }
}

impl<F: Future<Output = Result<Response<R>, E>>, R, E> Future for WithHedgedBody<F> {
    type Output = Result<Response<HedgedBody<R>>, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().future.poll(context).map_ok(|response| response.map(HedgedBody::new))
    }
}
