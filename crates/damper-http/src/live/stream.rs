//! The stream of samples to one browser.

use super::page::Shared;
use super::sampler::Sample;
use alloc::boxed::Box;
use alloc::sync::Arc;
use bytes::Bytes;
use core::fmt;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;
use std::sync::{Mutex, PoisonError};
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

/// One of the streams that may be open.
#[derive(Debug)]
pub(super) struct Place(Arc<AtomicUsize>);

impl Place {
    /// Takes a place, if fewer than `most` are taken.
    pub(super) fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        // ORDERING: Relaxed, here and below: a count, through which nothing is published.
        let take = |taken: usize| (taken < most).then_some(taken + 1);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some(Self(Arc::clone(taken)))
    }

    /// Returns whether a place is free.
    pub(super) fn is_free(taken: &AtomicUsize, most: usize) -> bool {
        // ORDERING: Relaxed, as in `take`.
        taken.load(Ordering::Relaxed) < most
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // ORDERING: Relaxed, as in `take`.
        self.0.fetch_sub(1, Ordering::Relaxed);
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

/// The browser has not read what was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SlowReader {
    unread_for: Duration,
}

impl SlowReader {
    /// Returns how long the last sample was on its way.
    #[must_use]
    pub const fn unread_for(&self) -> Duration {
        self.unread_for
    }
}

impl fmt::Display for SlowReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a browser has not read a sample of the live page for {:?}", self.unread_for)
    }
}

damper_core::internal::debug_by_display!(SlowReader);

impl core::error::Error for SlowReader {}

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

    /// Returns the next frame.
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, SlowReader>> {
        let interval = self.shared.sampler.interval();
        loop {
            if self.frame.is_unwritten(cx) {
                ready!(self.sleep.as_mut().poll(cx));
                let now = Instant::now();
                let unread_for = now.saturating_duration_since(self.sent_at);
                if unread_for >= self.shared.patience {
                    return Poll::Ready(Err(SlowReader { unread_for }));
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
