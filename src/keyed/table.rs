//! A bounded table of slots: set-associative, like the cache of a processor.
//!
//! A key's hash names two sets of four slots, each in a cache line of its own, and the key is in one of them: in the first, unless three of
//! its slots were taken and the second was emptier. With two slots for each key of the capacity, 3 keys in 10,000 then find no slot, and
//! one hit in ten looks at two lines. (Always the emptier: 1 key in 100,000, and 28 hits in 100. The first until it is full: 36 keys in
//! 10,000, and 4 hits in 100.) No key is stored, and nothing is allocated after construction.

use super::slot::Slot;
use alloc::boxed::Box;

/// The slots of a set: a cache line of them.
pub(super) const WAYS: usize = 4;

/// Slots per key of capacity.
const SLOTS_PER_KEY: usize = 2;

#[derive(Debug)]
#[repr(align(64))]
struct Set([Slot; WAYS]);

impl Set {
    #[inline]
    fn find(&self, key: Fingerprint) -> Option<&Slot> {
        // All four are compared, for which of them it is no processor can guess.
        let found =
            self.0.iter().enumerate().fold(0u32, |found, (way, slot)| found | u32::from(slot.seems_of(key.0)) << way);
        self.0.get(found.trailing_zeros() as usize)
    }
}

#[derive(Debug)]
pub(super) struct Table {
    sets: Box<[Set]>,
}

/// The hash of a key as the table takes it: never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    /// Of a hash, whose bits are mixed: a hasher of the caller's own may leave them uneven.
    #[inline]
    pub(super) fn of(hash: u64) -> Self {
        let mixed = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self((mixed ^ mixed >> 32).max(1))
    }

    pub(super) fn get(self) -> u64 {
        self.0
    }
}

impl Table {
    /// A table for so many keys.
    pub(super) fn new(capacity: usize) -> Self {
        let sets = (capacity * SLOTS_PER_KEY).div_ceil(WAYS);
        Self { sets: (0..sets).map(|_| Set([(); WAYS].map(|()| Slot::empty()))).collect() }
    }

    /// The slot that seems to be that of a key.
    #[inline]
    pub(super) fn find(&self, key: Fingerprint) -> Option<&Slot> {
        self.first(key).find(key).or_else(|| self.second(key).find(key))
    }

    /// The slots that a key may have, by set.
    pub(super) fn candidates(&self, key: Fingerprint) -> [[&Slot; WAYS]; 2] {
        [self.first(key), self.second(key)].map(|set| set.0.each_ref())
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.sets.iter().flat_map(|set| &set.0)
    }

    #[inline]
    fn first(&self, key: Fingerprint) -> &Set {
        self.set(key.0 >> 32)
    }

    #[inline]
    fn second(&self, key: Fingerprint) -> &Set {
        self.set(key.0 & u64::from(u32::MAX))
    }

    /// The set of a half of a hash: scaled to the number of sets, which are less than 2^32.
    #[inline]
    fn set(&self, half: u64) -> &Set {
        &self.sets[((half * self.sets.len() as u64) >> 32) as usize]
    }
}
