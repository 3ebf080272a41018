//! A body that its reader polls and that a timer may drop.

#[cfg(feature = "tokio")]
use super::sweeper::{Expiring, Registration};
use super::{BodyLimits, BoxError};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// A response body that a timer drops at its deadline, or when its reader stalls.
    ///
    /// That needs no poll. The slot of a call, which the body holds, is dropped with it. The reader that comes back gets an error with a
    /// [`DeadlineExceeded`](damper_core::DeadlineExceeded) or a [`ReaderStalled`](super::ReaderStalled) among its sources. It needs tokio:
    /// without the feature `tokio`, or outside of a runtime, nothing drops it before its reader does.
    ///
    /// A body with a deadline or a stall limit allocates when it is created, and takes a lock of its own when it is polled. One that has
    /// ended with its head, or has neither, does not.
    pub struct TimedBody<B> {
        #[pin]
        source: Source<B>,
    }
}

pin_project! {
    #[project = SourceProjection]
    enum Source<B> {
        Untimed { #[pin] body: B },
        Timed { timed: timed::Timed<B> },
    }
}

impl<B: Body> TimedBody<B> {
    /// Wraps a body. Without limits, or if it has ended already, the body is passed on unchanged.
    #[inline]
    pub(crate) fn new(body: B, limits: Option<BodyLimits>) -> Self
    where
        B: Send + 'static,
    {
        let Some(limits) = limits.filter(|limits| !limits.is_none() && !body.is_end_stream()) else {
            return Self { source: Source::Untimed { body } };
        };
        Self { source: timed::source(body, limits) }
    }
}

/// The default body of the service.
///
/// Middleware outside, such as tower-http's, answers in place of the service with it.
impl<B: Default> Default for TimedBody<B> {
    fn default() -> Self {
        Self { source: Source::Untimed { body: B::default() } }
    }
}

impl<B: Body<Error: Into<BoxError>>> Body for TimedBody<B> {
    type Data = B::Data;
    type Error = BoxError;

    #[inline]
    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        match self.project().source.project() {
            SourceProjection::Untimed { body } => {
                body.poll_frame(context).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
            }
            SourceProjection::Timed { timed } => timed.poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Untimed { body } => body.is_end_stream(),
            Source::Timed { timed } => timed.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Untimed { body } => body.size_hint(),
            Source::Timed { timed } => timed.size_hint(),
        }
    }
}

impl<B> fmt::Debug for TimedBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_timed = matches!(self.source, Source::Timed { .. });
        f.debug_struct("TimedBody").field("is_timed", &is_timed).finish_non_exhaustive()
    }
}

#[cfg(feature = "tokio")]
mod timed {
    use super::super::ReaderStalled;
    use super::{BodyLimits, BoxError, Expiring, Registration, Source};
    use alloc::boxed::Box;
    use alloc::sync::Arc;
    use core::pin::Pin;
    use core::task::{Context, Poll, Waker};
    use core::time::Duration;
    use http_body::{Body, Frame, SizeHint};
    use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
    use tokio::time::Instant;

    /// When to look again at a body that is being polled.
    const SOON: Duration = Duration::from_millis(1);

    /// When to look again at a body that expires later than that.
    const FAR: Duration = Duration::from_secs(60 * 60);

    /// Creates the source of a body with limits.
    pub(super) fn source<B: Body + Send + 'static>(body: B, limits: BodyLimits) -> Source<B> {
        let now = Instant::now();
        // The reader has a head to write, and then a frame.
        let state = State { body: Some(Box::pin(body)), limits, offered: Some(now), reader: None, end: End::Open };
        let shared = Arc::new(Shared(Mutex::new(state)));
        let registration = Registration::new(Arc::clone(&shared) as _, now);
        Source::Timed { timed: Timed { shared, _registration: registration } }
    }

    /// The reader's half of a body with limits.
    pub(super) struct Timed<B> {
        shared: Arc<Shared<B>>,
        /// Removes the body from the timer when it is dropped; `None` outside of a runtime, where no timer is.
        _registration: Option<Registration>,
    }

    /// A body that its reader and the timer share.
    struct Shared<B>(Mutex<State<B>>);

    struct State<B> {
        /// `Some` until the body ends, or the timer or the reader drops it.
        ///
        /// In a box, because it has to be pinned behind the lock.
        body: Option<Pin<Box<B>>>,
        limits: BodyLimits,
        /// When the last frame, or the head, was ready for the reader.
        ///
        /// It is `None` while the reader waits for a frame.
        offered: Option<Instant>,
        /// Wakes the reader that waits for a frame, because the body that would wake it may be dropped before.
        reader: Option<Waker>,
        end: End,
    }

    /// The end of a body.
    enum End {
        /// It has not ended.
        Open,
        /// The reader has the whole body, or the error that it has to report.
        Over,
        /// The timer dropped it, and the reader does not know yet.
        Cut(BoxError),
    }

    impl<B> Shared<B> {
        /// A panic of the body poisons the lock. The body is dropped all the same.
        fn lock(&self) -> MutexGuard<'_, State<B>> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl<B: Body<Error: Into<BoxError>>> Timed<B> {
        pub(super) fn poll_frame(
            &mut self,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
            let mut state = self.shared.lock();
            let state = &mut *state;
            let Some(body) = &mut state.body else {
                return Poll::Ready(match core::mem::replace(&mut state.end, End::Over) {
                    End::Cut(error) => Some(Err(error)),
                    End::Open | End::Over => None,
                });
            };
            let polled = body.as_mut().poll_frame(context);
            if state.limits.stall.is_some() {
                state.offered = polled.is_ready().then(Instant::now);
            }
            let Poll::Ready(frame) = polled else {
                state.reader.get_or_insert_with(|| context.waker().clone()).clone_from(context.waker());
                return Poll::Pending;
            };
            // A whole body is not cut off while its last frame is written.
            if frame.is_none() || body.is_end_stream() {
                state.end = End::Over;
                state.body = None;
            }
            Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
        }
    }

    impl<B: Body> Timed<B> {
        pub(super) fn is_end_stream(&self) -> bool {
            let state = self.shared.lock();
            match &state.body {
                Some(body) => body.is_end_stream(),
                None => matches!(state.end, End::Over),
            }
        }

        pub(super) fn size_hint(&self) -> SizeHint {
            let state = self.shared.lock();
            match (&state.body, &state.end) {
                (Some(body), _) => body.size_hint(),
                (None, End::Cut(_)) => SizeHint::default(),
                (None, _) => SizeHint::with_exact(0),
            }
        }
    }

    impl<B> Drop for Timed<B> {
        fn drop(&mut self) {
            let mut state = self.shared.lock();
            let dropped = (state.body.take(), state.reader.take());
            drop(state);
            // Without the lock, because a body may do anything when it is dropped.
            drop(dropped);
        }
    }

    impl<B: Send> Expiring for Shared<B> {
        fn expires(&self, now: Instant) -> Option<Instant> {
            let state = match self.0.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                // It is being polled, so its reader is there. The next sweep looks again.
                Err(TryLockError::WouldBlock) => return Some(now + SOON),
            };
            state.body.as_ref()?;
            let BodyLimits { deadline, stall } = state.limits;
            // A reader that waits for a frame now may stall on it at once.
            let offered = state.offered.unwrap_or(now);
            let by_stall = stall.map_or(FAR, |limit| limit.saturating_sub(now.saturating_duration_since(offered)));
            Some(now + deadline.remaining().min(by_stall).min(FAR))
        }

        fn expire(&self, now: Instant) {
            let mut state = self.lock();
            let limits = state.limits;
            let cut: BoxError = match (limits.deadline.check(), limits.stall.zip(state.offered)) {
                (Err(exceeded), _) => Box::new(exceeded),
                (Ok(()), Some((limit, offered))) if now.saturating_duration_since(offered) >= limit => {
                    Box::new(ReaderStalled::new(limit))
                }
                // The reader came back meanwhile.
                _ => return,
            };
            let Some(body) = state.body.take() else { return };
            state.end = End::Cut(cut);
            let reader = state.reader.take();
            drop(state);
            // Without the lock, because wakers and bodies are code of others. The body comes last, because it may panic.
            if let Some(reader) = reader {
                reader.wake();
            }
            drop(body);
        }
    }
}

#[cfg(not(feature = "tokio"))]
mod timed {
    use super::{BodyLimits, BoxError, Source};
    use core::convert::Infallible;
    use core::marker::PhantomData;
    use core::task::{Context, Poll};
    use http_body::{Body, Frame, SizeHint};

    /// Without a timer no body has limits.
    pub(super) fn source<B>(body: B, _: BodyLimits) -> Source<B> {
        Source::Untimed { body }
    }

    pub(super) struct Timed<B>(Infallible, PhantomData<B>);

    impl<B: Body> Timed<B> {
        pub(super) fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
            match self.0 {}
        }

        pub(super) fn is_end_stream(&self) -> bool {
            match self.0 {}
        }

        pub(super) fn size_hint(&self) -> SizeHint {
            match self.0 {}
        }
    }
}
