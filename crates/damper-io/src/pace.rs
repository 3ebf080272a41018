//! Waits until bytes may be moved: a pacer and its timer.

use crate::BytePacer;
#[cfg(any(feature = "embedded-io", feature = "http-body", feature = "std"))]
use crate::Turn;
#[cfg(any(feature = "futures-io", feature = "http-body", feature = "tokio"))]
use alloc::boxed::Box;
use core::fmt;
#[cfg(any(feature = "futures-io", feature = "http-body", feature = "tokio"))]
use core::pin::Pin;
#[cfg(any(feature = "futures-io", feature = "http-body", feature = "tokio"))]
use core::task::{Context, Poll, ready};
#[cfg(any(feature = "embedded-io", feature = "futures-io", feature = "http-body", feature = "tokio"))]
use core::time::Duration;
use damper_core::TokenBucket;
#[cfg(any(feature = "embedded-io", feature = "futures-io", feature = "http-body", feature = "tokio"))]
use damper_core::internal::time_of;
use damper_core::limit::LimiterRef;
use damper_core::time::Sleep;

/// A pacer and the timer by which it waits.
///
/// [`PacedReader`](crate::PacedReader), [`PacedWriter`](crate::PacedWriter) and `PacedBody` have one each. Their constructors create it, and
/// a program names it only in their types: `PacedWriter<TcpStream, Pace<Arc<RateLimiter>, TokioSleep>>`.
pub struct Pace<L: LimiterRef<Algorithm = TokenBucket>, S: Sleep, const N: usize = 1> {
    pacer: BytePacer<L, N>,
    sleep: S,
    /// The memory of all sleeps, allocated at the first wait.
    ///
    /// It is in a box, so that the adapters are `Unpin`.
    #[cfg(any(feature = "futures-io", feature = "http-body", feature = "tokio"))]
    sleeping: Option<Pin<Box<Option<S::Sleeping>>>>,
}

impl<L: LimiterRef<Algorithm = TokenBucket>, S: Sleep, const N: usize> Pace<L, S, N> {
    pub(crate) const fn new(pacer: BytePacer<L, N>, sleep: S) -> Self {
        Self {
            pacer,
            sleep,
            #[cfg(any(feature = "futures-io", feature = "http-body", feature = "tokio"))]
            sleeping: None,
        }
    }

    pub(crate) const fn pacer(&self) -> &BytePacer<L, N> {
        &self.pacer
    }
}

#[cfg(any(feature = "embedded-io", feature = "http-body", feature = "std"))]
impl<L: LimiterRef<Algorithm = TokenBucket> + Clone, S: Sleep, const N: usize> Pace<L, S, N> {
    /// Polls until some of `wanted` bytes may be moved, and returns how many.
    #[cfg(any(feature = "futures-io", feature = "http-body", feature = "tokio"))]
    pub(crate) fn poll_turn(&mut self, context: &mut Context<'_>, wanted: usize) -> Poll<usize> {
        loop {
            if let Some(memory) = &mut self.sleeping
                && let Some(sleeping) = memory.as_mut().as_pin_mut()
            {
                ready!(sleeping.poll(context));
                memory.set(None);
            }
            match self.pacer.ask(wanted) {
                Turn::Move(bytes) => return Poll::Ready(bytes),
                Turn::Wait(time) => {
                    let sleeping = self.sleep.sleep(self.with_others(time));
                    self.sleeping.get_or_insert_with(|| Box::pin(None)).set(Some(sleeping));
                }
            }
        }
    }

    /// Lengthens a long wait by at most a 16th, so that it ends together with those of other connections.
    ///
    /// Then one wake-up of the runtime serves several of them. The limit's line loses nothing: the chunks of the
    /// others keep it busy for as long as the wait.
    #[cfg(any(feature = "embedded-io", feature = "futures-io", feature = "http-body", feature = "tokio"))]
    fn with_others(&self, wait: Duration) -> Duration {
        let millis = (wait / 16).as_millis() as u64;
        let Some((limit, grid)) = self.pacer.limits().next().zip(millis.checked_ilog2()) else { return wait };
        // All connections of a limit read the same clock.
        let (end, grid) = ((time_of(limit) + wait).as_nanos(), 1_000_000_u128 << grid);
        wait + Duration::from_nanos((end.next_multiple_of(grid) - end) as u64)
    }

    /// Waits until some of `wanted` bytes may be moved, and returns how many.
    #[cfg(feature = "embedded-io")]
    pub(crate) async fn turn(&mut self, wanted: usize) -> usize {
        loop {
            match self.pacer.ask(wanted) {
                Turn::Move(bytes) => return bytes,
                Turn::Wait(time) => self.sleep.sleep(self.with_others(time)).await,
            };
        }
    }

    /// Blocks until some of `wanted` bytes may be moved, and returns how many.
    #[cfg(any(feature = "embedded-io", feature = "std"))]
    pub(crate) fn blocking_turn(&mut self, wanted: usize) -> usize
    where
        S: Sleep<Sleeping = core::future::Ready<()>>,
    {
        loop {
            match self.pacer.ask(wanted) {
                Turn::Move(bytes) => return bytes,
                // The time is over when the future is there.
                Turn::Wait(time) => self.sleep.sleep(time).into_inner(),
            }
        }
    }

    /// Reports what the I/O did with the `offered` bytes, and returns it.
    #[cfg(any(feature = "embedded-io", feature = "std"))]
    pub(crate) fn report<E>(&mut self, offered: usize, done: Result<usize, E>) -> Result<usize, E> {
        match done {
            Ok(bytes) => self.pacer.report(offered, bytes),
            Err(_) => self.pacer.pause(),
        }
        done
    }

    /// Reports what the polled I/O did with the `offered` bytes, and returns it.
    #[cfg(any(feature = "futures-io", feature = "tokio"))]
    pub(crate) fn report_polled<E>(&mut self, offered: usize, done: Poll<Result<usize, E>>) -> Poll<Result<usize, E>> {
        match done {
            Poll::Ready(done) => Poll::Ready(self.report(offered, done)),
            Poll::Pending => {
                self.pacer.pause();
                Poll::Pending
            }
        }
    }

    /// Reports that `bytes` were moved.
    #[cfg(feature = "http-body")]
    pub(crate) fn moved(&mut self, bytes: usize) {
        self.pacer.report(bytes, bytes);
    }

    /// Gives back what was taken and not moved.
    #[cfg(feature = "http-body")]
    pub(crate) fn pause(&mut self) {
        self.pacer.pause();
    }
}

impl<L: LimiterRef<Algorithm = TokenBucket>, S: Sleep, const N: usize> fmt::Debug for Pace<L, S, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pacer.fmt(f)
    }
}
