//! The last calls, up to thousands: a ring of outcomes, and a head.
//!
//! A record is one swap of the head. The swap counts the new outcome and no longer counts the one that it will replace. The head
//! carries the new outcome, and the next thread first writes that into the ring. So the head alone has the exact counts, and
//! other threads finish the write of a stopped thread.
//!
//! ```text
//! head  63        51 50    38 37  25      24 23 14 13    2 1    0
//!      | GENERATION | FAILED | SLOW | FILLING | LAP | INDEX | LAST |
//! word  63        48 47 38 37      32 31                       0
//!      | --         | LAP | WRITTEN  | OUTCOMES                 |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | head: LAST | 2 | the last outcome, which may not be in the ring yet |
//! | head: INDEX | 12 | of the next outcome |
//! | head: LAP | 10 | rounds of the ring, one more with every generation; wraps |
//! | head: FILLING | 1 | whether the ring is still to be filled in this generation |
//! | head: FAILED, SLOW | 13 each | of the calls in the window |
//! | head: GENERATION | 13 | in which they were recorded |
//! | word: OUTCOMES | 32 | of 32 calls, or of 16 where slow calls count |
//! | word: WRITTEN | 6 | how many of them were written in the lap |
//! | word: LAP | 10 | the lap in which it was written last |
//!
//! WRITTEN and LAP make every written word differ from those before it, so that the swap of a thread that was stopped fails.
//! (Unless meanwhile the ring went round a multiple of 1,024 times and got the same outcomes.)

use super::{Outcome, OutcomeCounts};
use crate::breaker::state_word::Generation;
use crate::sync::{AtomicU64, Field, LazyWords, Ordering, SpinWait, const_unless_loom, fence};

/// The head of a window of at most 4,096 calls.
const LAST: Field = Field::lowest(2);
const INDEX: Field = LAST.then(12);
const LAP: Field = INDEX.then(10);
const FILLING: Field = LAP.then(1);
const SLOW: Field = FILLING.then(13);
const FAILED: Field = SLOW.then(13);
const GENERATION: Field = FAILED.then(Generation::BITS);
const _: () = assert!(GENERATION.end() == u64::BITS, "fields must tile the word");

/// A word of the ring of such a window.
const OUTCOMES: Field = Field::lowest(32);
const WRITTEN: Field = OUTCOMES.then(6);
const WORD_LAP: Field = WRITTEN.then(10);
const SPARE: Field = WORD_LAP.then(16);
const _: () = assert!(SPARE.end() == u64::BITS, "and so must those of the ring's");

/// A word that was written in no lap.
const NEVER_WRITTEN: u64 = WORD_LAP.put(u64::MAX);

#[derive(Debug)]
pub(in crate::breaker) struct OutcomeRing {
    head: AtomicU64,
    words: LazyWords,
}

/// How many calls are kept, and in how many bits each.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingShape {
    /// At most 4,096.
    pub(super) calls: u32,
    /// Bits of an outcome: 1 or 2.
    pub(super) width: u32,
}

/// The position of an outcome.
#[derive(Clone, Copy)]
struct OutcomeSlot {
    word: usize,
    /// The place in the word.
    place: u32,
}

impl OutcomeRing {
    const_unless_loom! {
        /// Creates a ring without a shape. Model checkers create the words for `shape` here.
        pub(super) const fn new(shape: RingShape) -> Self {
            Self { head: AtomicU64::new(FILLING.put(1)), words: LazyWords::new(shape.count_of_words(), NEVER_WRITTEN) }
        }
    }

    /// Returns whether the ring of a generation is full of successes, whatever its shape.
    ///
    /// Its last outcome may not be written yet. Whoever moves the head next writes it.
    #[inline]
    pub(super) fn is_healthy(&self, generation: Generation) -> bool {
        // ORDERING: Relaxed: the head alone has the counts.
        let head = self.head.load(Ordering::Relaxed);
        // FILLING, SLOW and FAILED are 0.
        (head ^ GENERATION.put(generation.to_bits().into())) >> LAP.end() == 0
    }

    #[inline]
    pub(super) fn record(
        &self,
        shape: RingShape,
        generation: Generation,
        is_current: impl Fn() -> bool,
        outcome: Outcome,
    ) -> Option<OutcomeCounts> {
        let outcome = outcome.bits() & ((1 << shape.width) - 1);
        let words = self.words.get(shape.count_of_words(), NEVER_WRITTEN);
        let spin_wait = SpinWait::new();
        loop {
            // ORDERING: Acquire pairs with the Release of the swap below: a thread that sees a head sees the ring at least as the
            // thread that wrote the head saw it. loom-tests: breaker_windows::ring_counts_exactly,
            // late_record_leaves_newer_ring_intact.
            let head = self.head.load(Ordering::Acquire);
            if let Some(next) = self.after(shape, words, head, generation, &is_current, outcome)? {
                // ORDERING: Release, as above. Relaxed on failure: the value read is dropped.
                if self.head.compare_exchange_weak(head, next, Ordering::Release, Ordering::Relaxed).is_ok() {
                    return Some(shape.count(next));
                }
            }
            spin_wait.spin();
        }
    }

    /// Returns the head after recording an outcome; `None` if there is a later generation.
    ///
    /// The inner value is `None` if the head has moved on.
    #[inline]
    #[expect(clippy::option_option, reason = "one is for the caller's loop, the other for its caller")]
    fn after(
        &self,
        shape: RingShape,
        words: &[AtomicU64],
        head: u64,
        generation: Generation,
        is_current: impl Fn() -> bool,
        outcome: u64,
    ) -> Option<Option<u64>> {
        let of = Generation::from_bits(GENERATION.get(head));
        let (kept, replaced) = if of == generation {
            if !self.write_last(shape, words, head) {
                return Some(None);
            }
            // At most 12 bits.
            let replaced = if FILLING.get(head) == 1 { 0 } else { shape.read(words, INDEX.get(head) as u32) };
            (head & !LAST.put(LAST.max()), replaced)
        } else if !is_current() {
            // A thread that has seen a head of a later generation sees that the breaker is in that generation.
            // loom-tests: breaker_windows::older_generation_never_clears_a_newer_window.
            return None;
        } else {
            // The ring holds old outcomes, and none is read before it is overwritten.
            (GENERATION.put(generation.to_bits().into()) | FILLING.put(1) | LAP.put(LAP.get(head).wrapping_add(1)), 0)
        };
        let (added, removed) = (Self::counted(outcome), Self::counted(replaced));
        // The replaced outcome was counted, so no field overflows into the next. If the head has moved on it may not have been,
        // but then the swap fails.
        let next = (kept | outcome).wrapping_add(added).wrapping_sub(removed);
        let is_last = INDEX.get(kept) as u32 + 1 >= shape.calls;
        Some(Some(if is_last { Self::wrapped(next) } else { next + INDEX.put(1) }))
    }

    /// Returns what an outcome adds to the counts of a head.
    #[inline]
    fn counted(outcome: u64) -> u64 {
        FAILED.put(outcome & 1) | SLOW.put(outcome >> 1)
    }

    /// Returns the head at the start of the next lap, if the ring is full.
    #[inline]
    fn wrapped(next: u64) -> u64 {
        let lap = LAP.get(next).wrapping_add(1);
        let rest = next & !(INDEX.put(INDEX.max()) | LAP.put(LAP.max()) | FILLING.put(1));
        rest | LAP.put(lap)
    }

    pub(super) fn counts(&self, shape: RingShape) -> (OutcomeCounts, Generation) {
        // ORDERING: Relaxed: the head alone has the counts.
        let head = self.head.load(Ordering::Relaxed);
        (shape.count(head), Generation::from_bits(GENERATION.get(head)))
    }

    /// Writes the last outcome into the ring, unless another thread has.
    ///
    /// Returns `false` if the head or the word has changed.
    #[inline]
    fn write_last(&self, shape: RingShape, words: &[AtomicU64], head: u64) -> bool {
        let (lap, index) = match (INDEX.get(head) as u32).checked_sub(1) {
            Some(index) => (LAP.get(head), index),
            None if FILLING.get(head) == 1 => return true,
            None => (LAP.get(head).wrapping_sub(1), shape.calls - 1),
        };
        let slot = shape.slot(index);
        // Never happens: a ring of this shape has a word for each of its calls.
        let Some(ring) = words.get(slot.word) else { return true };
        // ORDERING: Relaxed: the swap compares it again.
        let old = ring.load(Ordering::Relaxed);
        let shift = slot.place * shape.width;
        let outcomes = OUTCOMES.get(old) & !(((1 << shape.width) - 1) << shift) | LAST.get(head) << shift;
        let new = WORD_LAP.put(lap) | WRITTEN.put(u64::from(slot.place) + 1) | OUTCOMES.put(outcomes);
        // Lap and number would not suffice: a word that was not written since may be 1,024 laps old.
        if old == new {
            return true;
        }
        // ORDERING: the fence pairs with the Release of the swap below: a thread that has loaded a word that was written under a
        // later head sees that head. If the head is still the same, its last outcome is not in the word yet. loom-tests:
        // breaker_windows::late_record_leaves_newer_ring_intact.
        fence(Ordering::Acquire);
        if self.head.load(Ordering::Relaxed) != head {
            return false;
        }
        // ORDERING: Release, as above. Relaxed on failure: the value read is dropped. If another thread was first, it wrote the
        // same, unless it was stopped in an earlier generation, which left this word unwritten.
        // loom-tests: breaker_windows::newer_outcome_survives_a_late_record.
        ring.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

impl RingShape {
    const fn count_of_words(self) -> u32 {
        (self.calls * self.width).div_ceil(OUTCOMES.bits())
    }

    #[inline]
    fn count(self, head: u64) -> OutcomeCounts {
        OutcomeCounts {
            // At most 13 bits each.
            calls: if FILLING.get(head) == 1 { INDEX.get(head) as u32 } else { self.calls },
            failed: FAILED.get(head) as u32,
            slow: SLOW.get(head) as u32,
        }
    }

    #[inline]
    fn slot(self, index: u32) -> OutcomeSlot {
        // 32 in a word, or 16: a shift and a mask.
        let bits = OUTCOMES.bits().ilog2() + 1 - self.width;
        OutcomeSlot { word: (index >> bits) as usize, place: index & ((1 << bits) - 1) }
    }

    /// Returns the outcome in a place of the ring.
    #[inline]
    fn read(self, words: &[AtomicU64], index: u32) -> u64 {
        let OutcomeSlot { word, place } = self.slot(index);
        // ORDERING: Relaxed: the swap of the head succeeds only if no more than the last outcome was written since the head was
        // loaded.
        let outcomes = words.get(word).map_or(0, |word| word.load(Ordering::Relaxed));
        outcomes >> (place * self.width) & ((1 << self.width) - 1)
    }
}
