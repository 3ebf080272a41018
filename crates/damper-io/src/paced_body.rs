//! Bodies of HTTP whose data waits for a limit.

use crate::BytePacer;
use crate::direction::Direction;
use bytes::{Buf, Bytes};
use core::convert::Infallible;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use damper_core::TokenBucket;
use damper_core::limit::LimiterRef;
use damper_core::time::Sleep;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// A body whose data comes no faster than a limit.
    ///
    /// A frame of data that is larger than a chunk comes as several frames. `Bytes` are split without a copy; other data is copied.
    /// While data waits, the inner body is not polled. Trailers, empty frames and errors pass without a wait once the data before them
    /// has passed, and the size that the body announces stays exact.
    ///
    /// Use it for the body of a response or of a request, for instance with `tower_http::map_response_body`. Data that a server has
    /// compressed or encrypted after this body has another size on the wire. To limit that, pace the connection by a
    /// [`PacedIo`](crate::PacedIo).
    ///
    /// # Panics
    ///
    /// With [`TokioSleep`](damper_core::time::TokioSleep) a body that has to wait panics outside of a tokio runtime with an enabled timer.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
    /// use damper_core::{Quota, RateLimiter};
    /// use damper_io::{BytePacer, PacedBody};
    /// use http_body_util::{BodyExt, Full};
    /// use std::sync::Arc;
    ///
    /// let limit = BytePacer::new(Arc::new(RateLimiter::new(Quota::per_second(1_000_000))));
    /// let body = PacedBody::new(Full::new(bytes::Bytes::from(vec![0; 100_000])), limit);
    /// assert_eq!(body.collect().await?.to_bytes().len(), 100_000);
    /// # Ok::<(), std::convert::Infallible>(()) }).unwrap();
    /// # }
    /// ```
    #[cfg(feature = "http-body")]
    pub struct PacedBody<B: Body, P, S: Sleep> {
        #[pin]
        body: B,
        // The data that has not passed yet; never empty.
        waiting: Option<B::Data>,
        sleep: S,
        direction: Direction<P, S>,
    }
}

#[cfg(feature = "tokio")]
impl<B: Body, L: LimiterRef<Algorithm = TokenBucket>, const N: usize> PacedBody<B, BytePacer<L, N>, TokioSleep> {
    /// Paces a body by tokio's timer.
    #[must_use]
    pub const fn new(body: B, pacer: BytePacer<L, N>) -> Self {
        Self::sleeping_by(body, pacer, TokioSleep)
    }
}

impl<B: Body, L: LimiterRef<Algorithm = TokenBucket>, S: Sleep, const N: usize> PacedBody<B, BytePacer<L, N>, S> {
    /// Paces a body that waits by `sleep`.
    #[must_use]
    pub const fn sleeping_by(body: B, pacer: BytePacer<L, N>, sleep: S) -> Self {
        Self { body, waiting: None, sleep, direction: Direction::new(Some(pacer)) }
    }

    /// Returns the inner body.
    pub const fn get_ref(&self) -> &B {
        &self.body
    }
}

impl<B: Body, L: LimiterRef<Algorithm = TokenBucket> + Clone, S: Sleep, const N: usize> Body
    for PacedBody<B, BytePacer<L, N>, S>
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        loop {
            if let Some(data) = this.waiting {
                let mut part = Bytes::new();
                let wanted = data.remaining();
                let polled = this.direction.poll_io(this.sleep, context, wanted, |_, bytes| {
                    part = data.copy_to_bytes(bytes);
                    Poll::Ready(Ok::<_, Infallible>(bytes))
                });
                if !data.has_remaining() {
                    *this.waiting = None;
                }
                return polled.map(|_| Some(Ok(Frame::data(part))));
            }
            let polled = this.body.as_mut().poll_frame(context);
            let frame = match polled {
                Poll::Ready(Some(Ok(frame))) => frame,
                ended => {
                    this.direction.pause();
                    return ended.map(|ended| Some(Err(ended?.err()?)));
                }
            };
            match frame.into_data() {
                Ok(data) if data.has_remaining() => *this.waiting = Some(data),
                Ok(_) => return Poll::Ready(Some(Ok(Frame::data(Bytes::new())))),
                Err(frame) => {
                    return Poll::Ready(Some(Ok(frame.map_data(|mut data| data.copy_to_bytes(data.remaining())))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.waiting.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, mut hint) = (self.body.size_hint(), SizeHint::new());
        let waiting = self.waiting.as_ref().map_or(0, |data| data.remaining() as u64);
        hint.set_lower(inner.lower().saturating_add(waiting));
        if let Some(upper) = inner.upper().and_then(|upper| upper.checked_add(waiting)) {
            hint.set_upper(upper);
        }
        hint
    }
}

impl<B: Body, P: fmt::Debug, S: Sleep> fmt::Debug for PacedBody<B, P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedBody").field("pacer", &self.direction).finish_non_exhaustive()
    }
}
