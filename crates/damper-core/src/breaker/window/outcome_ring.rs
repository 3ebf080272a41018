//! The last calls, up to thousands: a ring of outcomes, and a head.
//!
//! To record is one swap of the head. It counts the new outcome, no longer counts the one that it will replace, and
//! carries the new one, which the next thread writes into the ring first. So the head alone has the exact counts, and
//! other threads finish what a stopped thread has left undone.
//!
//! ```text
//! head  63        51 50 41 40   29 28   27      15 14  2 1    0
//!      | GENERATION | LAP | INDEX | FULL | FAILED  | SLOW | LAST |
//! word  63        48 47 38 37      32 31                       0
//!      | --         | LAP | WRITTEN  | OUTCOMES                 |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | head: LAST | 2 | the last outcome, which may not be in the ring yet |
//! | head: FAILED, SLOW | 13 each | of the calls in the window |
//! | head: FULL | 1 | whether the ring has been filled in this generation |
//! | head: INDEX | 12 | of the next outcome |
//! | head: LAP | 10 | rounds of the ring, one more with every generation; wraps |
//! | head: GENERATION | 13 | in which they were recorded |
//! | word: OUTCOMES | 32 | of 32 calls, or of 16 where slow calls count |
//! | word: WRITTEN | 6 | how many of them were written in the lap |
//! | word: LAP | 10 | the lap in which it was written last |
//!
//! WRITTEN and LAP make every word that is written differ from those before it, so that the swap of a thread that
//! was stopped fails. (Unless meanwhile the ring went round a multiple of 1,024 times and brought the very same
//! outcomes.)

use super::{Outcome, OutcomeCounts};
use crate::breaker::state_word::Generation;
use crate::sync::{AtomicU64, Field, LazyWords, Ordering, SpinWait, const_unless_loom, fence};

const LAST: Field = Field::lowest(2);
const SLOW: Field = LAST.then(13);
const FAILED: Field = SLOW.then(13);
const FULL: Field = FAILED.then(1);
const INDEX: Field = FULL.then(12);
const LAP: Field = INDEX.then(10);
const GENERATION: Field = LAP.then(Generation::BITS);
const _: () = assert!(GENERATION.end() == u64::BITS, "fields must tile the word");

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
    calls: u32,
    /// Bits of an outcome: 1 or 2.
    width: u32,
}

/// Where an outcome is.
#[derive(Clone, Copy)]
struct OutcomeSlot {
    word: usize,
    /// Which of the word's.
    place: u32,
}

impl OutcomeRing {
    const_unless_loom! {
        /// Of so many calls: at most 4,096.
        pub(super) const fn new(calls: u32, slow: bool) -> Self {
            let width = if slow { 2 } else { 1 };
            Self { head: AtomicU64::new(0), words: LazyWords::new(Self::count_of_words(calls, width), NEVER_WRITTEN), calls, width }
        }
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        self.words.get(Self::count_of_words(self.calls, self.width), NEVER_WRITTEN)
    }

    const fn count_of_words(calls: u32, width: u32) -> u32 {
        (calls * width).div_ceil(OUTCOMES.bits())
    }

    pub(super) const fn calls(&self) -> u32 {
        self.calls
    }

    #[inline]
    pub(super) fn record(
        &self,
        generation: Generation,
        is_current: impl Fn() -> bool,
        outcome: Outcome,
    ) -> Option<OutcomeCounts> {
        let outcome = outcome.bits() & ((1 << self.width) - 1);
        let words = self.words();
        let spin_wait = SpinWait::new();
        loop {
            // ORDERING: Acquire pairs with the Release of the swap below: a thread that sees a head sees the ring at
            // least as the thread that wrote the head saw it. loom-tests: breaker_windows::ring_counts_exactly,
            // late_record_leaves_newer_ring_intact.
            let head = self.head.load(Ordering::Acquire);
            if let Some(next) = self.after(words, head, generation, &is_current, outcome)? {
                // ORDERING: Release, as above. Relaxed on failure: the value read is dropped.
                if self.head.compare_exchange_weak(head, next, Ordering::Release, Ordering::Relaxed).is_ok() {
                    return Some(self.count(next));
                }
            }
            spin_wait.spin();
        }
    }

    /// The head after recording an outcome; `None` inside if it has moved on, `None` if there is a later generation.
    #[inline]
    #[expect(clippy::option_option, reason = "one is for the caller's loop, the other for its caller")]
    fn after(
        &self,
        words: &[AtomicU64],
        head: u64,
        generation: Generation,
        is_current: impl Fn() -> bool,
        outcome: u64,
    ) -> Option<Option<u64>> {
        let of = Generation::from_bits(GENERATION.get(head));
        let (kept, replaced) = if of == generation {
            if !self.write_last(words, head) {
                return Some(None);
            }
            // At most 12 bits.
            let replaced = if FULL.get(head) == 0 { 0 } else { self.read(words, self.slot(INDEX.get(head) as u32)) };
            (head & !LAST.put(LAST.max()), replaced)
        } else if !is_current() {
            // A thread that has seen a head of a later generation sees that the breaker is in that generation.
            // loom-tests: breaker_windows::older_generation_never_clears_a_newer_window.
            return None;
        } else {
            // What is in the ring is of before, and not read before it is written anew.
            (GENERATION.put(generation.to_bits().into()) | LAP.put(LAP.get(head).wrapping_add(1)), 0)
        };
        // What is replaced was counted, so that no field overflows into the next; unless the head has moved on, and
        // then the swap fails.
        let next = (kept | outcome) + FAILED.put(outcome & 1) + SLOW.put(outcome >> 1)
            - FAILED.put(replaced & 1)
            - SLOW.put(replaced >> 1);
        let is_last = INDEX.get(kept) as u32 + 1 == self.calls;
        Some(Some(if is_last { Self::wrapped(next) } else { next + INDEX.put(1) }))
    }

    /// The head at the beginning of the next lap, if the ring is full.
    #[inline]
    fn wrapped(next: u64) -> u64 {
        let lap = LAP.get(next).wrapping_add(1);
        let rest = next & !(INDEX.put(INDEX.max()) | LAP.put(LAP.max()));
        rest | LAP.put(lap) | FULL.put(1)
    }

    pub(super) fn counts(&self) -> (OutcomeCounts, Generation) {
        // ORDERING: Relaxed: the head alone has the counts.
        let head = self.head.load(Ordering::Relaxed);
        (self.count(head), Generation::from_bits(GENERATION.get(head)))
    }

    #[inline]
    fn count(&self, head: u64) -> OutcomeCounts {
        OutcomeCounts {
            // At most 13 bits each.
            calls: if FULL.get(head) == 0 { INDEX.get(head) as u32 } else { self.calls },
            failed: FAILED.get(head) as u32,
            slow: SLOW.get(head) as u32,
        }
    }

    #[inline]
    fn slot(&self, index: u32) -> OutcomeSlot {
        // 32 in a word, or 16: a shift and a mask.
        let bits = OUTCOMES.bits().ilog2() + 1 - self.width;
        OutcomeSlot { word: (index >> bits) as usize, place: index & ((1 << bits) - 1) }
    }

    #[inline]
    fn read(&self, words: &[AtomicU64], slot: OutcomeSlot) -> u64 {
        // ORDERING: Relaxed: the swap of the head succeeds only if nothing but the last outcome was written since the
        // head was loaded.
        words[slot.word].load(Ordering::Relaxed) >> (slot.place * self.width) & ((1 << self.width) - 1)
    }

    /// Writes the last outcome into the ring, unless another thread has; `false` if the head or the word has changed.
    #[inline]
    fn write_last(&self, words: &[AtomicU64], head: u64) -> bool {
        let (lap, index) = match (INDEX.get(head) as u32).checked_sub(1) {
            Some(index) => (LAP.get(head), index),
            None if FULL.get(head) == 0 => return true,
            None => (LAP.get(head).wrapping_sub(1), self.calls - 1),
        };
        let slot = self.slot(index);
        let ring = &words[slot.word];
        // ORDERING: Relaxed: the swap compares it again.
        let old = ring.load(Ordering::Relaxed);
        let shift = slot.place * self.width;
        let outcomes = OUTCOMES.get(old) & !(((1 << self.width) - 1) << shift) | LAST.get(head) << shift;
        let new = WORD_LAP.put(lap) | WRITTEN.put(u64::from(slot.place) + 1) | OUTCOMES.put(outcomes);
        // Lap and number would not do: a word that no call came to since may be of 1,024 laps ago.
        if old == new {
            return true;
        }
        // ORDERING: the fence pairs with the Release of the swap below: a thread that has loaded a word which was
        // written under a later head sees that head. If the head is still the same, the word is the one before its
        // last outcome. loom-tests: breaker_windows::late_record_leaves_newer_ring_intact.
        fence(Ordering::Acquire);
        if self.head.load(Ordering::Relaxed) != head {
            return false;
        }
        // ORDERING: Release, as above. Relaxed on failure: the value read is dropped. If another thread was first, it
        // wrote the same, unless it was stopped in an earlier generation, which left this word unwritten.
        // loom-tests: breaker_windows::newer_outcome_survives_a_late_record.
        ring.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}
