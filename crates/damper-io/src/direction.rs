//! A direction of a connection: waits until bytes may be moved, moves them and reports it.

use crate::BytePacer;
#[cfg(any(feature = "futures-io", feature = "http-body", feature = "tokio"))]
use alloc::boxed::Box;
use core::fmt;
#[cfg(any(feature = "embedded-io", feature = "std"))]
use core::future::Ready;
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

/// The pacer of a direction, if it has a limit, and its timer.
pub(crate) struct Direction<P, S: Sleep> {
    pacer: Option<P>,
    /// The memory of all sleeps, allocated at the first one.
    ///
    /// It is in a box, so that the adapters are `Unpin`.
    #[cfg(any(feature = "futures-io", feature = "http-body", feature = "tokio"))]
    sleeping: Option<Pin<Box<Option<S::Sleeping>>>>,
    #[cfg(not(any(feature = "futures-io", feature = "http-body", feature = "tokio")))]
    sleeping: core::marker::PhantomData<S>,
}

impl<L: LimiterRef<Algorithm = TokenBucket>, S: Sleep, const N: usize> Direction<BytePacer<L, N>, S> {
    pub(crate) const fn new(pacer: Option<BytePacer<L, N>>) -> Self {
        Self {
            pacer,
            #[cfg(any(feature = "futures-io", feature = "http-body", feature = "tokio"))]
            sleeping: None,
            #[cfg(not(any(feature = "futures-io", feature = "http-body", feature = "tokio")))]
            sleeping: core::marker::PhantomData,
        }
    }

    /// Gives back what was taken and not moved.
    #[cfg(any(feature = "futures-io", feature = "http-body", feature = "tokio"))]
    pub(crate) fn pause(&mut self) {
        if let Some(pacer) = &mut self.pacer {
            pacer.pause();
        }
    }
}

#[cfg(any(feature = "embedded-io", feature = "http-body", feature = "std"))]
impl<L: LimiterRef<Algorithm = TokenBucket> + Clone, S: Sleep, const N: usize> Direction<BytePacer<L, N>, S> {
    /// Polls until some of `wanted` bytes may be moved, and then polls `io`, which gets their number.
    #[cfg(any(feature = "futures-io", feature = "http-body", feature = "tokio"))]
    pub(crate) fn poll_io<E>(
        &mut self,
        sleep: &S,
        context: &mut Context<'_>,
        wanted: usize,
        io: impl FnOnce(&mut Context<'_>, usize) -> Poll<Result<usize, E>>,
    ) -> Poll<Result<usize, E>> {
        let Some(pacer) = self.pacer.as_mut().filter(|_| wanted > 0) else { return io(context, wanted) };
        let allowed = loop {
            if let Some(memory) = &mut self.sleeping
                && let Some(sleeping) = memory.as_mut().as_pin_mut()
            {
                ready!(sleeping.poll(context));
                memory.set(None);
            }
            match pacer.ask(wanted) {
                Ok(bytes) => break bytes,
                Err(wait) => {
                    let sleeping = sleep.sleep(with_others(pacer, wait));
                    self.sleeping.get_or_insert_with(|| Box::pin(None)).set(Some(sleeping));
                }
            }
        };
        let done = io(context, allowed);
        // I/O that failed or is not ready has moved nothing.
        pacer.report(allowed, if let Poll::Ready(Ok(bytes)) = done { bytes } else { 0 });
        done
    }

    /// Waits until some of `wanted` bytes may be moved, and then calls `io`, which gets their number.
    #[cfg(feature = "embedded-io")]
    pub(crate) async fn io<E>(
        &mut self,
        sleep: &S,
        wanted: usize,
        io: impl AsyncFnOnce(usize) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let Some(pacer) = self.pacer.as_mut().filter(|_| wanted > 0) else { return io(wanted).await };
        let allowed = loop {
            match pacer.ask(wanted) {
                Ok(bytes) => break bytes,
                Err(wait) => sleep.sleep(with_others(pacer, wait)).await,
            };
        };
        let done = io(allowed).await;
        pacer.report(allowed, *done.as_ref().unwrap_or(&0));
        done
    }

    /// Blocks until some of `wanted` bytes may be moved, and then calls `io`, which gets their number.
    #[cfg(any(feature = "embedded-io", feature = "std"))]
    pub(crate) fn blocking_io<E>(
        &mut self,
        sleep: &S,
        wanted: usize,
        io: impl FnOnce(usize) -> Result<usize, E>,
    ) -> Result<usize, E>
    where
        S: Sleep<Sleeping = Ready<()>>,
    {
        let Some(pacer) = self.pacer.as_mut().filter(|_| wanted > 0) else { return io(wanted) };
        let allowed = loop {
            match pacer.ask(wanted) {
                Ok(bytes) => break bytes,
                // The time is over when the future is there.
                Err(wait) => sleep.sleep(wait).into_inner(),
            }
        };
        let done = io(allowed);
        pacer.report(allowed, *done.as_ref().unwrap_or(&0));
        done
    }
}

/// Lengthens a long wait by at most a 16th, so that it ends together with those of other connections.
///
/// Then one wake-up of the runtime serves several of them. The limit's line loses nothing: the chunks of the others keep it busy
/// for as long as the wait.
#[cfg(any(feature = "embedded-io", feature = "futures-io", feature = "http-body", feature = "tokio"))]
fn with_others<L: LimiterRef<Algorithm = TokenBucket>, const N: usize>(
    pacer: &BytePacer<L, N>,
    wait: Duration,
) -> Duration {
    let millis = (wait / 16).as_millis() as u64;
    let Some((limit, grid)) = pacer.limits().first().zip(millis.checked_ilog2()) else { return wait };
    // All connections of a limit read the same clock.
    let (end, grid) = ((time_of(limit.limiter()) + wait).as_nanos(), 1_000_000_u128 << grid);
    wait + Duration::from_nanos((end.next_multiple_of(grid) - end) as u64)
}

impl<P: fmt::Debug, S: Sleep> fmt::Debug for Direction<P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pacer {
            Some(pacer) => pacer.fmt(f),
            None => f.write_str("unlimited"),
        }
    }
}
