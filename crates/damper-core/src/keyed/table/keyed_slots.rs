//! Slots and shared words in memory that the caller lends.

use super::lines::BUCKETS_PER_KEY;
use super::slots::{SLOTS_PER_KEY, Set, WAYS};
use crate::sync::{AtomicU64, array_of, const_unless_loom};

/// The memory of a [`KeyedLimiter`](crate::KeyedLimiter) that allocates none.
///
/// It has `SETS` sets of four slots, and each set serves two keys. For each set there are `SHARED` words, which keys
/// without a slot share. The memory is `SETS * (64 + 8 * SHARED)` bytes.
///
/// `SHARED` is 4 by default. Each key then has two shared words, and takes 48 bytes.
///
/// Put it in a `static` and lend it to [`KeyedLimiter::in_slots`](crate::KeyedLimiter::in_slots). Lend it to one
/// limiter only, because a second limiter would count its calls in the same slots.
#[derive(Debug)]
pub struct KeyedSlots<const SETS: usize, const SHARED: usize = { SLOTS_IN_SET }> {
    pub(super) sets: [Set; SETS],
    pub(super) shared: [[AtomicU64; SHARED]; SETS],
}

/// The default number of shared words for each set of slots.
///
/// There are as many words as slots, because `SLOTS_PER_KEY` and `BUCKETS_PER_KEY` are equal.
const SLOTS_IN_SET: usize = WAYS * BUCKETS_PER_KEY / SLOTS_PER_KEY;

impl<const SETS: usize, const SHARED: usize> KeyedSlots<SETS, SHARED> {
    const_unless_loom! {
        /// Creates `SETS` sets of vacant slots, with `SHARED` shared words for each set.
        ///
        /// A set has four slots. Keys without a slot use the shared words. `SETS` must be from 1 to 2^28 - 1, and
        /// `SHARED` from 1 to 64. Other numbers do not compile.
        #[must_use]
        pub const fn new() -> Self {
            const { assert!(SETS > 0 && SETS < 1 << 28, "there are 1 to 2^28 - 1 sets of slots") };
            const { assert!(SHARED > 0 && SHARED <= 64, "there are 1 to 64 shared words for each set of slots") };
            Self { sets: array_of!(SETS, Set::vacant()), shared: array_of!(SETS, array_of!(SHARED, AtomicU64::new(0))) }
        }
    }
}

impl<const SETS: usize, const SHARED: usize> Default for KeyedSlots<SETS, SHARED> {
    fn default() -> Self {
        Self::new()
    }
}
