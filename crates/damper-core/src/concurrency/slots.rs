//! The word of a bulkhead: its limit, the calls in flight and those queued, in one atomic.
//!
//! ```text
//!  63                40 39                16 15             0
//! |       LIMIT        |     IN FLIGHT      |     QUEUED     |
//! ```
//!
//! | field | bits | unit | |
//! |---|---|---|---|
//! | LIMIT | 24 | calls | the most in flight |
//! | IN FLIGHT | 24 | calls | above LIMIT only after that was lowered |
//! | QUEUED | 16 | calls | wait for a slot |
//!
//! All three have to be in one word. With the limit beside it, a caller could overtake a change of the limit and exceed it. With
//! the queue's counter beside it, a newcomer could overtake the queue, or a free slot could stay unused.
//!
//! A word with calls queued has no slot free: the swap that frees one gives it to a queued call. So while calls are queued, the
//! fast paths leave the word alone, and it changes only under the queue's lock. [`Slots`] does not use that lock: any thread may
//! call [`take`](Slots::take) and [`give_back`](Slots::give_back), but only its holder calls [`replace`](Slots::replace).

use crate::sync::{AtomicU64, Field, Ordering, SpinWait, const_unless_loom};

/// The slots of a bulkhead or an admission.
const QUEUED: Field = Field::lowest(16);
const IN_FLIGHT: Field = QUEUED.then(24);
const LIMIT: Field = IN_FLIGHT.then(24);
const _: () = assert!(LIMIT.end() == u64::BITS, "fields must tile the word");

/// One call in flight.
const ONE_IN_FLIGHT: u64 = IN_FLIGHT.put(1);

/// One call queued.
#[cfg(feature = "alloc")]
const ONE_QUEUED: u64 = QUEUED.put(1);

/// The highest limit: 2^24 - 1.
pub(crate) const MAX_LIMIT: u32 = LIMIT.max() as u32;

/// A reading of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Occupancy(u64);

impl Occupancy {
    /// Returns a word without calls, under this limit or [`MAX_LIMIT`], whichever is lower.
    const fn empty(limit: u32) -> Self {
        Self(LIMIT.put(if limit > MAX_LIMIT { MAX_LIMIT } else { limit } as u64))
    }

    #[inline]
    pub(crate) const fn limit(self) -> u32 {
        LIMIT.get(self.0) as u32
    }

    #[inline]
    pub(crate) const fn in_flight(self) -> u32 {
        IN_FLIGHT.get(self.0) as u32
    }

    #[inline]
    pub(crate) const fn queued(self) -> u32 {
        QUEUED.get(self.0) as u32
    }

    /// Returns whether a slot is free for a newcomer, which implies that no call waits for it.
    #[inline]
    pub(crate) const fn has_room(self) -> bool {
        self.in_flight() < self.limit()
    }

    /// Returns whether a slot is free for a queued call.
    #[cfg(feature = "alloc")]
    pub(crate) const fn has_slot_for_queued(self) -> bool {
        self.queued() > 0 && self.in_flight() < self.limit()
    }

    /// Returns the word with one more call in flight. There must be fewer than the limit.
    #[inline]
    pub(crate) const fn entered(self) -> Self {
        Self(self.0 + ONE_IN_FLIGHT)
    }

    /// Returns the word with one call fewer in flight. There must be one.
    #[inline]
    pub(crate) const fn left(self) -> Self {
        Self(self.0 - ONE_IN_FLIGHT)
    }

    /// Returns the word with one more call queued. There must be fewer than 2^16 - 1.
    #[cfg(feature = "alloc")]
    pub(crate) const fn joined(self) -> Self {
        Self(self.0 + ONE_QUEUED)
    }

    /// Returns the word with one call fewer queued. There must be one.
    #[cfg(feature = "alloc")]
    pub(crate) const fn dequeued(self) -> Self {
        Self(self.0 - ONE_QUEUED)
    }

    /// Returns the word with this limit, or [`MAX_LIMIT`] if that is lower.
    pub(crate) const fn limited_to(self, limit: u32) -> Self {
        Self(Self::empty(limit).0 | IN_FLIGHT.put(self.in_flight() as u64) | QUEUED.put(self.queued() as u64))
    }
}

/// The atomic word.
#[derive(Debug)]
pub(crate) struct Slots(AtomicU64);

impl Slots {
    const_unless_loom! {
        /// Creates a word with `limit` free slots, at most [`MAX_LIMIT`].
        pub(crate) const fn new(limit: u32) -> Self {
            Self(AtomicU64::new(Occupancy::empty(limit).0))
        }
    }

    #[inline]
    pub(crate) fn load(&self) -> Occupancy {
        // ORDERING: Relaxed: the value is only shown, or compared by a swap that has the ordering.
        Occupancy(self.0.load(Ordering::Relaxed))
    }

    /// Takes a slot if there is room, and returns how many calls are in flight with this one.
    ///
    /// # Errors
    ///
    /// The reading that had no room.
    #[inline]
    pub(crate) fn take(&self) -> Result<u32, Occupancy> {
        let spin_wait = SpinWait::new();
        let mut current = self.load();
        while current.has_room() {
            let next = current.entered();
            // ORDERING: Acquire pairs with the Release of the swap that freed a slot, in `give_back` or `replace`: the caller
            // sees everything done under the slot's last permit. All swaps of the word continue those release sequences.
            // loom-tests: bulkhead::permit_sees_what_was_done_under_the_one_before.
            match self.0.compare_exchange_weak(current.0, next.0, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(next.in_flight()),
                Err(newer) => current = Occupancy(newer),
            }
            spin_wait.spin();
        }
        Err(current)
    }

    /// Frees a slot if no call is queued.
    ///
    /// # Errors
    ///
    /// The reading that had calls queued. The caller then frees the slot under the queue's lock, for one of them.
    #[inline]
    pub(crate) fn give_back(&self) -> Result<(), Occupancy> {
        let spin_wait = SpinWait::new();
        let mut current = self.load();
        while current.queued() == 0 {
            // ORDERING: Release pairs with the Acquire in `take` and `replace`. loom-tests:
            // bulkhead::permit_sees_what_was_done_under_the_one_before.
            match self.0.compare_exchange_weak(current.0, current.left().0, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(newer) => current = Occupancy(newer),
            }
            spin_wait.spin();
        }
        Err(current)
    }

    /// Changes the limit.
    #[cfg(not(feature = "alloc"))]
    pub(crate) fn set_limit(&self, limit: u32) {
        let mut current = self.load();
        while let Err(newer) = self.replace(current, current.limited_to(limit)) {
            current = newer;
        }
    }

    /// Swaps the word from `current` to `next`. With calls queued in `current` the swap succeeds.
    ///
    /// # Errors
    ///
    /// The word as it is now, if it is no longer `current`.
    pub(crate) fn replace(&self, current: Occupancy, next: Occupancy) -> Result<(), Occupancy> {
        // ORDERING: AcqRel, as in `take` and `give_back`: the holder of the queue's lock takes and frees slots at once.
        // loom-tests: bulkhead::queued_permit_sees_what_was_done_under_the_one_before.
        match self.0.compare_exchange(current.0, next.0, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(newer) => Err(Occupancy(newer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transition_changes_its_own_field_only() {
        let fields = |word: Occupancy| [word.limit(), word.in_flight(), word.queued()];
        let word = Occupancy::empty(7);
        assert_eq!(fields(word), [7, 0, 0]);
        assert_eq!(fields(word.entered().entered()), [7, 2, 0]);
        assert_eq!(fields(word.entered().entered().left()), [7, 1, 0]);
        assert_eq!(fields(word.limited_to(u32::MAX).entered()), [MAX_LIMIT, 1, 0]);
        #[cfg(feature = "alloc")]
        assert_eq!(fields(word.entered().joined().joined().dequeued().limited_to(0)), [0, 1, 1]);
    }

    #[test]
    fn newcomers_have_no_room_beside_queued_calls() {
        let slots = Slots::new(1);
        assert_eq!(slots.take(), Ok(1));
        let full = slots.take().unwrap_err();
        assert!(!full.has_room());
        slots.give_back().unwrap();
        assert_eq!(slots.take(), Ok(1));
        #[cfg(feature = "alloc")]
        {
            let queued = full.joined();
            slots.replace(full, queued).unwrap();
            assert_eq!((slots.give_back(), slots.take()), (Err(queued), Err(queued)));
            assert!(!queued.has_slot_for_queued() && queued.left().has_slot_for_queued());
        }
    }
}
