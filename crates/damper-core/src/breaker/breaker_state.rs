//! The state of a breaker in 64 bits: its word, and two times that the word has no room for.
//!
//! ```text
//!                 63        51 50                          0
//! since          | GENERATION |  SINCE                      |
//! ```
//!
//! | field | bits | unit | |
//! |---|---|---|---|
//! | SINCE | 51 | microseconds | when the state of that generation began |
//! | GENERATION | 13 | | of a half-open or returning state |
//!
//! The thread that makes the breaker half-open or returning records the start time afterwards. It does so even if the settings limit
//! no half-open time, because they may be changed before the state is over. If that thread is stopped before it records the time,
//! the next refused call records it, or the next call of a returning breaker. A thread that only reads the state records nothing.

use super::state_word::{Generation, StateWord};
use crate::sync::{AtomicU64, Field, Ordering, const_unless_loom, fence};

/// The word beside a breaker's: since when it is half-open or returning.
pub(super) const SINCE: Field = Field::lowest(51);
const GENERATION: Field = SINCE.then(Generation::BITS);
const _: () = assert!(GENERATION.end() == u64::BITS, "fields must tile the word");

#[derive(Debug)]
pub(super) struct BreakerState {
    pub(super) word: StateWord<u64>,
    since: AtomicU64,
    /// The longest cooldown that the breaker can have been opened for so far, in microseconds.
    ///
    /// It only rises: a change of the settings leaves the running cooldown alone, and a thread may be about to open the breaker
    /// by earlier settings.
    longest_cooldown: AtomicU64,
}

impl BreakerState {
    const_unless_loom! {
        /// Creates a closed breaker whose settings open it for at most `longest_cooldown` microseconds.
        pub(super) const fn closed(longest_cooldown: u64) -> Self {
            Self {
                word: StateWord::<u64>::closed(),
                // The start of no state, because the first half-open state has a later generation.
                since: AtomicU64::new(u64::MAX),
                longest_cooldown: AtomicU64::new(longest_cooldown),
            }
        }
    }

    /// Returns when the state of this generation began, in microseconds; `None` if not recorded yet.
    pub(super) fn since(&self, generation: Generation) -> Option<u64> {
        // ORDERING: Relaxed: only this one location is read.
        let seen = self.since.load(Ordering::Relaxed);
        (GENERATION.get(seen) == u64::from(generation.to_bits())).then(|| SINCE.get(seen))
    }

    /// Records that the state of this generation began at `now`, unless that state is over.
    ///
    /// It is half-open or returning.
    ///
    /// Replaces any other start, because one with the same generation number may be 8,192 transitions old.
    #[cold]
    pub(super) fn record_start(&self, generation: Generation, now: u64) {
        let begins = GENERATION.put(generation.to_bits().into()) | SINCE.put(now);
        loop {
            // ORDERING: Acquire pairs with the Release of the swap below: a thread that sees the time of a later generation also
            // sees that the breaker is in that generation.
            // loom-tests: breaker_settings::late_prober_leaves_a_newer_half_open_state_its_time.
            let seen = self.since.load(Ordering::Acquire);
            if self.word.load().generation() != generation {
                return;
            }
            // ORDERING: Release, as above. If the swap fails, another thread has recorded the start of this state, or a late
            // thread the start of an earlier one.
            if self.since.compare_exchange(seen, begins, Ordering::Release, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Returns the longest cooldown so far. Call it after loading the word.
    #[inline]
    pub(super) fn longest_cooldown(&self) -> u64 {
        // ORDERING: the Acquire fence pairs with the Release of the word's swap: a thread that has loaded an open state sees a
        // longest cooldown that is no shorter than that state's. loom-tests:
        // breaker_settings::long_cooldown_is_not_taken_for_past.
        fence(Ordering::Acquire);
        self.longest_cooldown.load(Ordering::Relaxed)
    }

    /// Raises the longest cooldown to at least `cooldown`, in microseconds.
    ///
    /// Call it before the breaker opens for that long.
    pub(super) fn make_room_for(&self, cooldown: u64) {
        // ORDERING: Relaxed: published by the swap of the word that opens the breaker, or by the epoch of the settings.
        let mut longest = self.longest_cooldown.load(Ordering::Relaxed);
        while longest < cooldown {
            match self.longest_cooldown.compare_exchange_weak(longest, cooldown, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => longest = newer,
            }
        }
    }
}
