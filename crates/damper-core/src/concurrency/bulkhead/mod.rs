//! The bulkhead: a limit on the calls in flight.

// | file | type |
// |---|---|
// | here | `Bulkhead`: constructors, permits, the limit |
// | `arrivals` | `Arrivals`: the order in which its queue is served |
// | `permit` | `BulkheadPermit`, `BulkheadRef` |
// | `acquire` | `PermitRequest`: how to wait for a permit; and blocking; `Patience`: the longest wait of a call |
// | `future` | `PermitFuture`: waiting in a future |
// | `status` | `BulkheadStatus`: the limit and the counts of one moment |
// | `error` | `BulkheadFull` |
// | `in_flight` | a bulkhead in a `LimitSet`, and `LimitSetRefusal` |

#[cfg(feature = "alloc")]
mod acquire;
#[cfg(feature = "alloc")]
mod arrivals;
mod error;
#[cfg(feature = "alloc")]
mod future;
mod in_flight;
pub(super) mod permit;
mod status;

#[cfg(feature = "alloc")]
pub(crate) use acquire::Patience;
#[cfg(feature = "alloc")]
pub(crate) use acquire::PermitRequest;
#[cfg(feature = "alloc")]
pub(super) use arrivals::{Arrivals, Order};
pub use error::BulkheadFull;
#[cfg(feature = "alloc")]
pub(crate) use future::PermitFuture;
pub use in_flight::LimitSetRefusal;
pub use permit::BulkheadPermit;
#[cfg(feature = "alloc")]
pub(crate) use permit::BulkheadRef;
pub use status::BulkheadStatus;

use crate::CallError;
#[cfg(feature = "alloc")]
use crate::acquire::{Acquire, awaited};
use crate::concurrency::RefusalCause;
#[cfg(feature = "alloc")]
use crate::concurrency::queue::{Cause, Expiry, Fate, Full, Moment, Place, Queue, SlotQueue};
use crate::concurrency::slots::Slots;
use crate::sync::const_unless_loom;
#[cfg(not(feature = "std"))]
use crate::time::NoClock;
use crate::time::{Clock, DefaultClock};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;
use core::fmt;
#[cfg(feature = "alloc")]
use core::task::Waker;
#[cfg(feature = "alloc")]
use core::time::Duration;
#[cfg(feature = "alloc")]
use permit::sealed::Entry;
use permit::sealed::{QueueClock, Slotted};

/// Limits how many calls are in flight at once.
///
/// Each call takes a permit first, and drops it when it has ended. There are never more permits than the limit. The service
/// behind the bulkhead, such as a pool of connections, gets no more calls than it can take. While it stalls, it holds up no more
/// threads, tasks and memory than that.
///
/// A call that finds no slot free is refused, or waits in a [`queue`](Self::queue) of a length that you set. There is none by
/// default, so [`acquire`](Self::acquire) refuses at once. The queue is served in the order of arrival, [or the newest
/// first](Self::newest_first), and newcomers never overtake it. A short queue evens out bursts; in a long one, calls time out
/// that could have been refused at once.
///
/// If a waker panics, no slot is lost, and the calls behind it are woken while the panic unwinds. If another of these wakers
/// panics too, the process aborts, as for any panic in a drop during unwinding.
///
/// Share it by reference, in a `static` (with a queue, in a `LazyLock`) or an `Arc`. While no call waits, taking a permit is one
/// compare-and-swap, and dropping it another. Nothing is allocated after the construction of the queue, except by the first
/// [`wait`](crate::Acquire::wait) of each thread.
///
/// # Memory ordering
///
/// Everything done before a permit is dropped happens before everything done under the permit that takes its slot.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::{Bulkhead, BulkheadFull};
///
/// static POOL: Bulkhead = Bulkhead::new(64);
///
/// let permit = POOL.try_acquire()?;
/// assert_eq!(POOL.in_flight(), 1);
/// drop(permit);
/// assert_eq!(POOL.in_flight(), 0);
///
/// let answer = POOL.call(|| "42".parse::<u32>()); // a permit for as long as the call takes
/// assert_eq!(answer, Ok(42));
/// # }
/// # Ok::<(), damper::BulkheadFull>(())
/// ```
pub struct Bulkhead<C = DefaultClock> {
    slots: Slots,
    #[cfg(feature = "alloc")]
    queue: SlotQueue<Arrivals>,
    clock: C,
}

/// The clock of a bulkhead that is created without one.
#[cfg(feature = "std")]
const DEFAULT_CLOCK: DefaultClock = crate::time::Monotonic;
#[cfg(not(feature = "std"))]
const DEFAULT_CLOCK: DefaultClock = NoClock;

impl Bulkhead {
    const_unless_loom! {
        /// Creates a bulkhead for `limit` calls in flight, without a queue.
        ///
        /// At most 2^24 - 1 calls (16,777,215): a higher limit counts as that. A limit of 0 refuses all calls; with a
        /// [`queue`](Self::queue) they wait until it is raised.
        #[must_use]
        pub const fn new(limit: u32) -> Self {
            Self::on_clock(limit, DEFAULT_CLOCK)
        }
    }
}

impl<C> Bulkhead<C> {
    const_unless_loom! {
        const fn on_clock(limit: u32, clock: C) -> Self {
            Self {
                slots: Slots::new(limit),
                #[cfg(feature = "alloc")]
                queue: SlotQueue::empty(Arrivals::served(Order::OldestFirst)),
                clock,
            }
        }
    }

    /// Returns the limit in force, in calls in flight.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.slots.load().limit()
    }

    /// Returns the number of permits. It exceeds the limit only after the limit was lowered.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.slots.load().in_flight()
    }

    /// Returns how many calls wait in the queue.
    #[must_use]
    pub fn queued(&self) -> u32 {
        self.slots.load().queued()
    }

    /// Returns the limit and both counts, of one moment. Changes nothing.
    #[must_use]
    pub fn status(&self) -> BulkheadStatus {
        BulkheadStatus::new(self.slots.load())
    }

    /// Returns how many calls may wait in the queue.
    #[must_use]
    #[cfg(feature = "alloc")]
    pub fn places(&self) -> u16 {
        self.queue.places()
    }

    /// Returns how many calls have joined the queue so far. Takes the queue's lock for a moment.
    #[must_use]
    #[cfg(feature = "alloc")]
    pub fn total_queued(&self) -> u64 {
        self.queue.read(Queue::total)
    }

    #[inline]
    pub(in crate::concurrency) const fn clock(&self) -> &C {
        &self.clock
    }
}

impl<C: Clock> Bulkhead<C> {
    const_unless_loom! {
        /// Creates a bulkhead as [`new`](Bulkhead::new) does, on a clock of your own, which times the waits.
        ///
        /// A reference to a clock is a clock too.
        #[must_use]
        pub const fn with_clock(limit: u32, clock: C) -> Self {
            Self::on_clock(limit, clock)
        }
    }

    /// Gives the bulkhead a queue of `places` places. Default: none.
    ///
    /// Without a queue, [`acquire`](Self::acquire) never waits. [`set_queue`](Self::set_queue) changes it later.
    ///
    /// A call has its place until [`acquire`](Self::acquire) returns. The places are allocated here, 52 bytes each on targets of
    /// 64 bits, so a bulkhead with a queue is a `static` in a `LazyLock`:
    /// `static POOL: LazyLock<Bulkhead> = LazyLock::new(|| Bulkhead::new(64).queue(16));`.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use core::time::Duration;
    /// use damper::Bulkhead;
    /// use damper::concurrency::RefusalCause;
    ///
    /// let pool = Bulkhead::new(1).queue(16);
    /// let permit = pool.acquire().wait()?;
    /// let full = pool.acquire().within(Duration::from_millis(5)).wait().unwrap_err();
    /// assert_eq!(full.cause(), RefusalCause::TimedOut);
    /// # drop(permit);
    /// # }
    /// # Ok::<(), damper::BulkheadFull>(())
    /// ```
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn queue(self, places: u16) -> Self {
        Self { queue: self.queue.with_places(places), ..self }
    }

    /// Changes the number of places of the queue while the bulkhead is in use.
    ///
    /// More places are allocated here, and never freed. With fewer, queued calls keep theirs and no other joins until enough of them have
    /// left. A queue served [newest first](Self::newest_first) refuses those that have waited longest instead. With 0, calls are refused at
    /// once.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use core::time::Duration;
    /// use damper::Bulkhead;
    /// use damper::concurrency::RefusalCause;
    ///
    /// let pool = Bulkhead::new(1).queue(16);
    /// let permit = pool.acquire().wait()?;
    /// pool.set_queue(0);
    /// let full = pool.acquire().within(Duration::from_secs(5)).wait().unwrap_err();
    /// assert_eq!(full.cause(), RefusalCause::NoQueue); // at once
    /// # drop(permit);
    /// # }
    /// # Ok::<(), damper::BulkheadFull>(())
    /// ```
    #[cfg(feature = "alloc")]
    pub fn set_queue(&self, places: u16) {
        self.queue.set_places(&self.slots, self.now(), places);
    }

    /// Serves the queue newest first. Call it before the first use. Default: oldest first.
    ///
    /// If the queue is full, a newcomer takes the place of the call that has waited longest, which is refused. Under a lasting
    /// overload a call is then served soon or not at all. In the order of arrival all calls would wait for about as long as their
    /// callers have patience.
    ///
    /// A call that has been granted its slot keeps its place until [`acquire`](Self::acquire) returns. If all places belong to
    /// such calls, a newcomer is refused.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn newest_first(self) -> Self {
        self.queue.set(|queue| queue.waiting.order = Order::NewestFirst);
        self
    }
}

impl<C: QueueClock> Bulkhead<C> {
    /// Takes a permit if a slot is free and no call waits for it. Never waits, locks or allocates.
    ///
    /// # Errors
    ///
    /// [`BulkheadFull`] if there is none.
    #[inline]
    pub fn try_acquire(&self) -> Result<BulkheadPermit<&Self>, BulkheadFull> {
        self.take()?;
        Ok(BulkheadPermit::of_slot(self, ()))
    }

    /// Takes a permit as [`try_acquire`](Self::try_acquire) does, with its own reference to the bulkhead.
    ///
    /// The permit can outlive the borrow, as a response body or a spawned task needs.
    ///
    /// # Errors
    ///
    /// [`BulkheadFull`] if there is none.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    #[inline]
    pub fn try_acquire_owned(self: &Arc<Self>) -> Result<BulkheadPermit<Arc<Self>>, BulkheadFull> {
        self.take()?;
        Ok(BulkheadPermit::of_slot(Arc::clone(self), ()))
    }

    /// Makes one call if a slot is free and no call waits for it.
    ///
    /// The slot is held until the call has ended, also by a panic.
    ///
    /// Never waits, whether or not there is a queue: to wait, take a permit by [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the call was not made, [`CallError::Failed`] with its error if it was.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::{Bulkhead, CallError};
    ///
    /// let pool = Bulkhead::new(1);
    /// assert_eq!(pool.call(|| "42".parse::<u32>()), Ok(42));
    ///
    /// let _permit = pool.try_acquire()?;
    /// match pool.call(|| "42".parse::<u32>()) {
    ///     Err(CallError::Refused(full)) => assert_eq!(full.to_string(), "too many calls in flight, limit 1"),
    ///     result => panic!("{result:?}"),
    /// }
    /// # }
    /// # Ok::<(), damper::BulkheadFull>(())
    /// ```
    #[inline]
    pub fn call<T, E>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E, BulkheadFull>> {
        let _permit = self.try_acquire()?;
        call().map_err(CallError::Failed)
    }

    /// Awaits a future if a slot is free and no call waits for it.
    ///
    /// The slot is held until the future has ended or is dropped.
    ///
    /// The slot is taken when the returned future is first polled. It never waits for one, as [`call`](Self::call). A future that
    /// works before it is polled, such as a spawned task, is not held back; give an `async` block.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the future was not polled, [`CallError::Failed`] with its error if it was.
    pub async fn run<T, E>(&self, future: impl Future<Output = Result<T, E>>) -> Result<T, CallError<E, BulkheadFull>> {
        let _permit = self.try_acquire()?;
        future.await.map_err(CallError::Failed)
    }

    /// Changes the limit while the bulkhead is in use. At most 2^24 - 1, as for [`new`](Bulkhead::new).
    ///
    /// A higher limit admits queued calls at once. Under a lower one calls in flight go on, and no other begins until enough of
    /// them have ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// let pool = damper::Bulkhead::new(1);
    /// let first = pool.try_acquire()?;
    /// pool.set_limit(2);
    /// let second = pool.try_acquire()?;
    /// pool.set_limit(1);
    /// drop(first);
    /// assert!(pool.try_acquire().is_err());
    /// # drop(second);
    /// # }
    /// # Ok::<(), damper::BulkheadFull>(())
    /// ```
    pub fn set_limit(&self, limit: u32) {
        #[cfg(feature = "alloc")]
        self.queue.settle(&self.slots, || self.now(), |occupancy| occupancy.limited_to(limit));
        #[cfg(not(feature = "alloc"))]
        self.slots.set_limit(limit);
    }

    /// Takes a slot, and returns how many calls are in flight with it.
    #[inline]
    pub(in crate::concurrency) fn take(&self) -> Result<u32, BulkheadFull> {
        self.slots.take().map_err(|occupancy| BulkheadFull::new(occupancy.limit(), RefusalCause::NoSlot))
    }

    /// Returns the refusal that [`take`](Self::take) would give now, if any. Writes nothing.
    pub(crate) fn refusal(&self) -> Option<BulkheadFull> {
        // A set then reads its limits, with an Acquire fence in each. After this load that pairs with the Release of
        // `Slots::give_back`: a call that finds a slot free finds the tokens that were settled before it was freed.
        // loom-tests: settling::next_call_finds_settled_tokens.
        let occupancy = self.slots.load();
        (!occupancy.has_room()).then(|| BulkheadFull::new(occupancy.limit(), RefusalCause::NoSlot))
    }
}

#[cfg(feature = "alloc")]
impl<C: Clock> Bulkhead<C> {
    /// Waits for a permit, in the [`queue`](Self::queue).
    ///
    /// `pool.acquire().wait()?` blocks the thread, and `pool.acquire().await?` does not.
    /// [`within`](crate::Acquire::within) and [`by`](crate::Acquire::by) bound the wait. Without a queue it never
    /// waits: a call that finds no slot free is refused at once, with [`RefusalCause::NoQueue`].
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "tokio")] {
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn run() -> Result<(), damper::BulkheadFull> {
    /// use core::time::Duration;
    /// use damper::Bulkhead;
    ///
    /// let pool = Bulkhead::new(64).queue(16);
    /// let permit = pool.acquire().within(Duration::from_millis(100)).await?;
    /// # drop(permit);
    /// # Ok(())
    /// # }
    /// # run().unwrap(); }
    /// ```
    pub fn acquire(&self) -> Acquire<&Self> {
        Acquire::new(PermitRequest::of(Ok(self)))
    }

    /// Waits as [`acquire`](Self::acquire) does, for a permit with its own reference to the bulkhead.
    #[cfg(target_has_atomic = "ptr")]
    pub fn acquire_owned(self: &Arc<Self>) -> Acquire<Arc<Self>> {
        Acquire::new(PermitRequest::of(Ok(Arc::clone(self))))
    }
}

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
impl<C: Clone> Bulkhead<C> {
    /// Returns an unused bulkhead with the settings of this one.
    pub(in crate::concurrency) fn alike(&self) -> Self {
        let queue = SlotQueue::empty(Arrivals::served(self.queue.read(|queue| queue.waiting.order)));
        Self { slots: Slots::new(self.limit()), queue: queue.with_places(self.places()), clock: self.clock.clone() }
    }
}

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
impl<C: Clock> Bulkhead<C> {
    /// Takes over the number of places of another bulkhead's queue.
    pub(in crate::concurrency) fn take_queue_of(&self, other: &Self) {
        let places = other.places();
        if self.places() != places {
            self.set_queue(places);
        }
    }
}

#[cfg(feature = "alloc")]
impl<C: QueueClock> Bulkhead<C> {
    fn full(&self, cause: RefusalCause) -> BulkheadFull {
        BulkheadFull::new(self.limit(), cause)
    }

    fn now(&self) -> Moment {
        Moment { now: self.clock.tick(), needed: 0 }
    }
}

#[cfg(feature = "alloc")]
awaited!([C: QueueClock] Bulkhead<C>, PermitRequest);

impl<C: QueueClock> Slotted for Bulkhead<C> {
    type Ticket = ();

    #[cfg(feature = "alloc")]
    type Wish = Patience;

    #[cfg(feature = "alloc")]
    type Refusal = BulkheadFull;

    #[inline]
    fn release(&self) {
        #[cfg(feature = "alloc")]
        self.queue.release(&self.slots, || self.now());
        // Without a queue no call is queued.
        #[cfg(not(feature = "alloc"))]
        let _freed = self.slots.give_back();
    }

    #[cfg(feature = "alloc")]
    #[inline]
    fn enter(&self, _: &Patience) -> Result<(), BulkheadFull> {
        self.take().map(|_| ())
    }

    #[cfg(feature = "alloc")]
    fn join(&self, patience: &mut Patience, waker: Waker) -> Result<Entry<()>, BulkheadFull> {
        if self.places() == 0 {
            return Err(self.full(RefusalCause::NoQueue));
        }
        let (expiry, moment) = (patience.begin(&self.clock), self.now());
        if expiry.is_some_and(|expiry| expiry.has_passed(moment.now)) {
            return Err(self.full(RefusalCause::TimedOut));
        }
        match self.queue.join(&self.slots, moment, |_| (), expiry, waker) {
            Ok(None) => Ok(Entry::Entered(())),
            Ok(Some(queued)) => Ok(Entry::Queued(queued)),
            Err(Full::NoQueue) => Err(self.full(RefusalCause::NoQueue)),
            Err(Full::NoVictim) => Err(self.full(RefusalCause::QueueFull)),
        }
    }

    #[cfg(feature = "alloc")]
    fn look(&self, place: Place, patience: &Patience, waker: Waker) -> Option<Result<(), BulkheadFull>> {
        let moment = self.now();
        let cause = match self.queue.look(&self.slots, moment, place, false, waker)? {
            Fate::Granted => return Some(Ok(())),
            Fate::Refused(Some(Cause::Late)) | Fate::Waiting => RefusalCause::TimedOut,
            // Another call has the place by now. The present cause is the likely one.
            Fate::Refused(None) if patience.has_passed(moment.now) => RefusalCause::TimedOut,
            Fate::Refused(Some(Cause::Displaced) | None) => RefusalCause::Displaced,
        };
        Some(Err(self.full(cause)))
    }

    #[cfg(feature = "alloc")]
    fn leave(&self, place: Place) {
        self.queue.leave(&self.slots, self.now(), place);
    }

    #[cfg(feature = "alloc")]
    fn limit(&self) -> u32 {
        Bulkhead::limit(self)
    }

    #[cfg(feature = "alloc")]
    fn expiry_after(&self, wait: Duration) -> Expiry {
        Expiry::after(wait, &self.clock)
    }

    #[cfg(feature = "alloc")]
    fn remaining(&self, patience: &Patience) -> Option<Duration> {
        patience.remaining(&self.clock)
    }
}

impl<C> fmt::Debug for Bulkhead<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let occupancy = self.slots.load();
        f.debug_struct("Bulkhead")
            .field("limit", &occupancy.limit())
            .field("in_flight", &occupancy.in_flight())
            .field("queued", &occupancy.queued())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This bulkhead has no queue, as in firmware, and the test runs with each set of features.
    #[test]
    fn bulkhead_needs_neither_clock_nor_allocator() {
        static POOL: Bulkhead = Bulkhead::new(1);
        let permit = POOL.try_acquire().unwrap();
        assert_eq!(POOL.try_acquire().unwrap_err(), BulkheadFull::new(1, RefusalCause::NoSlot));
        POOL.set_limit(2);
        drop((POOL.try_acquire().unwrap(), permit));
        assert_eq!((POOL.limit(), POOL.in_flight(), POOL.queued()), (2, 0, 0));
    }
}
