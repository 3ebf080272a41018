//! The last few calls: a shift register in one word.
//!
//! ```text
//!  63        51 50 49 48                         0
//! | GENERATION | -- | OUTCOMES                    |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | OUTCOMES | 49 | one bit for each call, or two where slow calls count; a 1 above the oldest marks how many there are |
//! | GENERATION | 13 | in which they were recorded |
//!
//! One compare-and-swap shifts an outcome in, so the counts after it are known exactly.

use super::{Outcome, OutcomeCounts};
use crate::breaker::state_word::Generation;
use crate::sync::{AtomicU64, Field, Ordering, SpinWait, const_unless_loom, fence};

/// The bits of outcomes.
pub(super) const CAPACITY: u32 = 48;

const OUTCOMES: Field = Field::lowest(CAPACITY + 1);
const SPARE: Field = OUTCOMES.then(2);
const GENERATION: Field = SPARE.then(Generation::BITS);
const _: () = assert!(GENERATION.end() == u64::BITS, "fields must tile the word");

/// The lower bit of each pair.
const FAILED_OF_TWO: u64 = 0x5555_5555_5555_5555;

#[derive(Debug)]
pub(in crate::breaker) struct OutcomeRegister {
    word: AtomicU64,
    calls: u32,
    /// Bits of an outcome: 1 or 2.
    width: u32,
}

impl OutcomeRegister {
    const_unless_loom! {
        /// Of so many calls, which must fit.
        pub(super) const fn new(calls: u32, slow: bool) -> Self {
            Self { word: AtomicU64::new(1), calls, width: if slow { 2 } else { 1 } }
        }
    }

    /// How many calls fit.
    pub(super) const fn most_calls(slow: bool) -> u32 {
        if slow { CAPACITY / 2 } else { CAPACITY }
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
        let spin_wait = SpinWait::new();
        loop {
            // ORDERING: Relaxed: the word is the whole window.
            // loom-tests: breaker_windows::register_counts_exactly.
            let word = self.word.load(Ordering::Relaxed);
            let of = Generation::from_bits(GENERATION.get(word));
            if of != generation {
                // ORDERING: Acquire pairs with the Release of the swap below: a thread that sees a window of a later
                // generation sees that the breaker is in that generation.
                // loom-tests: breaker_windows::older_generation_never_clears_a_newer_window.
                fence(Ordering::Acquire);
                if !is_current() {
                    return None;
                }
            }
            let outcomes = self.shifted(if of == generation { OUTCOMES.get(word) } else { 1 }, outcome);
            let next = GENERATION.put(generation.to_bits().into()) | OUTCOMES.put(outcomes);
            // ORDERING: Release, as above. Relaxed on failure: the value read is dropped.
            if self.word.compare_exchange_weak(word, next, Ordering::Release, Ordering::Relaxed).is_ok() {
                return Some(self.count(outcomes));
            }
            spin_wait.spin();
        }
    }

    pub(super) fn counts(&self) -> (OutcomeCounts, Generation) {
        // ORDERING: Relaxed: the word is the whole window.
        let word = self.word.load(Ordering::Relaxed);
        (self.count(OUTCOMES.get(word)), Generation::from_bits(GENERATION.get(word)))
    }

    #[inline]
    fn shifted(&self, outcomes: u64, outcome: Outcome) -> u64 {
        let bits = self.calls * self.width;
        let shifted = outcomes << self.width | outcome.bits() & ((1 << self.width) - 1);
        // The oldest goes; the 1 above it stays.
        if shifted >> bits > 1 { shifted & ((1 << bits) - 1) | 1 << bits } else { shifted }
    }

    #[inline]
    fn count(&self, outcomes: u64) -> OutcomeCounts {
        let bits = outcomes.ilog2();
        let outcomes = outcomes & ((1 << bits) - 1);
        if self.width == 1 {
            return OutcomeCounts { calls: bits, failed: outcomes.count_ones(), slow: 0 };
        }
        let failed = (outcomes & FAILED_OF_TWO).count_ones();
        OutcomeCounts { calls: bits / 2, failed, slow: outcomes.count_ones() - failed }
    }
}
