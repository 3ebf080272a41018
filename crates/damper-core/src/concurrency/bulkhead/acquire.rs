//! How to wait for a permit.

#[cfg(feature = "std")]
use super::BulkheadPermit;
use super::patience::Patience;
#[cfg(feature = "std")]
use super::permit::sealed::Entry;
use super::permit::sealed::Slotted;
use super::{AcquirePermitFuture, BulkheadFull, BulkheadRef, FullCause};
use crate::Deadline;
#[cfg(feature = "std")]
use crate::concurrency::queue::{Place, Queued};
#[cfg(feature = "std")]
use crate::sync::Parker;
#[cfg(feature = "tokio")]
use crate::time::TokioSleep;
use crate::time::{Clock, Sleep};
use core::fmt;
#[cfg(feature = "std")]
use core::task::Waker;
use core::time::Duration;

/// A wait for a permit, with its longest time. Made by [`Bulkhead::acquire`](super::Bulkhead::acquire).
///
/// Nothing is taken before [`wait`](Self::wait) is called, or a future of it is polled. With the feature `tokio` it can be
/// awaited directly; [`sleeping_by`](Self::sleeping_by) makes a future for any other runtime.
///
/// A call that finds a slot free takes it, even if its time is over. Otherwise it waits in the bulkhead's queue, and is refused
/// if that is full.
///
/// **Without a [`queue`](super::Bulkhead::queue) it never waits**, even if it has time: it is refused at once, with
/// [`FullCause::NoQueue`](super::FullCause::NoQueue).
#[must_use = "nothing waits before `wait` is called or the future is awaited"]
#[cfg(feature = "alloc")]
pub struct AcquirePermit<B> {
    /// The refusal is that of a key without a limit.
    pub(super) bulkhead: Result<B, BulkheadFull>,
    pub(super) patience: Patience,
}

impl<B: BulkheadRef> AcquirePermit<B> {
    pub(in crate::concurrency) fn of(bulkhead: Result<B, BulkheadFull>) -> Self {
        Self { bulkhead, patience: Patience::default() }
    }

    /// Sets the longest wait in the queue. Default: for ever.
    ///
    /// With [`by`](Self::by) too, the earlier end counts.
    pub fn within(mut self, longest: Duration) -> Self {
        self.patience.longest = Some(longest);
        self
    }

    /// Sets the deadline by which to have a permit. Default: none.
    ///
    /// The time until the deadline is read now. Of several deadlines the earliest counts.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use core::time::Duration;
    /// use damper::{Bulkhead, BulkheadFull, Deadline};
    ///
    /// let pool = Bulkhead::new(1).queue(16);
    /// let deadline = Deadline::after(Duration::from_millis(5));
    /// let permit = pool.acquire().by(&deadline).wait()?;
    /// assert!(pool.acquire().by(&deadline).wait().is_err());
    /// # drop(permit);
    /// # }
    /// # Ok::<(), damper::BulkheadFull>(())
    /// ```
    pub fn by<C: Clock>(mut self, deadline: &Deadline<C>) -> Self {
        if let Ok(bulkhead) = &self.bulkhead
            && !deadline.is_never()
        {
            let until = bulkhead.expiry_after(deadline.remaining());
            self.patience.until = Some(self.patience.until.map_or(until, |earlier| earlier.earlier(until)));
        }
        self
    }

    /// Returns the refusal of a call whose time to wait is over.
    pub(crate) fn timed_out(&self) -> BulkheadFull {
        match &self.bulkhead {
            Ok(bulkhead) => BulkheadFull::new(bulkhead.limit(), FullCause::TimedOut),
            Err(full) => *full,
        }
    }

    /// Blocks the thread until there is a permit.
    ///
    /// The first wait of a thread allocates its waker.
    ///
    /// # Errors
    ///
    /// [`BulkheadFull`]: at once if there is no queue, or no place in it; later if the time is over or a newer call took the
    /// place.
    #[cfg(feature = "std")]
    pub fn wait(self) -> Result<BulkheadPermit<B>, BulkheadFull> {
        let bulkhead = self.bulkhead?;
        if bulkhead.enter().is_err() {
            let parker = Parker::of_this_thread();
            // The wake-ups are counted before each check, so that none is lost between a check and the wait.
            let mut seen = parker.wake_ups();
            if let Entry::Queued(Queued { place, displaced }, expiry) = bulkhead.join(self.patience, parker.waker())? {
                let stay = Stay { limit: &*bulkhead, place };
                displaced.into_iter().for_each(Waker::wake);
                let fate = loop {
                    parker.wait(seen, expiry.map(|expiry| bulkhead.remaining(expiry)));
                    seen = parker.wake_ups();
                    if let Some(fate) = bulkhead.look(place, expiry, parker.waker()) {
                        break fate;
                    }
                };
                core::mem::forget(stay);
                fate?;
            }
        }
        Ok(BulkheadPermit::of_slot(bulkhead))
    }

    /// Returns a future that waits for a permit, on any runtime.
    ///
    /// It sleeps by `sleep` only if its wait has an end.
    ///
    /// If a sleep ends too early, the future starts another one. A sleep that is ready whenever it is polled, like
    /// `|_| ready(())`, keeps its task busy until the time is over: each poll returns, and wakes the task at once.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn run() -> Result<(), damper::BulkheadFull> {
    /// use core::time::Duration;
    /// use damper::Bulkhead;
    ///
    /// let pool = Bulkhead::new(1).queue(16);
    /// for _ in 0..3 {
    ///     let _permit = pool.acquire().within(Duration::from_secs(1)).sleeping_by(tokio::time::sleep).await?;
    /// }
    /// # Ok(())
    /// # }
    /// # run().unwrap(); }
    /// ```
    pub fn sleeping_by<S: Sleep>(self, sleep: S) -> AcquirePermitFuture<B, S> {
        AcquirePermitFuture::new(self, sleep)
    }
}

/// A thread's stay in the queue.
///
/// It ends when a waker that panics unwinds the thread: otherwise a slot would go to a call that is gone.
#[cfg(feature = "std")]
struct Stay<'a, L: Slotted + ?Sized> {
    limit: &'a L,
    place: Place,
}

#[cfg(feature = "std")]
impl<L: Slotted + ?Sized> Drop for Stay<'_, L> {
    fn drop(&mut self) {
        self.limit.leave(self.place);
    }
}

/// Waits in a future that sleeps by tokio's timer, if its wait has an end.
///
/// # Panics
///
/// If polled outside of a tokio runtime whose timer is enabled, once it has to wait and its wait has an end. Elsewhere:
/// [`sleeping_by`](AcquirePermit::sleeping_by).
#[cfg(feature = "tokio")]
impl<B: BulkheadRef> IntoFuture for AcquirePermit<B> {
    type Output = Result<BulkheadPermit<B>, BulkheadFull>;
    type IntoFuture = AcquirePermitFuture<B, TokioSleep>;

    fn into_future(self) -> Self::IntoFuture {
        self.sleeping_by(TokioSleep)
    }
}

impl<B: BulkheadRef> fmt::Debug for AcquirePermit<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquirePermit")
            .field("bulkhead", &self.bulkhead.as_ref().map(|bulkhead| &**bulkhead))
            .field("patience", &self.patience)
            .finish()
    }
}
