//! A bounded table of slots: set-associative, like the cache of a processor.
//!
//! A key's hash names two sets of four slots, each in a cache line of its own, and the key is in one of them: in the
//! first, unless three of its slots were taken and the second was emptier. With two slots for each key of the capacity
//! and as many busy keys, 3 keys in 10,000 find no slot when a table is filled once, 35 in 10,000 once keys come and go; one
//! hit in ten looks at two lines. (Always the emptier: 1 key in 100,000, and 28 hits in 100. The first until it is full: 36
//! keys in 10,000, and 4 hits in 100.) No key is stored, and nothing is allocated after construction.

use super::shared::{BUCKETS_PER_KEY, Shared};
use super::slot::{Slot, Word};
use crate::sync::{AtomicU64, array_of, const_unless_loom};
#[cfg(feature = "alloc")]
use alloc::boxed::Box;
use core::num::NonZeroU64;

/// The slots of a set: a cache line of them.
pub(super) const WAYS: usize = 4;

/// Slots per key of capacity.
pub(super) const SLOTS_PER_KEY: usize = 2;

#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Set([Slot; WAYS]);

impl Set {
    const_unless_loom! {
        const fn empty() -> Self {
            Self(array_of!(WAYS, Slot::empty()))
        }
    }

    pub(super) fn slots(&self) -> &[Slot; WAYS] {
        &self.0
    }

    /// The words of its slots.
    #[inline]
    pub(super) fn words(&self) -> [Word; WAYS] {
        self.0.each_ref().map(Slot::word)
    }

    /// The slot that is a key's at a glance: who uses it looks again, after its word.
    #[inline]
    fn find(&self, key: Fingerprint) -> Option<&Slot> {
        // All four are compared, for which of them it is no processor can guess.
        let seems = |found: u32, (way, slot): (usize, &Slot)| found | u32::from(slot.is_of(key)) << way;
        self.0.get(self.0.iter().enumerate().fold(0, seems).trailing_zeros() as usize)
    }
}

/// The memory of a [`KeyedLimiter`](super::KeyedLimiter) that allocates none: `SETS` sets of four slots, for two keys
/// each, and `SHARED` buckets a set for keys without a slot. Takes `SETS * (64 + 8 * SHARED)` bytes.
///
/// `SHARED` is 4 unless given: two buckets a key, 48 bytes a key in all.
///
/// Put it in a `static` and lend it to [`KeyedLimiter::in_slots`](super::KeyedLimiter::in_slots), to one limiter only:
/// others would count in one another's buckets.
#[derive(Debug)]
pub struct KeyedSlots<const SETS: usize, const SHARED: usize = { SLOTS_IN_SET }> {
    sets: [Set; SETS],
    shared: [[AtomicU64; SHARED]; SETS],
}

/// `SLOTS_PER_KEY` and `BUCKETS_PER_KEY` are alike, so a set has as many shared buckets as slots.
const SLOTS_IN_SET: usize = WAYS * BUCKETS_PER_KEY / SLOTS_PER_KEY;

impl<const SETS: usize, const SHARED: usize> KeyedSlots<SETS, SHARED> {
    const_unless_loom! {
        /// Creates vacant slots: 1 to 2^28 - 1 sets, and 1 to 64 shared buckets a set.
        #[must_use]
        pub const fn new() -> Self {
            const { assert!(SETS > 0 && SETS < 1 << 28, "there are 1 to 2^28 - 1 sets of slots") };
            const { assert!(SHARED > 0 && SHARED <= 64, "there are 1 to 64 shared buckets for each set of slots") };
            Self { sets: array_of!(SETS, Set::empty()), shared: array_of!(SETS, array_of!(SHARED, AtomicU64::new(0))) }
        }
    }

    pub(super) const fn sets(&'static self) -> Table {
        Table::Lent(&self.sets)
    }

    pub(super) const fn shared(&'static self) -> Shared {
        Shared::Lent(self.shared.as_flattened())
    }
}

impl<const SETS: usize, const SHARED: usize> Default for KeyedSlots<SETS, SHARED> {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Debug)]
pub(super) enum Table {
    Lent(&'static [Set]),
    #[cfg(feature = "alloc")]
    Allocated(Box<[Set]>),
}

/// The hash of a key; never 0, which stands for nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint(NonZeroU64);

/// 2^64 divided by the golden ratio: Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4).
const MIXER: NonZeroU64 = NonZeroU64::new(0x9E37_79B9_7F4A_7C15).expect("it is not 0");

/// Another odd multiplier, so that a key's shared bucket says nothing about its sets. Any odd number of 64 random bits would do.
const OTHER_MIXER: u64 = 0xAF25_1AF3_B0F0_25B5;

impl Fingerprint {
    #[inline]
    pub(super) fn of(hash: u64) -> Self {
        // None that another key is likely to have, where a hasher of the caller's own takes numbers as they are.
        Self(NonZeroU64::new(hash).unwrap_or(MIXER))
    }

    /// Of a slot's owner, who may be nobody.
    #[inline]
    pub(super) fn of_owner(owner: u64) -> Option<Self> {
        NonZeroU64::new(owner).map(Self)
    }

    #[inline]
    pub(super) fn get(self) -> u64 {
        self.0.get()
    }

    /// A number below `count`, which is less than 2^32, independent of the key's sets.
    pub(super) fn scaled_to(self, count: usize) -> usize {
        scaled(self.get().wrapping_mul(OTHER_MIXER) >> 32, count)
    }

    /// A number of 1 to `most`, which is small, independent of the sets and of `scaled_to`.
    pub(super) fn tag(self, most: u64) -> u64 {
        let bits = self.get().wrapping_mul(OTHER_MIXER) >> 16 & 0xFFFF;
        1 + ((bits * most) >> 16)
    }

    /// With its bits mixed, the upper ones best: a hasher of the caller's own may leave them uneven.
    #[inline]
    fn mixed(self) -> u64 {
        self.get().wrapping_mul(MIXER.get())
    }
}

impl Table {
    /// A table for so many keys.
    #[cfg(feature = "alloc")]
    pub(super) fn new(capacity: usize) -> Self {
        let sets = (capacity * SLOTS_PER_KEY).div_ceil(WAYS);
        Self::Allocated((0..sets).map(|_| Set::empty()).collect())
    }

    /// The slot that seems to be that of a key.
    #[inline]
    pub(super) fn find(&self, key: Fingerprint) -> Option<&Slot> {
        self.first(key).find(key).or_else(|| self.second(key).find(key))
    }

    /// The sets that a key may have a slot in.
    #[inline]
    pub(super) fn candidates(&self, key: Fingerprint) -> [&Set; 2] {
        [self.first(key), self.second(key)]
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.sets().iter().flat_map(|set| &set.0)
    }

    #[inline]
    fn sets(&self) -> &[Set] {
        match self {
            Self::Lent(sets) => sets,
            #[cfg(feature = "alloc")]
            Self::Allocated(sets) => sets,
        }
    }

    #[inline]
    fn first(&self, key: Fingerprint) -> &Set {
        self.set(key.mixed() >> 32)
    }

    #[inline]
    fn second(&self, key: Fingerprint) -> &Set {
        let mixed = key.mixed();
        self.set((mixed ^ mixed >> 32) & u64::from(u32::MAX))
    }

    /// The set of a half of a hash.
    #[inline]
    fn set(&self, half: u64) -> &Set {
        let sets = self.sets();
        &sets[scaled(half, sets.len())]
    }
}

/// A number of 32 bits, scaled to one below `count`, which is less than 2^32.
#[inline]
fn scaled(half: u64, count: usize) -> usize {
    ((half * count as u64) >> 32) as usize
}
