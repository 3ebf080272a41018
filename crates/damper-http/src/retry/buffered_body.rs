//! A body that keeps the data read from it.

use super::ReplayableBody;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::{Buf, Bytes};
use core::error::Error;
use core::mem::{self, size_of};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::{fmt, ops::Range};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use std::sync::{Mutex, MutexGuard, PoisonError};

type BoxError = Box<dyn Error + Send + Sync>;

/// A request body that keeps the data read from it, up to a limit, so that a stream can be resent.
///
/// It is read as it arrives, without a wait for its end. Each attempt reads the kept data first, and then goes on with the stream. An
/// attempt that takes the data beyond the limit becomes the only reader: no more data is kept, and no other attempt can be made. The same
/// holds once another reason, such as the response, rules out another attempt.
///
/// The limit is in bytes of data, and each frame adds 32 bytes for itself.
///
/// # Locks
///
/// Attempts share the stream under a mutex, which is held while the stream is polled. Two threads contend for it only while an old attempt
/// is being dropped, or if attempts are hedged. A [`RetryLayer`](super::RetryLayer) also withdraws from its budget under the mutex, so that
/// the old attempt cannot exceed the limit between the withdrawal and the next attempt.
///
/// # Errors
///
/// The attempt that reads the stream gets the stream's error. An attempt that was replaced by another gets an error too, so that its
/// connection resets its stream. The caller never sees that error.
pub struct BufferedBody<Q> {
    shared: Arc<Mutex<Shared<Q>>>,
    /// The attempt that reads.
    reader: u32,
    /// The index of the next kept frame.
    next: usize,
    /// Whether no other attempt will read.
    is_only: bool,
}

struct Shared<Q> {
    stream: Q,
    end: End,
    /// All data so far. Once there is a single reader, only the data that it has not read.
    frames: VecDeque<Bytes>,
    /// The number of bytes that may still be kept.
    room: usize,
    /// The newest reader's number.
    newest: u32,
    /// The numbers of the readers that were not replaced.
    live: Range<u32>,
    /// The waiting readers, because the stream wakes only the reader that polled it last.
    waiting: Vec<(u32, Waker)>,
}

/// The end of the stream.
enum End {
    NotYet,
    Plain,
    Trailers(HeaderMap),
    Failed,
}

impl<Q: Body + Unpin> BufferedBody<Q> {
    /// Wraps a body, and keeps up to `limit` bytes of the data read from it.
    pub fn new(body: Q, limit: usize) -> Self {
        let shared = Shared {
            stream: body,
            end: End::NotYet,
            frames: VecDeque::new(),
            room: limit,
            newest: 0,
            live: 0..u32::MAX,
            waiting: Vec::new(),
        };
        Self { shared: Arc::new(Mutex::new(shared)), reader: 0, next: 0, is_only: false }
    }

    fn of_reader(&self, reader: u32) -> Self {
        Self { shared: Arc::clone(&self.shared), reader, next: 0, is_only: false }
    }
}

/// Locks the stream; returns `None` if the stream has panicked.
fn lock<Q>(shared: &Mutex<Shared<Q>>) -> Option<MutexGuard<'_, Shared<Q>>> {
    shared.lock().ok()
}

/// Wakes readers. The caller must not hold the lock.
fn wake(readers: Vec<(u32, Waker)>) {
    for (_, waker) in readers {
        waker.wake();
    }
}

impl<Q> Shared<Q> {
    /// Returns whether all data so far is kept.
    fn is_whole(&self) -> bool {
        self.live.end == u32::MAX && !matches!(self.end, End::Failed)
    }

    /// Returns the number of a new reader.
    fn add_reader(&mut self) -> u32 {
        self.newest = self.newest.saturating_add(1);
        self.newest
    }

    /// Makes this reader the only one, and returns its index among the remaining frames.
    ///
    /// `read` is the number of frames that it has read.
    fn commit_to(&mut self, reader: u32, read: usize) -> usize {
        self.live = reader..reader.saturating_add(1);
        let frames = self.frames.len();
        self.frames.drain(..read.min(frames));
        // The trailers come after the frames.
        usize::from(read > frames)
    }

    /// Registers a waiting reader, and returns its old waker.
    ///
    /// The caller drops the waker without the lock, because it is user code.
    fn wait(&mut self, reader: u32, waker: &Waker) -> Option<Waker> {
        match self.waiting.iter_mut().find(|(waiting, _)| *waiting == reader) {
            Some((_, registered)) if registered.will_wake(waker) => None,
            Some((_, registered)) => Some(mem::replace(registered, waker.clone())),
            None => {
                self.waiting.push((reader, waker.clone()));
                None
            }
        }
    }
}

impl<Q: Body + Unpin> ReplayableBody for BufferedBody<Q> {
    fn try_clone(&self) -> Option<Self> {
        let mut shared = lock(&self.shared)?;
        let reader = shared.is_whole().then(|| shared.add_reader())?;
        drop(shared);
        Some(self.of_reader(reader))
    }

    fn restart_if(&self, may_start: impl FnOnce() -> bool) -> Option<Self> {
        let mut shared = lock(&self.shared)?;
        if !shared.is_whole() || !may_start() {
            return None;
        }
        let reader = shared.add_reader();
        shared.live.start = reader;
        let replaced = mem::take(&mut shared.waiting);
        drop(shared);
        wake(replaced);
        Some(self.of_reader(reader))
    }

    fn is_replayable(&self) -> bool {
        lock(&self.shared).is_some_and(|shared| shared.is_whole())
    }
}

impl<Q> Body for BufferedBody<Q>
where
    Q: Body<Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let has_others = Arc::strong_count(&this.shared) > 1;
        let lost = |lost: BodyLost| Poll::Ready(Some(Err(lost.into())));
        let Some(mut shared) = lock(&this.shared) else { return lost(BodyLost::Panicked) };
        if !shared.live.contains(&this.reader) {
            return lost(BodyLost::Replaced);
        }
        if !has_others && !this.is_only {
            this.next = shared.commit_to(this.reader, this.next);
            this.is_only = true;
        }
        let kept = if this.is_only { shared.frames.pop_front() } else { shared.frames.get(this.next).cloned() };
        if let Some(data) = kept {
            this.next += usize::from(!this.is_only);
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        match &shared.end {
            End::NotYet => {}
            End::Plain => return Poll::Ready(None),
            End::Trailers(_) if this.next > shared.frames.len() => return Poll::Ready(None),
            End::Trailers(trailers) => {
                let trailers = trailers.clone();
                this.next = shared.frames.len() + 1;
                return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
            }
            End::Failed => return lost(BodyLost::Failed),
        }
        let frame = match Pin::new(&mut shared.stream).poll_frame(context) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                let old_waker = if this.is_only { None } else { shared.wait(this.reader, context.waker()) };
                drop(shared);
                drop(old_waker);
                return Poll::Pending;
            }
        };
        let frame = match frame {
            None => {
                shared.end = End::Plain;
                None
            }
            Some(Err(error)) => {
                shared.end = End::Failed;
                Some(Err(error.into()))
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(mut data) => {
                    let data = data.copy_to_bytes(data.remaining());
                    let size = data.len().saturating_add(size_of::<Bytes>());
                    // An empty frame carries no data, so it is not kept.
                    if !this.is_only && !data.is_empty() {
                        if let Some(room) = shared.room.checked_sub(size) {
                            shared.room = room;
                            shared.frames.push_back(data.clone());
                            this.next += 1;
                        } else {
                            this.next = shared.commit_to(this.reader, this.next);
                            this.is_only = true;
                        }
                    }
                    Some(Ok(Frame::data(data)))
                }
                Err(frame) => match frame.into_trailers() {
                    Ok(trailers) => {
                        shared.end = End::Trailers(trailers.clone());
                        this.next = shared.frames.len() + 1;
                        Some(Ok(Frame::trailers(trailers)))
                    }
                    // There are no other kinds of frames.
                    Err(_) => None,
                },
            },
        };
        let others = mem::take(&mut shared.waiting);
        drop(shared);
        wake(others);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        let Some(shared) = lock(&self.shared) else { return false };
        let is_over = match &shared.end {
            End::NotYet => shared.stream.is_end_stream(),
            End::Plain => true,
            End::Trailers(_) => self.next > shared.frames.len(),
            End::Failed => false,
        };
        is_over && self.next >= shared.frames.len() && shared.live.contains(&self.reader)
    }

    fn size_hint(&self) -> SizeHint {
        let Some(shared) = lock(&self.shared) else { return SizeHint::default() };
        let kept: u64 = shared.frames.iter().skip(self.next).map(|data| data.len() as u64).sum();
        let mut size = match shared.end {
            End::NotYet => shared.stream.size_hint(),
            _ => SizeHint::with_exact(0),
        };
        // Set the upper bound first, because it must not fall below the lower.
        if let Some(upper) = size.upper() {
            size.set_upper(upper.saturating_add(kept));
        }
        size.set_lower(size.lower().saturating_add(kept));
        size
    }
}

/// Wakes the others: the stream would wake this reader, so another one has to poll it.
impl<Q> Drop for BufferedBody<Q> {
    fn drop(&mut self) {
        // After a panic of the stream nothing else would wake them. They get an error then.
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut others = mem::take(&mut shared.waiting);
        drop(shared);
        others.retain(|(reader, _)| *reader != self.reader);
        wake(others);
    }
}

impl<Q> fmt::Debug for BufferedBody<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferedBody").field("reader", &self.reader).finish_non_exhaustive()
    }
}

/// The reason why a reader cannot go on.
#[derive(Debug)]
enum BodyLost {
    /// Another attempt is the only reader.
    Replaced,
    /// The stream failed. The attempt that read it then got the stream's own error.
    Failed,
    /// The stream panicked.
    Panicked,
}

impl fmt::Display for BodyLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Replaced => "the request's body is read by another attempt",
            Self::Failed => "the request's body failed in another attempt",
            Self::Panicked => "the request's body panicked in another attempt",
        })
    }
}

impl Error for BodyLost {}
