//! A response body that reports its end.

use super::{BodyErrors, CallObserver, PanicGuard};
use bytes::Buf;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use damper_core::breaker::Verdict;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// Returns the verdict on the end of a body.
pub trait ClassifyEnd {
    /// Returns the verdict.
    fn verdict(&self, end: BodyEnd<'_>) -> Verdict;
}

/// The end of a body.
#[derive(Clone, Copy, Debug)]
pub enum BodyEnd<'a> {
    /// With trailers.
    Trailers(&'a HeaderMap),
    /// Without trailers.
    Plain,
    /// With an error.
    Error,
}

pin_project! {
    /// A response body that reports its first data and its end to an observer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the body while it is pending [abandons](CallObserver::abandoned) the call. Dropping it otherwise before its end drops the
    /// observer, which gets no verdict. A panic of the body is reported to the observer and reaches the caller.
    pub struct ObservedBody<R, O: CallObserver, V = BodyErrors> {
        #[pin]
        body: R,
        // `Some` until the verdict is recorded.
        pending: Option<(O, V)>,
        // Whether data of the body has arrived.
        has_data: bool,
        // Whether the caller waits for the server, rather than the server for the caller.
        is_pending: bool,
    }

    impl<R, O: CallObserver, V> PinnedDrop for ObservedBody<R, O, V> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if *this.is_pending && let Some((observer, _)) = this.pending.take() {
                observer.abandoned();
            }
        }
    }
}

impl<R: Body, O: CallObserver, V: ClassifyEnd> ObservedBody<R, O, V> {
    /// Observes a body until its end. Without an observer, the body is passed on unchanged.
    ///
    /// The end may be reached already.
    pub fn new(body: R, observer: Option<O>, classify: V) -> Self {
        let mut pending = observer.map(|observer| (observer, classify));
        if pending.is_some() {
            let guard = PanicGuard::new(&mut pending);
            let is_over = body.is_end_stream();
            guard.over();
            if is_over {
                record_end(&mut pending, BodyEnd::Plain);
            }
        }
        Self { body, pending, has_data: false, is_pending: false }
    }
}

/// Records the verdict on the end of a body, once.
fn record_end<O: CallObserver, V: ClassifyEnd>(pending: &mut Option<(O, V)>, end: BodyEnd<'_>) {
    let guard = PanicGuard::new(pending);
    let verdict = guard.pending().map(|(_, classify)| classify.verdict(end));
    guard.over();
    if let (Some((observer, _)), Some(verdict)) = (pending.take(), verdict) {
        observer.ended(verdict);
    }
}

/// The default body of the service, which nothing observes.
///
/// Middleware outside, such as tower-http's, answers in place of the service with it.
impl<R: Default, O: CallObserver, V> Default for ObservedBody<R, O, V> {
    fn default() -> Self {
        Self { body: R::default(), pending: None, has_data: false, is_pending: false }
    }
}

impl<R: Body, O: CallObserver, V: ClassifyEnd> Body for ObservedBody<R, O, V> {
    type Data = R::Data;
    type Error = R::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<R::Data>, R::Error>>> {
        let mut this = self.project();
        let guard = PanicGuard::new(this.pending);
        let polled = this.body.as_mut().poll_frame(context);
        let is_data = matches!(&polled, Poll::Ready(Some(Ok(frame))) if !frame.is_trailers());
        let is_over = is_data && this.body.is_end_stream();
        guard.over();
        *this.is_pending = polled.is_pending();
        let frame = ready!(polled);
        match &frame {
            Some(Ok(frame)) => match (frame.trailers_ref(), frame.data_ref()) {
                (Some(trailers), _) => record_end(this.pending, BodyEnd::Trailers(trailers)),
                _ if is_over => record_end(this.pending, BodyEnd::Plain),
                (_, Some(data)) if !*this.has_data && data.has_remaining() => {
                    *this.has_data = true;
                    if let Some((observer, _)) = this.pending {
                        observer.first_data();
                    }
                }
                _ => {}
            },
            Some(Err(_)) => record_end(this.pending, BodyEnd::Error),
            None => record_end(this.pending, BodyEnd::Plain),
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

impl<R: fmt::Debug, O: CallObserver, V> fmt::Debug for ObservedBody<R, O, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_ended = self.pending.is_none();
        f.debug_struct("ObservedBody").field("body", &self.body).field("has_ended", &has_ended).finish_non_exhaustive()
    }
}
