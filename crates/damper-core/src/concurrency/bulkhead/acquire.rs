//! How to wait for a permit, and how long.

#[cfg(feature = "std")]
use super::BulkheadPermit;
#[cfg(feature = "std")]
use super::permit::sealed::Entry;
use super::permit::sealed::{QueueClock, SlotRef, Slotted};
use super::{AcquirePermitFuture, BulkheadFull, BulkheadRef};
use crate::Deadline;
use crate::concurrency::RefusalCause;
use crate::concurrency::queue::Expiry;
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

/// A wait for a permit, with its longest time.
///
/// Made by [`Bulkhead::acquire`](super::Bulkhead::acquire), and by `acquire` or `acquire` of the other limits.
///
/// Nothing is taken before [`wait`](Self::wait) is called, or a future of it is polled. With the feature `tokio` it can be
/// awaited directly; [`sleeping_by`](Self::sleeping_by) makes a future for any other runtime.
///
/// A call that finds a slot free takes it, even if its time is over. Otherwise it waits in the bulkhead's queue, and is refused
/// if that is full.
///
/// **Without a [`queue`](super::Bulkhead::queue) it never waits**, even if it has time: it is refused at once, with
/// [`RefusalCause::NoQueue`](super::RefusalCause::NoQueue).
#[must_use = "nothing waits before `wait` is called or the future is awaited"]
#[cfg(feature = "alloc")]
pub struct AcquirePermit<B: SlotRef> {
    /// The refusal is that of a key without a limit.
    pub(super) limit: Result<B, <B::Target as Slotted>::Refusal>,
    pub(super) wish: <B::Target as Slotted>::Wish,
}

impl<B: SlotRef> AcquirePermit<B> {
    pub(in crate::concurrency) fn new(
        limit: Result<B, <B::Target as Slotted>::Refusal>,
        wish: <B::Target as Slotted>::Wish,
    ) -> Self {
        Self { limit, wish }
    }
}

impl<B: BulkheadRef> AcquirePermit<B> {
    pub(in crate::concurrency) fn of(limit: Result<B, BulkheadFull>) -> Self {
        Self::new(limit, Patience::default())
    }

    /// Sets the longest wait in the queue. Default: for ever.
    ///
    /// With [`by`](Self::by) too, the earlier end counts.
    pub fn within(mut self, longest: Duration) -> Self {
        self.wish.longest = Some(longest);
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
        if let Ok(limit) = &self.limit
            && !deadline.is_never()
        {
            self.wish.wait_until(limit.expiry_after(deadline.remaining()));
        }
        self
    }

    /// Returns the refusal of a call whose time to wait is over.
    pub(crate) fn timed_out(&self) -> BulkheadFull {
        match &self.limit {
            Ok(limit) => BulkheadFull::new(limit.limit(), RefusalCause::TimedOut),
            Err(full) => *full,
        }
    }
}

impl<B: SlotRef> AcquirePermit<B> {
    /// Blocks the thread until there is a permit.
    ///
    /// The first wait of a thread allocates its waker.
    ///
    /// # Errors
    ///
    /// [`BulkheadFull`], or `NotAdmitted` of an admission: at once if there is no queue, or no place in it; later if the time is
    /// over or a newer call took the place.
    #[cfg(feature = "std")]
    pub fn wait(self) -> Result<BulkheadPermit<B>, <B::Target as Slotted>::Refusal> {
        let limit = self.limit?;
        let ticket = match limit.enter(&self.wish) {
            Ok(ticket) => ticket,
            Err(_) => wait_in_queue(&*limit, self.wish)?,
        };
        Ok(BulkheadPermit::of_slot(limit, ticket))
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

#[cfg(feature = "std")]
#[cold]
fn wait_in_queue<L: Slotted + ?Sized>(limit: &L, mut wish: L::Wish) -> Result<L::Ticket, L::Refusal> {
    let parker = Parker::of_this_thread();
    // The wake-ups are counted before each check, so that none is lost between a check and the wait.
    let mut seen = parker.wake_ups();
    let Queued { place, displaced } = match limit.join(&mut wish, parker.waker())? {
        Entry::Entered(ticket) => return Ok(ticket),
        Entry::Queued(queued) => queued,
    };
    let stay = Stay { limit, place };
    displaced.into_iter().for_each(Waker::wake);
    loop {
        parker.wait(seen, limit.remaining(&wish));
        seen = parker.wake_ups();
        if let Some(fate) = limit.look(place, &wish, parker.waker()) {
            core::mem::forget(stay);
            return fate;
        }
    }
}

/// Waits in a future that sleeps by tokio's timer, if its wait has an end.
///
/// # Panics
///
/// If polled outside of a tokio runtime whose timer is enabled, once it has to wait and its wait has an end. Elsewhere:
/// [`sleeping_by`](AcquirePermit::sleeping_by).
#[cfg(feature = "tokio")]
impl<B: SlotRef> IntoFuture for AcquirePermit<B> {
    type Output = Result<BulkheadPermit<B>, <B::Target as Slotted>::Refusal>;
    type IntoFuture = AcquirePermitFuture<B, TokioSleep>;

    fn into_future(self) -> Self::IntoFuture {
        self.sleeping_by(TokioSleep)
    }
}

impl<B: SlotRef> fmt::Debug for AcquirePermit<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquirePermit").field("limit", &self.limit.as_deref().ok()).field("wish", &self.wish).finish()
    }
}

/// The longest wait of a call: a time from its arrival in the queue, an instant, both or neither.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    pub(crate) longest: Option<Duration>,
    pub(crate) until: Option<Expiry>,
}

impl Patience {
    /// Waits until then at most.
    pub(crate) fn wait_until(&mut self, until: Expiry) {
        self.until = Some(self.until.map_or(until, |earlier| earlier.earlier(until)));
    }

    /// Begins the wait now, and returns its end; `None` if it has none.
    pub(crate) fn begin(&mut self, clock: &impl QueueClock) -> Option<Expiry> {
        if let Some(longest) = self.longest.take() {
            self.wait_until(Expiry::after(longest, clock));
        }
        self.until
    }

    /// Returns whether the end has passed at this tick.
    pub(crate) fn has_passed(&self, now: u64) -> bool {
        self.until.is_some_and(|until| until.has_passed(now))
    }

    /// Returns the time until the end of a wait that has begun.
    pub(crate) fn remaining(&self, clock: &impl QueueClock) -> Option<Duration> {
        self.until.map(|until| until.remaining(clock))
    }
}
