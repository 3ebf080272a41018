//! A response body that reports its end.

use super::{BodyErrors, HeldCall, HeldPermit};
use bytes::Buf;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use damper_core::Reads;
use damper_core::gate::{Ending, Permit, Verdict};
use damper_tower::internal::Unwinding;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// The end of a body, from which the verdict on a call is [read](Reads).
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
    /// A response body that reports its first data and its end to the permit of its call.
    ///
    /// # Cancel safety
    ///
    /// A body that its reader gives up after the deadline, while it waits for the server, has timed out. Dropped otherwise before its end, it
    /// drops the permit, which gets no verdict. A panic of the body is reported to the permit and reaches the caller.
    pub struct ObservedBody<R, P: Permit, V = BodyErrors> {
        #[pin]
        body: R,
        // It is dropped after the body, so that its slot is not free while the body still holds its connection.
        pending: OpenCall<P, V>,
        // Whether data of the body has arrived.
        has_data: bool,
    }
}

/// The call of a body that has not ended.
struct OpenCall<P: Permit, V> {
    /// `Some` until the verdict is recorded.
    held: Option<HeldCall<P, V>>,
    /// Whether the caller waits for the server, rather than the server for the caller.
    is_pending: bool,
    /// Whether a call may time out in its body.
    may_time_out: bool,
}

impl<P: Permit, V> OpenCall<P, V> {
    const fn new(held: Option<HeldCall<P, V>>) -> Self {
        Self { held, is_pending: false, may_time_out: true }
    }
}

impl<P: Permit, V> Drop for OpenCall<P, V> {
    fn drop(&mut self) {
        if self.may_time_out
            && self.is_pending
            && let Some(HeldCall(permit, _)) = self.held.take()
        {
            permit.abandoned();
        }
    }
}

impl<R: Body, P: Permit, V: for<'a> Reads<BodyEnd<'a>, Verdict>> ObservedBody<R, P, V> {
    /// Observes a body until its end. Without a permit, the body is passed on unchanged.
    ///
    /// The end may be reached already.
    pub fn new(body: R, pending: Option<(HeldPermit<P>, V)>) -> Self {
        let mut pending = pending.map(|(permit, classify)| HeldCall::new(permit, classify));
        if pending.is_some() {
            let watch = Unwinding::watch(&mut pending);
            let is_over = body.is_end_stream();
            watch.over();
            if is_over {
                record_end(&mut pending, BodyEnd::Plain);
            }
        }
        Self { body, pending: OpenCall::new(pending), has_data: false }
    }

    /// Gives no verdict on a body that its reader gives up after the deadline.
    pub(super) fn without_timeout(mut self) -> Self {
        self.pending.may_time_out = false;
        self
    }
}

/// Records the verdict on the end of a body, once.
fn record_end<P: Permit, V: for<'a> Reads<BodyEnd<'a>, Verdict>>(
    pending: &mut Option<HeldCall<P, V>>,
    end: BodyEnd<'_>,
) {
    let mut watch = Unwinding::watch(pending);
    let verdict = match watch.permit() {
        Some(HeldCall(_, classify)) if P::LEARNS => classify.read_from(&end),
        _ => Verdict::of(Ending::Success),
    };
    watch.over();
    if let Some(HeldCall(permit, _)) = pending.take() {
        permit.end(&verdict);
    }
}

/// The default body of the service, which nothing observes.
///
/// Middleware outside, such as tower-http's, answers in place of the service with it.
impl<R: Default, P: Permit, V> Default for ObservedBody<R, P, V> {
    fn default() -> Self {
        Self { body: R::default(), pending: OpenCall::new(None), has_data: false }
    }
}

impl<R: Body, P: Permit, V: for<'a> Reads<BodyEnd<'a>, Verdict>> Body for ObservedBody<R, P, V> {
    type Data = R::Data;
    type Error = R::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<R::Data>, R::Error>>> {
        let mut this = self.project();
        let OpenCall { held, is_pending, .. } = this.pending;
        let watch = Unwinding::watch(held);
        let polled = this.body.as_mut().poll_frame(context);
        let is_data = matches!(&polled, Poll::Ready(Some(Ok(frame))) if !frame.is_trailers());
        let is_over = is_data && this.body.is_end_stream();
        watch.over();
        *is_pending = polled.is_pending();
        let frame = ready!(polled);
        match &frame {
            Some(Ok(frame)) => match (frame.trailers_ref(), frame.data_ref()) {
                (Some(trailers), _) => record_end(held, BodyEnd::Trailers(trailers)),
                _ if is_over => record_end(held, BodyEnd::Plain),
                (_, Some(data)) if !*this.has_data && data.has_remaining() => {
                    *this.has_data = true;
                    if let Some(HeldCall(permit, _)) = held {
                        permit.first_data();
                    }
                }
                _ => {}
            },
            Some(Err(_)) => record_end(held, BodyEnd::Error),
            None => record_end(held, BodyEnd::Plain),
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

impl<R: fmt::Debug, P: Permit, V> fmt::Debug for ObservedBody<R, P, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_ended = self.pending.held.is_none();
        f.debug_struct("ObservedBody").field("body", &self.body).field("has_ended", &has_ended).finish_non_exhaustive()
    }
}
