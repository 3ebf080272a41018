//! The permit to make one call.

#[cfg(feature = "alloc")]
use super::{BulkheadFull, Patience};
use crate::concurrency::Outcome;
use core::fmt;
use core::ops::Deref;
use core::time::Duration;

/// A pointer to a limit with slots that a [`BulkheadPermit`] can hold.
///
/// `&Bulkhead`, `Arc<Bulkhead>` where the permit has to outlive the borrow, or the same of an
/// [`AdaptiveLimit`](crate::concurrency::AdaptiveLimit).
#[cfg(feature = "alloc")]
pub trait BulkheadRef: Deref<Target: sealed::Slotted<Wish = Patience, Refusal = BulkheadFull>> {}

#[cfg(feature = "alloc")]
impl<B: Deref<Target: sealed::Slotted<Wish = Patience, Refusal = BulkheadFull>>> BulkheadRef for B {}

pub(crate) mod sealed {
    use crate::concurrency::Outcome;
    #[cfg(feature = "alloc")]
    use crate::concurrency::queue::{Expiry, Place, Queued};
    use crate::time::Clock;
    use core::fmt;
    use core::ops::Deref;
    #[cfg(feature = "alloc")]
    use core::task::Waker;
    use core::time::Duration;

    /// The result of a call's arrival.
    #[cfg(feature = "alloc")]
    #[derive(Debug)]
    pub enum Entry<T> {
        /// The call has a slot.
        Entered(T),
        /// The call has a place in the queue.
        Queued(Queued),
    }

    /// A clock, or none where no call waits.
    pub trait QueueClock {
        fn tick(&self) -> u64;
        fn frequency(&self) -> u64;
    }

    impl<C: Clock> QueueClock for C {
        fn tick(&self) -> u64 {
            self.now()
        }

        fn frequency(&self) -> u64 {
            Clock::frequency(self)
        }
    }

    #[cfg(not(feature = "std"))]
    impl QueueClock for crate::time::NoClock {
        fn tick(&self) -> u64 {
            0
        }

        fn frequency(&self) -> u64 {
            0
        }
    }

    /// The methods of a limit with slots, for its permits and for calls that wait for one.
    pub trait Slotted: fmt::Debug {
        /// The properties of a call that its permit knows: when it began, when it has to end, or none.
        type Ticket: Copy + fmt::Debug + Send + Sync + Unpin + 'static;

        /// The request of a call that may wait.
        #[cfg(feature = "alloc")]
        type Wish: fmt::Debug + Send + Sync + Unpin + 'static;

        #[cfg(feature = "alloc")]
        type Refusal: Send + Sync + Unpin + 'static;

        /// Frees the slot of a permit.
        fn release(&self);

        /// Takes a slot, if one is free and no call waits for it.
        #[cfg(feature = "alloc")]
        fn enter(&self, wish: &Self::Wish) -> Result<Self::Ticket, Self::Refusal>;

        /// Takes a slot, or a place in the queue where `waker` wakes the call. Its wait begins now.
        ///
        /// The caller wakes the call that it displaced.
        #[cfg(feature = "alloc")]
        fn join(&self, wish: &mut Self::Wish, waker: Waker) -> Result<Entry<Self::Ticket>, Self::Refusal>;

        /// Returns the fate of a queued call; `None` if it still waits.
        ///
        /// A call that still waits is woken by `waker`. If a waker panics, the call's slot is freed.
        #[cfg(feature = "alloc")]
        fn look(&self, place: Place, wish: &Self::Wish, waker: Waker) -> Option<Result<Self::Ticket, Self::Refusal>>;

        /// Removes a call from the queue. If it has got a slot, that is freed.
        #[cfg(feature = "alloc")]
        fn leave(&self, place: Place);

        /// Returns the limit in force.
        #[cfg(feature = "alloc")]
        fn limit(&self) -> u32;

        /// Returns the end of a wait that begins now.
        #[cfg(feature = "alloc")]
        fn expiry_after(&self, wait: Duration) -> Expiry;

        /// Returns the time after which a queued call has to look again; `None` if it may wait for ever.
        #[cfg(feature = "alloc")]
        fn remaining(&self, wish: &Self::Wish) -> Option<Duration>;
    }

    /// A pointer to a limit with slots.
    pub trait SlotRef: Deref<Target: Slotted> {}

    impl<L: Deref<Target: Slotted>> SlotRef for L {}

    /// A limit that learns from the calls under its permits.
    pub trait Learning: Slotted {
        /// Records the outcome of a call.
        fn record(&self, ticket: Self::Ticket, outcome: Outcome);

        /// Returns how long calls take without overload, once that is known.
        fn usual_latency(&self) -> Option<Duration>;
    }
}

use sealed::{Learning, SlotRef, Slotted};

/// The permit to make one call, which holds a slot until it is dropped.
///
/// The slot is that of a [`Bulkhead`](super::Bulkhead), an [`AdaptiveLimit`](crate::concurrency::AdaptiveLimit) or an
/// [`Admission`](crate::concurrency::Admission). The latter two learn from the outcome that the caller records on it. A dropped
/// permit records none.
///
/// Keep it for as long as the call takes, including a response body that is still to come. A permit that is never dropped (by
/// [`core::mem::forget`], say) keeps its slot for good.
#[must_use = "a permit that is dropped at once frees its slot"]
pub struct BulkheadPermit<B: SlotRef> {
    limit: B,
    ticket: <B::Target as Slotted>::Ticket,
}

impl<B: SlotRef> BulkheadPermit<B> {
    /// Returns the permit for a slot that was taken.
    #[inline]
    pub(in crate::concurrency) fn of_slot(limit: B, ticket: <B::Target as Slotted>::Ticket) -> Self {
        Self { limit, ticket }
    }

    /// Returns the limit that gave the permit, and the permit's ticket.
    #[inline]
    pub(in crate::concurrency) fn parts(&self) -> (&B::Target, <B::Target as Slotted>::Ticket) {
        (&self.limit, self.ticket)
    }
}

/// These methods are for the permit of a limit that learns.
impl<B: Deref<Target: Learning>> BulkheadPermit<B> {
    /// Records that the service did its work: the time since the permit was taken counts.
    #[inline]
    pub fn success(self) {
        self.record(Outcome::Success);
    }

    /// Records that the service refused the call because it is overloaded, or that the call timed out.
    ///
    /// If that happens to more than a tenth of the calls beyond the usual share, and the limit is reached, it shrinks.
    #[inline]
    pub fn overloaded(self) {
        self.record(Outcome::Overloaded);
    }

    /// Records nothing, as if the permit were dropped.
    #[inline]
    pub fn ignore(self) {
        self.record(Outcome::Ignored);
    }

    /// Records `outcome`.
    #[inline]
    pub fn record(self, outcome: Outcome) {
        self.record_early(outcome);
    }

    /// Records `outcome` now, while the call goes on: its slot stays taken until the permit is dropped.
    ///
    /// It is for a response whose body streams on: the time until now is the service's, and the rest is the reader's. Each
    /// recorded outcome counts as a call.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::AdaptiveLimit;
    /// use damper::concurrency::Outcome;
    ///
    /// let limit = AdaptiveLimit::default();
    /// let permit = limit.try_acquire()?;
    /// // The head of the response is there.
    /// permit.record_early(Outcome::Success);
    /// assert_eq!(limit.in_flight(), 1);
    /// // The body has been read.
    /// drop(permit);
    /// assert_eq!(limit.in_flight(), 0);
    /// # }
    /// # Ok::<(), damper::BulkheadFull>(())
    /// ```
    #[inline]
    pub fn record_early(&self, outcome: Outcome) {
        self.limit.record(self.ticket, outcome);
    }

    /// Returns how long calls take without overload, once that is known.
    pub(crate) fn usual_latency(&self) -> Option<Duration> {
        self.limit.usual_latency()
    }
}

impl<B: SlotRef> Drop for BulkheadPermit<B> {
    #[inline]
    fn drop(&mut self) {
        self.limit.release();
    }
}

impl<B: SlotRef> fmt::Debug for BulkheadPermit<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BulkheadPermit").field(&&*self.limit).finish()
    }
}
