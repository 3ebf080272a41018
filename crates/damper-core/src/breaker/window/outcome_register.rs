//! The last few calls: a shift register in one word.
//!
//! ```text
//!  63        51 50 49 48                         0
//! | GENERATION | -- | OUTCOMES                    |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | OUTCOMES | 49 | one bit for each call, or two where slow calls count, of as many calls as fit; a 1 above the oldest marks how many there are |
//! | GENERATION | 13 | in which they were recorded |
//!
//! One compare-and-swap shifts an outcome in, so the counts after it are exact.

use super::{Outcome, OutcomeCounts};
use crate::breaker::state_word::Generation;
use crate::sync::{AtomicU64, Field, Ordering, SpinWait, const_unless_loom, fence};

/// The bits of outcomes.
pub(super) const CAPACITY: u32 = 48;

/// A window of at most 48 calls.
const OUTCOMES: Field = Field::lowest(CAPACITY + 1);
const SPARE: Field = OUTCOMES.then(2);
const GENERATION: Field = SPARE.then(Generation::BITS);
const _: () = assert!(GENERATION.end() == u64::BITS, "fields must tile the word");

/// The lower bit of each pair.
const FAILED_OF_TWO: u64 = 0x5555_5555_5555_5555;

#[derive(Debug)]
pub(in crate::breaker) struct OutcomeRegister {
    word: AtomicU64,
}

/// How many calls count, and in how many bits each is kept.
///
/// The register keeps as many as fit, however many count. So a call that uses another number, because the settings change
/// meanwhile, drops none.
#[derive(Clone, Copy, Debug)]
pub(in crate::breaker) struct RegisterShape {
    pub(in crate::breaker) calls: u32,
    /// Bits of an outcome: 1 or 2.
    pub(in crate::breaker) width: u32,
}

impl OutcomeRegister {
    const_unless_loom! {
        pub(super) const fn new() -> Self {
            Self { word: AtomicU64::new(1) }
        }
    }

    /// Returns how many calls fit.
    pub(super) const fn most_calls(slow: bool) -> u32 {
        if slow { CAPACITY / 2 } else { CAPACITY }
    }

    /// Returns whether the register of a generation is full of successes, whatever its shape.
    #[inline]
    pub(super) fn is_healthy(&self, generation: Generation) -> bool {
        // ORDERING: Relaxed: the word is the whole window.
        let word = self.word.load(Ordering::Relaxed);
        word == GENERATION.put(generation.to_bits().into()) | OUTCOMES.put(1 << CAPACITY)
    }

    #[inline]
    pub(super) fn record(
        &self,
        shape: RegisterShape,
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
            let outcomes = shape.shifted(if of == generation { OUTCOMES.get(word) } else { 1 }, outcome);
            let next = GENERATION.put(generation.to_bits().into()) | OUTCOMES.put(outcomes);
            // ORDERING: Release, as above. Relaxed on failure: the value read is dropped.
            if self.word.compare_exchange_weak(word, next, Ordering::Release, Ordering::Relaxed).is_ok() {
                // Usually nothing has failed, and only the 1 above the oldest is there.
                return (!outcomes.is_power_of_two()).then(|| shape.count(outcomes));
            }
            spin_wait.spin();
        }
    }

    pub(super) fn counts(&self, shape: RegisterShape) -> (OutcomeCounts, Generation) {
        // ORDERING: Relaxed: the word is the whole window.
        let word = self.word.load(Ordering::Relaxed);
        (shape.count(OUTCOMES.get(word)), Generation::from_bits(GENERATION.get(word)))
    }
}

impl RegisterShape {
    /// Returns the outcomes after one more; in a full register the oldest goes, and the 1 above stays.
    ///
    /// With one bit for each call none is slow.
    #[inline]
    pub(in crate::breaker) fn shifted(self, outcomes: u64, outcome: Outcome) -> u64 {
        let outcomes = outcomes << self.width | outcome.bits();
        if outcomes >> CAPACITY > 1 { outcomes & ((1 << CAPACITY) - 1) | 1 << CAPACITY } else { outcomes }
    }

    /// Counts the newest calls.
    #[inline]
    pub(in crate::breaker) fn count(self, outcomes: u64) -> OutcomeCounts {
        let bits = outcomes.ilog2().min(self.calls * self.width);
        let outcomes = outcomes & ((1 << bits) - 1);
        if self.width == 1 {
            return OutcomeCounts { calls: bits, failed: outcomes.count_ones(), slow: 0 };
        }
        let failed = (outcomes & FAILED_OF_TWO).count_ones();
        OutcomeCounts { calls: bits / 2, failed, slow: outcomes.count_ones() - failed }
    }
}
