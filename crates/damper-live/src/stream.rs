//! The stream of samples to one browser.

use super::page::Shared;
use super::sampler::Sample;
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;
use damper_core::keyed::ClientAddress;
use damper_http::ReaderStalled;
use http_body::Body;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::{Instant, Sleep};

/// The most bytes of a frame. hyper asks for nothing more while it has 400 KB to write.
const LONGEST_FRAME: usize = 64 << 10;

/// The events for one browser, of which at most one frame is on its way.
///
/// The next frame is made only when the transport has written the last one and dropped it. Until then the browser misses samples, and
/// after a while the stream ends with an error, at which hyper closes the connection. So nothing is kept for a browser that does not read.
#[derive(Debug)]
pub(super) struct EventStream {
    shared: Arc<Shared>,
    _place: Place,
    /// The rest of the event that is being sent.
    rest: Bytes,
    sleep: Pin<Box<Sleep>>,
    /// The number of the last sample that was sent.
    sent: u64,
    /// When the last frame was sent.
    sent_at: Instant,
    frame: Arc<FrameState>,
}

/// Whether a frame is on its way.
#[derive(Debug, Default)]
struct FrameState {
    is_unwritten: AtomicBool,
    /// The task that waits until it is written.
    waiting: Mutex<Option<Waker>>,
}

impl FrameState {
    /// Returns whether the frame is on its way. If it is, the task is woken once it is written.
    fn is_unwritten(&self, cx: &Context<'_>) -> bool {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
        // ORDERING: Relaxed: `written` stores before it locks. If it locked before, this load sees what it stored; if not, it wakes the task.
        self.is_unwritten.load(Ordering::Relaxed)
    }

    fn written(&self) {
        // ORDERING: Relaxed: ordered by the lock, as `is_unwritten` says.
        self.is_unwritten.store(false, Ordering::Relaxed);
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }
}

/// The streams that are open.
#[derive(Debug, Default)]
pub(super) struct OpenStreams(Mutex<Vec<ClientAddress>>);

/// How many streams may be open.
#[derive(Clone, Copy, Debug)]
pub(super) struct MostOpen {
    pub(super) streams: usize,
    pub(super) per_address: usize,
}

/// Why no further stream may be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// There are as many as there may be.
    Page,
    /// The address has as many as it may have.
    Address,
}

impl OpenStreams {
    fn lock(&self) -> MutexGuard<'_, Vec<ClientAddress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether one more stream of this address may be open.
    pub(super) fn check(&self, address: ClientAddress, most: MostOpen) -> Result<(), Full> {
        most.check(&self.lock(), address)
    }

    /// Takes the place of one more stream of this address.
    pub(super) fn take(self: &Arc<Self>, address: ClientAddress, most: MostOpen) -> Result<Place, Full> {
        let mut open = self.lock();
        most.check(&open, address)?;
        open.push(address);
        Ok(Place { open: Arc::clone(self), address })
    }
}

impl MostOpen {
    fn check(self, open: &[ClientAddress], address: ClientAddress) -> Result<(), Full> {
        if open.iter().filter(|&&taken| taken == address).count() >= self.per_address {
            return Err(Full::Address);
        }
        if open.len() >= self.streams { Err(Full::Page) } else { Ok(()) }
    }
}

/// The place of a stream among those that may be open.
#[derive(Debug)]
pub(super) struct Place {
    open: Arc<OpenStreams>,
    address: ClientAddress,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        if let Some(at) = open.iter().position(|taken| *taken == self.address) {
            open.swap_remove(at);
        }
    }
}

/// A frame that says, by being dropped, that it was written.
struct Frame {
    part: Bytes,
    state: Arc<FrameState>,
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &self.part
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.state.written();
    }
}

impl EventStream {
    pub(super) fn new(shared: Arc<Shared>, place: Place) -> Self {
        let rest = shared.hello();
        let now = Instant::now();
        Self {
            shared,
            _place: place,
            rest,
            sleep: Box::pin(tokio::time::sleep_until(now)),
            sent: 0,
            sent_at: now,
            frame: Arc::default(),
        }
    }

    /// Returns the next part of the event.
    fn next_frame(&mut self) -> Bytes {
        let part = self.rest.split_to(self.rest.len().min(LONGEST_FRAME));
        self.sent_at = Instant::now();
        // ORDERING: Relaxed: the frame is dropped after this, wherever that is.
        self.frame.is_unwritten.store(true, Ordering::Relaxed);
        Bytes::from_owner(Frame { part, state: Arc::clone(&self.frame) })
    }

    /// Returns the next part of an event, once it is there and the last one is written.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, ReaderStalled>> {
        let interval = self.shared.sampler.interval();
        loop {
            if self.frame.is_unwritten(cx) {
                ready!(self.sleep.as_mut().poll(cx));
                let now = Instant::now();
                let unread_for = now.saturating_duration_since(self.sent_at);
                if unread_for >= self.shared.patience {
                    return Poll::Ready(Err(ReaderStalled::new(self.shared.patience)));
                }
                self.sleep.as_mut().reset(now + interval.min(self.shared.patience.saturating_sub(unread_for)));
                continue;
            }
            if !self.rest.is_empty() {
                return Poll::Ready(Ok(self.next_frame()));
            }
            ready!(self.sleep.as_mut().poll(cx));
            let now = Instant::now();
            let Sample { number, at, event } = self.shared.sampler.sample(now);
            // All streams ask at the moment when the next sample is due, and one of them takes it.
            self.sleep.as_mut().reset((at + interval).max(now + Duration::from_millis(1)));
            if number != self.sent {
                self.sent = number;
                self.rest = event;
            }
        }
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = ReaderStalled;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, ReaderStalled>>> {
        self.get_mut().poll_part(cx).map(|part| Some(part.map(http_body::Frame::data)))
    }
}

/// Returns an event of a stream. JSON has no line breaks, so the event has one line of `data`.
pub(super) fn event(name: &str, json: &serde_json::Value) -> Bytes {
    format!("event: {name}\ndata: {json}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::event;

    #[test]
    fn names_cannot_write_events() {
        let event = event("sample", &serde_json::json!({ "name": "a\n\nevent: b\r" }));
        assert_eq!(event, "event: sample\ndata: {\"name\":\"a\\n\\nevent: b\\r\"}\n\n");
    }
}
