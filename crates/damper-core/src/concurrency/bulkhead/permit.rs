//! The permit to make one call.

use core::fmt;
use core::ops::Deref;

/// A pointer to a bulkhead that a [`BulkheadPermit`] can hold.
///
/// `&Bulkhead`, `Arc<Bulkhead>` where the permit has to outlive the borrow, or the same of an
/// [`AdaptiveLimit`](crate::concurrency::AdaptiveLimit).
pub trait BulkheadRef: Deref<Target: sealed::Slotted> {}

impl<B: Deref<Target: sealed::Slotted>> BulkheadRef for B {}

pub(crate) mod sealed {
    #[cfg(feature = "alloc")]
    use super::super::{BulkheadFull, patience::Patience};
    #[cfg(feature = "alloc")]
    use crate::concurrency::queue::{Expiry, Place, Queued};
    use crate::time::Clock;
    use core::fmt;
    #[cfg(feature = "alloc")]
    use core::task::Waker;
    #[cfg(feature = "alloc")]
    use core::time::Duration;

    /// The result of a call's arrival.
    #[cfg(feature = "alloc")]
    #[derive(Debug)]
    pub enum Entry {
        /// The call has a slot.
        Entered,
        /// The call has a place in the queue, and its wait this end.
        Queued(Queued, Option<Expiry>),
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

    /// The methods of a bulkhead for its permits and for calls that wait for one.
    pub trait Slotted: fmt::Debug {
        /// Marks the beginning of a permit: a time, or nothing.
        type Ticket: Copy + Send + Sync + Unpin + 'static;

        /// Returns the ticket of a call that has got its slot.
        fn ticket(&self) -> Self::Ticket;

        /// Frees the slot of a permit.
        fn release(&self);

        /// Returns the limit in force.
        #[cfg(feature = "alloc")]
        fn limit(&self) -> u32;

        /// Takes a slot, if one is free and no call waits for it.
        #[cfg(feature = "alloc")]
        fn enter(&self) -> Result<(), BulkheadFull>;

        /// Takes a slot, or a place in the queue where `waker` wakes the call.
        ///
        /// The caller wakes the call that it displaced.
        #[cfg(feature = "alloc")]
        fn join(&self, patience: Patience, waker: Waker) -> Result<Entry, BulkheadFull>;

        /// Returns the fate of a queued call with this `expiry`; `None` if it still waits.
        ///
        /// A call that still waits is woken by `waker`. If a waker panics, the call's slot is freed.
        #[cfg(feature = "alloc")]
        fn look(&self, place: Place, expiry: Option<Expiry>, waker: Waker) -> Option<Result<(), BulkheadFull>>;

        /// Removes a call from the queue. If it has got a slot, that is freed.
        #[cfg(feature = "alloc")]
        fn leave(&self, place: Place);

        /// Returns the end of a wait that begins now.
        #[cfg(feature = "alloc")]
        fn expiry_after(&self, wait: Duration) -> Expiry;

        /// Returns the time until `expiry`.
        #[cfg(feature = "alloc")]
        fn remaining(&self, expiry: Expiry) -> Duration;
    }
}

use sealed::Slotted;

/// The permit to make one call, which holds a slot until it is dropped.
///
/// The slot is that of a [`Bulkhead`](super::Bulkhead) or an [`AdaptiveLimit`](crate::concurrency::AdaptiveLimit).
///
/// Keep it for as long as the call takes, including a response body that is still to come. A permit that is never dropped (by
/// [`core::mem::forget`], say) keeps its slot for good.
#[must_use = "a permit that is dropped at once frees its slot"]
pub struct BulkheadPermit<B: BulkheadRef> {
    bulkhead: B,
    ticket: <B::Target as Slotted>::Ticket,
}

impl<B: BulkheadRef> BulkheadPermit<B> {
    /// Returns the permit for a slot that was taken.
    #[inline]
    pub(in crate::concurrency) fn of_slot(bulkhead: B) -> Self {
        let ticket = bulkhead.ticket();
        Self { bulkhead, ticket }
    }

    /// Returns the limit that gave the permit, and the permit's ticket.
    #[inline]
    pub(in crate::concurrency) fn parts(&self) -> (&B::Target, <B::Target as Slotted>::Ticket) {
        (&self.bulkhead, self.ticket)
    }
}

impl<B: BulkheadRef> Drop for BulkheadPermit<B> {
    #[inline]
    fn drop(&mut self) {
        self.bulkhead.release();
    }
}

impl<B: BulkheadRef> fmt::Debug for BulkheadPermit<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BulkheadPermit").field(&&*self.bulkhead).finish()
    }
}
