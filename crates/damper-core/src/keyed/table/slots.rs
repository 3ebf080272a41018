//! The slots of a table, each with the bucket of one key.
//!
//! A key's hash says where its slot can be, and the version in a slot's word changes with its owner.
//! [`table`](super#terms) defines the terms.
//!
//! # Sets
//!
//! The table is set-associative, like the cache of a processor. A key's hash names two sets of four slots, each in a
//! cache line of its own, and the key is in one of them. It is in the first, unless at least three slots of the first
//! were taken and the second was emptier. With two slots for each key of the capacity and as many busy keys, 3 keys in
//! 10,000 find no slot when a table is filled once, and 35 in 10,000 once keys come and go. One hit in ten looks at two
//! lines. (If each key took the emptier set, 1 key in 100,000 would find no slot, and 28 hits in 100 would look at two
//! lines. If each took the first set until it is full, 36 keys in 10,000 would find no slot, and 4 hits in 100 would
//! look at two lines.) No key is stored, and nothing is allocated after construction.
//!
//! # A slot
//!
//! ```text
//! word  63                                    8 7       4 3    0
//!      | LEVEL                                  | VERSION | TIER |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | LEVEL | 56 | what the algorithm keeps; for a token bucket, the lowest bits of the position at which it is full |
//! | TIER | 4 | the number of the tier; all ones while the slot changes its owner |
//! | VERSION | 4 | how often the slot has changed its owner; wraps |
//!
//! **The owner** is named by a fingerprint beside the word: 64 bits of the key's hash, 0 in a vacant slot. A slot
//! changes its owner in three steps: the word is swapped for a claimed one of the next version, the fingerprint is
//! written, and then the new owner's word. So:
//!
//! - If a thread reads the word, finds its key's fingerprint and then swaps that same word, its key still owned the
//!   slot.
//! - A refusal swaps nothing, so it loads the word again after the fingerprint. Only if the word is still the same was
//!   the refusal computed from that key's bucket.
//!
//! **A level** of a token bucket is a position on the line of its quota, modulo 2^56. With ticks of a nanosecond
//! positions wrap after 200 days or more. A level further ahead of the present position than the deepest debt counts as
//! past, so its bucket is full.

use super::fingerprint::Fingerprint;
use crate::limit::LEVEL_BITS;
use crate::sync::{AtomicU64, Field, Ordering, array_of, const_unless_loom};
#[cfg(feature = "alloc")]
use alloc::boxed::Box;
use core::hint::select_unpredictable;
use core::ptr;

/// The number of slots in a set, which fills a cache line.
pub(in crate::keyed) const WAYS: usize = 4;

/// The number of slots for each key of the capacity.
pub(in crate::keyed) const SLOTS_PER_KEY: usize = 2;

/// The number of sets in a chunk, which has 64 slots.
const SETS_IN_CHUNK: usize = 16;

/// A slot of the keyed table.
const TIER: Field = Field::lowest(4);
const VERSION: Field = TIER.then(4);
const LEVEL: Field = VERSION.then(LEVEL_BITS);
const _: () = assert!(LEVEL.end() == u64::BITS, "fields must tile the word");

/// The largest number of tiers.
pub(in crate::keyed) const MOST_TIERS: usize = CLAIMED as usize;

/// The tier that the word of a slot names while the slot changes its owner.
const CLAIMED: u64 = TIER.max();

/// The bucket of one key: its owner's fingerprint, and the word.
#[derive(Debug)]
pub(in crate::keyed) struct Slot {
    fingerprint: AtomicU64,
    word: AtomicU64,
}

/// Identifies one ownership of a slot: the slot, and how often it had changed its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ownership {
    /// The lowest bits of the slot's address, without those that are always 0.
    slot: u32,
    /// How often the slot had changed its owner, modulo 16.
    version: u8,
}

/// The word of a slot, as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::keyed) struct SlotWord(u64);

impl SlotWord {
    /// Returns the tier of the slot's owner. A claimed slot names a tier that does not exist.
    pub(in crate::keyed) const fn tier(self) -> usize {
        TIER.get(self.0) as usize
    }

    /// Returns the part of the bucket's word that the slot keeps.
    pub(super) const fn level(self) -> u64 {
        LEVEL.get(self.0)
    }

    /// Returns whether the slot is changing its owner.
    pub(in crate::keyed) const fn is_claimed(self) -> bool {
        TIER.get(self.0) == CLAIMED
    }

    /// Returns this word with another level: the lowest bits of `word`, which is a bucket's word.
    pub(super) const fn at_level(self, word: u64) -> Self {
        Self(self.0 & !LEVEL.put(LEVEL.max()) | LEVEL.put(word))
    }

    /// Returns this word with another tier.
    pub(super) const fn in_tier(self, tier: usize) -> Self {
        Self(self.0 & !TIER.put(TIER.max()) | TIER.put(tier as u64))
    }

    /// Returns whether this and `other`, two words of one slot, have the same owner.
    pub(super) const fn has_owner_of(self, other: Self) -> bool {
        VERSION.get(self.0) == VERSION.get(other.0)
    }

    /// Returns the word that claims the slot for its next owner.
    const fn claimed(self) -> Self {
        Self(TIER.put(CLAIMED) | VERSION.put(VERSION.get(self.0) + 1))
    }
}

impl Slot {
    const_unless_loom! {
        const fn vacant() -> Self {
            Self { fingerprint: AtomicU64::new(0), word: AtomicU64::new(0) }
        }
    }

    /// Loads the slot's word.
    #[inline]
    pub(super) fn word(&self) -> SlotWord {
        // ORDERING: Acquire pairs with the Release in `publish`: a thread that sees a word sees its owner's
        // fingerprint, or a later one. loom-tests: keyed::refusal_uses_only_its_own_keys_word.
        SlotWord(self.word.load(Ordering::Acquire))
    }

    /// Loads the slot's owner.
    ///
    /// Call it after the word was read. If that word is swapped later, the swap has spent from this owner's bucket.
    #[inline]
    pub(super) fn owner(&self) -> Option<Fingerprint> {
        // ORDERING: Relaxed: the Acquire fence in `LiveQuota::is_current` follows, and pairs with the Release of the
        // fingerprint in `publish`. A thread that has seen the new fingerprint then sees that the word was claimed, and
        // that an older one has changed. loom-tests: keyed::refusal_uses_only_its_own_keys_word.
        Fingerprint::from_stored(self.fingerprint.load(Ordering::Relaxed))
    }

    /// Returns whether this key owns the slot. Call it after the word was read, as [`owner`](Self::owner).
    #[inline]
    pub(super) fn is_of(&self, fingerprint: Fingerprint) -> bool {
        // ORDERING: Relaxed, as in `owner`.
        self.fingerprint.load(Ordering::Relaxed) == fingerprint.get()
    }

    /// Returns which ownership of the slot this word belongs to.
    #[inline]
    pub(super) fn ownership(&self, word: SlotWord) -> Ownership {
        let slot = (ptr::from_ref(self).addr() / size_of::<Self>()) as u32;
        Ownership { slot, version: VERSION.get(word.0) as u8 }
    }

    /// Returns the slot's word if this key owns the slot, and no other key is taking it.
    #[inline]
    pub(super) fn word_of(&self, fingerprint: Fingerprint) -> Option<SlotWord> {
        let word = self.word();
        (!word.is_claimed() && self.is_of(fingerprint)).then_some(word)
    }

    /// Returns whether the slot still has this word.
    #[inline]
    pub(super) fn still_has(&self, word: SlotWord) -> bool {
        // ORDERING: Relaxed, after the fence that `owner` names.
        SlotWord(self.word.load(Ordering::Relaxed)) == word
    }

    /// Swaps the word for `new` if it is still `old`. May fail spuriously.
    #[inline]
    pub(super) fn replace(&self, old: SlotWord, new: SlotWord) -> bool {
        // ORDERING: Release, so that a thread that reads the word sees the epoch of its line, as in `OneWord::replace`;
        // a swap of another thread's word continues its release sequence. Relaxed on failure: the value read is
        // dropped. loom-tests: keyed::spend_survives_a_stale_quota.
        self.word.compare_exchange_weak(old.0, new.0, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Claims the slot, whichever key owns it, if it still has this word.
    pub(super) fn claim(&self, word: SlotWord) -> Option<Claim<'_>> {
        // ORDERING: Relaxed: the word was read with Acquire, and what is written next is released by `publish`.
        self.word.compare_exchange(word.0, word.claimed().0, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        Some(Claim { slot: self, word: word.claimed() })
    }
}

/// A claim on a slot, which is changing its owner.
pub(super) struct Claim<'a> {
    slot: &'a Slot,
    word: SlotWord,
}

impl Claim<'_> {
    /// Returns the owner before the claim.
    pub(super) fn owner(&self) -> Option<Fingerprint> {
        // No other thread writes the fingerprint while the slot is claimed.
        self.slot.owner()
    }

    /// Gives the slot to its new owner, or leaves it vacant without one, and returns the slot's word.
    pub(super) fn publish(self, owner: Option<Fingerprint>, tier: usize, word: u64) -> SlotWord {
        let word = self.word.in_tier(tier).at_level(word);
        // ORDERING: Release pairs with the fence that `owner` names: a thread that sees the fingerprint sees that the
        // slot was claimed.
        self.slot.fingerprint.store(owner.map_or(0, Fingerprint::get), Ordering::Release);
        // ORDERING: Release pairs with the Acquire in `word`: a thread that sees the word sees the fingerprint.
        self.slot.word.store(word.0, Ordering::Release);
        word
    }
}

#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Set([Slot; WAYS]);

impl Set {
    const_unless_loom! {
        pub(super) const fn vacant() -> Self {
            Self(array_of!(WAYS, Slot::vacant()))
        }
    }

    pub(super) fn slots(&self) -> &[Slot; WAYS] {
        &self.0
    }

    /// Loads the words of the four slots.
    #[inline]
    pub(super) fn words(&self) -> [SlotWord; WAYS] {
        self.0.each_ref().map(Slot::word)
    }

    /// Returns the slot that has a key's fingerprint, or any slot if none has it.
    #[expect(clippy::inline_always, reason = "measured: a call takes 1 ns longer where it is a function of its own")]
    #[inline(always)]
    fn look_for(&self, key: Fingerprint) -> Lookup<'_> {
        // The words are loaded before their owners, as `Slot::owner` says. All are loaded at once, because a load of
        // the right word alone would have to wait until the slot is known.
        let words = self.words();
        // All owners are compared without a branch, because no processor can predict which of them is the key. The
        // choice is made in pairs, so that each result depends on at most two choices, one after the other.
        let [_, is_second, is_third, is_last] = self.0.each_ref().map(|slot| slot.is_of(key));
        let (low, high) = (usize::from(is_second), 2 + usize::from(is_last));
        let is_high = is_third | is_last;
        let low_word = select_unpredictable(is_second, words[1], words[0]);
        let high_word = select_unpredictable(is_last, words[3], words[2]);
        let word = select_unpredictable(is_high, high_word, low_word);
        let slot = &self.0[select_unpredictable(is_high, high, low)];
        Lookup { slot, word, is_of_key: slot.is_of(key) }
    }
}

/// The slot that a look-up found, and the slot's word, which may be claimed.
///
/// The slot may be another key's. It is no `Option`, because then the fast path would have to test for `None` too.
#[derive(Clone, Copy)]
pub(in crate::keyed) struct Lookup<'a> {
    pub(in crate::keyed) slot: &'a Slot,
    pub(in crate::keyed) word: SlotWord,
    /// Whether the key owned the slot after the word was read.
    pub(in crate::keyed) is_of_key: bool,
}

impl<'a> Lookup<'a> {
    #[inline]
    pub(in crate::keyed) fn slot_and_word(self) -> Option<(&'a Slot, SlotWord)> {
        self.is_of_key.then_some((self.slot, self.word))
    }
}

/// The slots of a table.
#[derive(Debug)]
pub(super) enum Slots {
    Lent(&'static [Set]),
    #[cfg(feature = "alloc")]
    Allocated(Box<[Set]>),
}

impl Slots {
    /// Creates vacant slots for `capacity` keys.
    #[cfg(feature = "alloc")]
    pub(super) fn new(capacity: usize) -> Self {
        let sets = (capacity * SLOTS_PER_KEY).div_ceil(WAYS);
        Self::Allocated((0..sets).map(|_| Set::vacant()).collect())
    }

    /// Begins to load a key's first set, where nine of ten keys have their slots.
    #[inline]
    pub(super) fn fetch(&self, key: Fingerprint) {
        // A load of an atomic is not optimized away, though nothing uses its value.
        _ = self.first_set(key).slots()[0].owner();
    }

    /// Returns the slot that has a key's fingerprint, or any slot if none has it.
    #[expect(clippy::inline_always, reason = "measured: a call takes 1 ns longer where it is a function of its own")]
    #[inline(always)]
    pub(super) fn look_for(&self, key: Fingerprint) -> Lookup<'_> {
        match self.first_set(key).look_for(key) {
            found if found.is_of_key => found,
            _ => self.second_set(key).look_for(key),
        }
    }

    /// Returns the slot of a key, with the slot's word.
    ///
    /// It returns `None` if the key has no slot, or if another key is taking the slot.
    #[inline]
    pub(super) fn slot_of<'a>(&'a self, key: Fingerprint) -> Option<(&'a Slot, SlotWord)> {
        let found = self.look_for(key);
        if !found.is_of_key {
            return None;
        }
        if !found.word.is_claimed() {
            return Some((found.slot, found.word));
        }
        // The slot found may be the key's former slot, which another key is taking. The key may already have a newer
        // slot, so all eight are searched.
        let with_word = |slot: &'a Slot| Some((slot, slot.word_of(key)?));
        self.candidates(key).into_iter().flat_map(Set::slots).find_map(with_word)
    }

    /// Returns the sets that a key may have a slot in.
    #[inline]
    pub(super) fn candidates(&self, key: Fingerprint) -> [&Set; 2] {
        [self.first_set(key), self.second_set(key)]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.sets().iter().flat_map(|set| &set.0)
    }

    /// Returns the slots in chunks of at most 64.
    pub(super) fn chunks(&self) -> impl Iterator<Item = impl Iterator<Item = &Slot>> {
        self.sets().chunks(SETS_IN_CHUNK).map(|sets| sets.iter().flat_map(|set| &set.0))
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
    fn first_set(&self, key: Fingerprint) -> &Set {
        let sets = self.sets();
        &sets[key.first_set(sets.len())]
    }

    #[inline]
    fn second_set(&self, key: Fingerprint) -> &Set {
        let sets = self.sets();
        &sets[key.second_set(sets.len())]
    }
}
