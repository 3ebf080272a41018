//! A bounded table of slots: set-associative, like the cache of a processor.
//!
//! A key's hash names two sets of four slots, each in a cache line of its own, and the key is in one of them: in the
//! first, unless three of its slots were taken and the second was emptier. With two slots for each key of the capacity,
//! 3 keys in 10,000 then find no slot, and one hit in ten looks at two lines. (Always the emptier: 1 key in 100,000,
//! and 28 hits in 100. The first until it is full: 36 keys in 10,000, and 4 hits in 100.) No key is stored, and nothing
//! is allocated after construction.

use super::slot::{Slot, Word};
use crate::atomic::{array_of, const_unless_loom};
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

/// The memory of a [`KeyedLimiter`](super::KeyedLimiter) that allocates none: `SETS` times 64 bytes, for two keys each.
///
/// Put it in a `static` and lend it to [`KeyedLimiter::in_slots`](super::KeyedLimiter::in_slots), to one limiter only:
/// others would count in one another's buckets.
#[derive(Debug)]
pub struct KeyedSlots<const SETS: usize>([Set; SETS]);

impl<const SETS: usize> KeyedSlots<SETS> {
    const_unless_loom! {
        /// Slots of nobody, at least one set of them and less than 2^28.
        #[must_use]
        pub const fn new() -> Self {
            const { assert!(SETS > 0 && SETS < 1 << 28, "there are 1 to 2^28 - 1 sets of slots") };
            Self(array_of!(SETS, Set::empty()))
        }
    }
}

impl<const SETS: usize> Default for KeyedSlots<SETS> {
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

    pub(super) const fn lent<const SETS: usize>(slots: &'static KeyedSlots<SETS>) -> Self {
        Self::Lent(&slots.0)
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

    /// The set of a half of a hash: scaled to the number of sets, which are less than 2^32.
    #[inline]
    fn set(&self, half: u64) -> &Set {
        let sets = self.sets();
        &sets[((half * sets.len() as u64) >> 32) as usize]
    }
}
