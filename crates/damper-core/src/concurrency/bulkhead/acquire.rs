//! How to wait for a permit, and how long.

#[cfg(feature = "std")]
use super::permit::sealed::Entry;
use super::permit::sealed::{QueueClock, SlotRef, Slotted};
use super::{BulkheadFull, BulkheadPermit, BulkheadRef, PermitFuture};
use crate::Deadline;
use crate::acquire::{By, Wait, Within};
use crate::concurrency::RefusalCause;
use crate::concurrency::queue::Expiry;
#[cfg(feature = "std")]
use crate::concurrency::queue::{Place, Queued};
#[cfg(feature = "std")]
use crate::sync::Parker;
use crate::time::{Clock, Sleep};
use core::fmt;
#[cfg(feature = "std")]
use core::task::Waker;
use core::time::Duration;

/// A wait for a permit that has not begun.
///
/// A call that finds a slot free takes it, even if its time is over. Otherwise it waits in the queue.
#[cfg(feature = "alloc")]
pub struct PermitRequest<B: SlotRef> {
    /// The refusal is that of a key without a limit.
    pub(super) limit: Result<B, <B::Target as Slotted>::Refusal>,
    pub(super) wish: <B::Target as Slotted>::Wish,
}

impl<B: SlotRef> PermitRequest<B> {
    pub(in crate::concurrency) fn new(
        limit: Result<B, <B::Target as Slotted>::Refusal>,
        wish: <B::Target as Slotted>::Wish,
    ) -> Self {
        Self { limit, wish }
    }
}

impl<B: BulkheadRef> Within for PermitRequest<B> {
    fn set_longest(&mut self, longest: Duration) {
        self.wish.longest = Some(longest);
    }
}

impl<B: BulkheadRef> By for PermitRequest<B> {
    fn set_deadline<C: Clock>(&mut self, deadline: &Deadline<C>) {
        if let Ok(limit) = &self.limit {
            self.wish.wait_until(limit.expiry_after(deadline.remaining()));
        }
    }
}

impl<B: BulkheadRef> PermitRequest<B> {
    pub(in crate::concurrency) fn of(limit: Result<B, BulkheadFull>) -> Self {
        Self::new(limit, Patience::default())
    }

    /// Returns the refusal of a call whose time to wait is over.
    pub(crate) fn timed_out(&self) -> BulkheadFull {
        match &self.limit {
            Ok(limit) => BulkheadFull::new(limit.limit(), RefusalCause::TimedOut),
            Err(full) => *full,
        }
    }
}

impl<B: SlotRef> Wait for PermitRequest<B> {
    type Output = Result<BulkheadPermit<B>, <B::Target as Slotted>::Refusal>;
    type Future<S: Sleep> = PermitFuture<B, S>;

    fn sleeping_by<S: Sleep>(self, sleep: S) -> PermitFuture<B, S> {
        PermitFuture::new(self, sleep)
    }

    #[cfg(feature = "std")]
    fn wait(self) -> Self::Output {
        let limit = self.limit?;
        let ticket = match limit.enter(&self.wish) {
            Ok(ticket) => ticket,
            Err(_) => wait_in_queue(&*limit, self.wish)?,
        };
        Ok(BulkheadPermit::of_slot(limit, ticket))
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

impl<B: SlotRef> fmt::Debug for PermitRequest<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermitRequest").field("limit", &self.limit.as_deref().ok()).field("wish", &self.wish).finish()
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
