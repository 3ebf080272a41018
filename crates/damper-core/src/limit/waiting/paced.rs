//! Streams and sinks whose items wait for tokens.

use super::{TokensFuture, TokensRequest};
use crate::limit::{RateLimiter, TokenBucket};
#[cfg(feature = "tokio")]
use crate::time::TokioSleep;
use crate::time::{Clock, Sleep};
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use futures_core::{FusedStream, Stream};
use futures_sink::Sink;
use pin_project_lite::pin_project;

/// The longest time from a refusal by the limiter to the next attempt.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Pacing streams and sinks: each item waits for a token of the limiter.
impl<C: Clock> RateLimiter<TokenBucket, C> {
    /// Returns a stream that yields the items of `stream` no faster than the limit.
    ///
    /// Each item takes one token. The stream sleeps by tokio's timer.
    #[cfg(feature = "tokio")]
    pub fn pace<St: Stream>(&self, stream: St) -> Paced<'_, St, St::Item, C, TokioSleep> {
        self.pace_by(stream, TokioSleep)
    }

    /// Returns a stream that yields the items of `stream` no faster than the limit.
    ///
    /// Each item takes one token. The stream sleeps by `sleep`.
    pub fn pace_by<St: Stream, S: Sleep>(&self, stream: St, sleep: S) -> Paced<'_, St, St::Item, C, S> {
        Paced::new(stream, self, sleep)
    }

    /// Returns a sink that passes items to `sink` no faster than the limit.
    ///
    /// Each item takes one token. The sink sleeps by tokio's timer.
    #[cfg(feature = "tokio")]
    pub fn pace_sink<Si: Sink<Item>, Item>(&self, sink: Si) -> Paced<'_, Si, Item, C, TokioSleep> {
        self.pace_sink_by(sink, TokioSleep)
    }

    /// Returns a sink that passes items to `sink` no faster than the limit.
    ///
    /// Each item takes one token. The sink sleeps by `sleep`.
    pub fn pace_sink_by<Si: Sink<Item>, Item, S: Sleep>(&self, sink: Si, sleep: S) -> Paced<'_, Si, Item, C, S> {
        Paced::new(sink, self, sleep)
    }
}

pin_project! {
    /// A limiter that is asked for one token at a time, and asked again after each refusal.
    struct Gate<'a, C: Clock, S: Sleep> {
        #[pin]
        future: TokensFuture<&'a RateLimiter<TokenBucket, C>, S>,
        #[pin]
        refused: Option<S::Sleeping>,
    }
}

impl<'a, C: Clock, S: Sleep> Gate<'a, C, S> {
    fn new(request: TokensRequest<&'a RateLimiter<TokenBucket, C>>, sleep: S) -> Self {
        Self { future: TokensFuture::new(request, sleep), refused: None }
    }

    /// Polls the wait for one token, which is ready when the token may be used.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        loop {
            if let Some(refused) = this.refused.as_mut().as_pin_mut() {
                ready!(refused.poll(context));
                this.refused.set(None);
            }
            match ready!(this.future.as_mut().poll(context)) {
                Ok(()) => return Poll::Ready(()),
                Err(denied) => {
                    let wait = denied.retry_after().map_or(ASK_AGAIN, |wait| wait.min(ASK_AGAIN));
                    this.refused.set(Some(this.future.sleep_for(wait)));
                }
            }
        }
    }
}

pin_project! {
    /// A stream or a sink whose items pass no faster than a limit.
    ///
    /// [`RateLimiter::pace_by`](crate::RateLimiter::pace_by) returns a stream, and
    /// [`RateLimiter::pace_sink_by`](crate::RateLimiter::pace_sink_by) a sink. A `Paced` holds at most one item, which
    /// waits for a token:
    ///
    /// - The wait has no time limit. If too many callers wait already, the `Paced` tries again after a second at most.
    /// - A burst of 0 lets nothing through until the quota is changed.
    /// - If many `Paced`s share a limiter, set a [`max_debt`](crate::Quota::max_debt) of at least their number.
    ///   Otherwise not all of them find a place among the waiters, and some may never be served.
    ///
    /// **As a stream**, a `Paced` polls the inner stream for an item first, and then takes a token. So an item that
    /// does not come costs no token. While an item waits, the inner stream is not polled.
    ///
    /// **As a sink**, a `Paced` waits until the inner sink has room for its item. Then it takes a token, and passes the
    /// item on as soon as the token is available. So an item that cannot be sent costs no token. The `Paced` is ready,
    /// flushed or closed only after its item was passed on. If it is dropped before that, the item is lost.
    ///
    /// A `Paced` is `Unpin` if the inner stream or sink is, and the sleeps are. Tokio's sleeps are not `Unpin`, so with
    /// them the `Paced` must be pinned (`std::pin::pin!`) before `next` is called.
    #[must_use = "streams and sinks do nothing unless they are polled"]
    #[cfg(feature = "futures")]
    pub struct Paced<'a, T, Item, C: Clock, S: Sleep> {
        #[pin]
        inner: T,
        waiting: Option<Item>,
        #[pin]
        gate: Gate<'a, C, S>,
    }
}

impl<'a, T, Item, C: Clock, S: Sleep> Paced<'a, T, Item, C, S> {
    fn new(inner: T, limiter: &'a RateLimiter<TokenBucket, C>, sleep: S) -> Self {
        Self { inner, waiting: None, gate: Gate::new(TokensRequest::new(limiter, 1), sleep) }
    }

    /// Returns the inner stream or sink.
    pub fn get_ref(&self) -> &T {
        &self.inner
    }
}

impl<St: Stream, C: Clock, S: Sleep> Stream for Paced<'_, St, St::Item, C, S> {
    type Item = St::Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<St::Item>> {
        let this = self.project();
        if this.waiting.is_none() {
            match ready!(this.inner.poll_next(context)) {
                None => return Poll::Ready(None),
                item => *this.waiting = item,
            }
        }
        ready!(this.gate.poll(context));
        Poll::Ready(this.waiting.take())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let waiting = usize::from(self.waiting.is_some());
        let (least, most) = self.inner.size_hint();
        (least.saturating_add(waiting), most.and_then(|most| most.checked_add(waiting)))
    }
}

impl<St: FusedStream, C: Clock, S: Sleep> FusedStream for Paced<'_, St, St::Item, C, S> {
    fn is_terminated(&self) -> bool {
        self.waiting.is_none() && self.inner.is_terminated()
    }
}

impl<Si: Sink<Item>, Item, C: Clock, S: Sleep> Paced<'_, Si, Item, C, S> {
    /// Passes the waiting item, if there is one, to the inner sink.
    fn poll_waiting(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Si::Error>> {
        let mut this = self.project();
        if this.waiting.is_none() {
            return Poll::Ready(Ok(()));
        }
        ready!(this.inner.as_mut().poll_ready(context))?;
        ready!(this.gate.poll(context));
        Poll::Ready(this.waiting.take().map_or(Ok(()), |item| this.inner.start_send(item)))
    }
}

impl<Si: Sink<Item>, Item, C: Clock, S: Sleep> Sink<Item> for Paced<'_, Si, Item, C, S> {
    type Error = Si::Error;

    fn poll_ready(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Si::Error>> {
        self.poll_waiting(context)
    }

    fn start_send(self: Pin<&mut Self>, item: Item) -> Result<(), Si::Error> {
        *self.project().waiting = Some(item);
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Si::Error>> {
        ready!(self.as_mut().poll_waiting(context))?;
        self.project().inner.poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Si::Error>> {
        ready!(self.as_mut().poll_waiting(context))?;
        self.project().inner.poll_close(context)
    }
}
