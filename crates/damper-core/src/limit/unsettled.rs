//! How much of a limit is reserved and not settled yet, in one word.
//!
//! The refunds of reservations come on top of a limit's envelope: in any stretch of time as much as was unsettled when
//! it began. So the sum of what may be given back is bounded. A reservation beyond the bound is allowed all the same,
//! and counts as used in full.
//!
//! A reservation that is never settled must not take up the bound for ever. Time is divided into *generations* of the
//! length of the time-to-live. A reservation may give something back for one time-to-live, and is counted in its own
//! generation and the next.
//!
//! ```text
//!  63        44 43       22 21        0
//! | GENERATION | BEFORE    | CURRENT   |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | CURRENT | 22 | what was reserved in this generation and is unsettled |
//! | BEFORE | 22 | the same of the generation before |
//! | GENERATION | 20 | its number; wraps, after 4 years at two minutes each |
//!
//! A word that no thread looked at for more than half of that counts what was unsettled then, and so gives back less for a
//! while, never more.

use crate::sync::{AtomicU64, Field, Ordering};

/// A word of unsettled reservations.
const CURRENT: Field = Field::lowest(22);
const BEFORE: Field = CURRENT.then(22);
const GENERATION: Field = BEFORE.then(20);
const _: () = assert!(GENERATION.end() == u64::BITS, "fields must tile the word");

/// The unit in which reservations are counted: 2^-14 bursts.
pub(crate) const PARTS_PER_BURST: u32 = 1 << 14;

/// The most bursts that may be unsettled.
pub(crate) const MOST_BURSTS: u8 = (CURRENT.max() / PARTS_PER_BURST as u64) as u8;

/// The sum of what reservations may still give back, in parts of a burst.
#[derive(Debug)]
pub(crate) struct Unsettled {
    word: AtomicU64,
}

impl Unsettled {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    /// Returns the word as it is in this generation, or in its own if a faster thread has moved it further.
    fn in_generation(word: u64, generation: u64) -> u64 {
        let before = match GENERATION.ahead(generation, GENERATION.get(word)) {
            ..=0 => return word,
            1 => CURRENT.get(word),
            _ => 0,
        };
        GENERATION.put(generation) | BEFORE.put(before)
    }

    /// Counts up to `parts` of a reservation, and returns how many it counted.
    ///
    /// No more than `most` are unsettled then.
    pub(crate) fn count(&self, parts: u32, most: u32, generation: u64) -> u32 {
        // ORDERING: Acquire pairs with the Release in `release`: a thread that counts room which was freed sees the refund
        // before that. Relaxed on success: what is counted publishes nothing.
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let now = Self::in_generation(word, generation);
            // Two fields of 22 bits.
            let unsettled = (CURRENT.get(now) + BEFORE.get(now)) as u32;
            let counted = parts.min(most.saturating_sub(unsettled));
            if counted == 0 {
                return 0;
            }
            let new = now + CURRENT.put(counted.into());
            match self.word.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return counted,
                Err(newer) => word = newer,
            }
        }
    }

    /// Frees what a reservation counted in the generation `since`, after it has given back.
    pub(crate) fn release(&self, counted: u32, since: u64) {
        if counted == 0 {
            return;
        }
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let new = match GENERATION.ahead(GENERATION.get(word), since) {
                0 => word - CURRENT.put(u64::from(counted).min(CURRENT.get(word))),
                1 => word - BEFORE.put(u64::from(counted).min(BEFORE.get(word))),
                // It is not counted any more.
                _ => return,
            };
            // ORDERING: Release, as `count` says.
            match self.word.compare_exchange_weak(word, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => word = newer,
            }
        }
    }
}
