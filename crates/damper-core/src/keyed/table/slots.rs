//! The slots of a table, each with the bucket of one key.
//!
//! A key's hash chooses the slots that the key can have. The version in a slot's word changes with the slot's owner.
//! [`table`](super#terms) defines the terms.
//!
//! # Sets
//!
//! The table is set-associative, like the cache of a processor. A *set* is four slots in one cache line. A key's hash
//! chooses two sets, a first and a second, and the key's slot is in one of them. A new key gets a slot in its first
//! set, unless at least three slots of that set are taken and the second set is emptier. No key is stored, and nothing
//! is allocated after construction.
//!
//! There are two slots for each key of the capacity. Suppose that as many keys owe tokens as the capacity says. Then 3
//! keys in 10,000 find no slot when a table is filled once, and 35 in 10,000 once keys come and go. One hit in ten
//! looks at two cache lines. Two other rules were worse on one of these counts:
//!
//! - If each key took the emptier of its sets, only 1 key in 100,000 would find no slot. But 28 hits in 100 would look
//!   at two lines.
//! - If each key took its first set until that set is full, only 4 hits in 100 would look at two lines. But 36 keys in
//!   10,000 would find no slot.
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
//! **The owner** is named by a *fingerprint* beside the word. It is 64 bits of the key's hash, or 0 in a vacant slot. A
//! slot changes its owner in three steps:
//!
//! 1. The word is swapped for a claimed word of the next version.
//! 2. The fingerprint of the new owner is written.
//! 3. The word of the new owner is written.
//!
//! This has two consequences:
//!
//! - Suppose that a thread reads the word, then finds its key's fingerprint, and then swaps that same word. Then its
//!   key owned the slot throughout.
//! - A refusal swaps nothing, so the thread loads the word again after the fingerprint. If the word is still the same,
//!   the refusal was computed from the key's own bucket. Otherwise the thread decides again.
//!
//! **A level** of a token bucket is a position on the line of its quota, modulo 2^56. With ticks of a nanosecond
//! positions wrap after 200 days or more. If a level is further ahead of the present position than the deepest debt, it
//! counts as a position in the past, so its bucket is full.

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

/// The number of sets in a chunk, the part of a table that a census counts at one reading of the clock.
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

/// The place for the bucket of one key, its owner.
///
/// It has the owner's fingerprint, and the word with the bucket's state.
#[derive(Debug)]
pub(in crate::keyed) struct Slot {
    fingerprint: AtomicU64,
    word: AtomicU64,
}

/// Identifies the time during which one key owns a slot.
///
/// It names the slot, and says how often the slot had changed its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ownership {
    /// The lowest 32 bits of `address / size_of::<Slot>()`, where `address` is that of the slot.
    slot: u32,
    /// How often the slot had changed its owner, modulo 16.
    version: u8,
}

/// The word of a slot, as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::keyed) struct SlotWord(u64);

impl SlotWord {
    /// Returns the tier of the slot's owner. The word of a claimed slot names a tier that does not exist.
    pub(in crate::keyed) const fn tier(self) -> usize {
        TIER.get(self.0) as usize
    }

    /// Returns the level: the part of the bucket's word that the slot keeps.
    pub(super) const fn level(self) -> u64 {
        LEVEL.get(self.0)
    }

    /// Returns whether the slot is changing its owner.
    pub(in crate::keyed) const fn is_claimed(self) -> bool {
        TIER.get(self.0) == CLAIMED
    }

    /// Returns this slot word with another level: the lowest 56 bits of `word`, the word of a bucket.
    pub(super) const fn at_level(self, word: u64) -> Self {
        Self(self.0 & !LEVEL.put(LEVEL.max()) | LEVEL.put(word))
    }

    /// Returns this word with another tier.
    pub(super) const fn in_tier(self, tier: usize) -> Self {
        Self(self.0 & !TIER.put(TIER.max()) | TIER.put(tier as u64))
    }

    /// Returns whether this word and `other` have the same version, and so the same owner.
    ///
    /// Both must be words of the same slot.
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
        // ORDERING: Acquire pairs with the Release store of the word in `publish`. A thread that sees an owner's word
        // then sees that owner's fingerprint, or a later one, but no earlier one. It also pairs with the Release in
        // `replace`. loom-tests: keyed::refusal_uses_only_its_own_keys_word.
        SlotWord(self.word.load(Ordering::Acquire))
    }

    /// Loads the slot's owner.
    ///
    /// Call it after the word was read. If a later swap of that word succeeds, it spent from this owner's bucket.
    #[inline]
    pub(super) fn owner(&self) -> Option<Fingerprint> {
        // ORDERING: Relaxed. The Acquire fence in `LiveQuota::is_current` follows this load, and pairs with the Release
        // store of the fingerprint in `publish`. If this load sees a new owner's fingerprint, what follows the fence
        // sees that the slot was claimed: a swap or second load of an older word then finds that the word has changed.
        // loom-tests: keyed::refusal_uses_only_its_own_keys_word.
        Fingerprint::from_stored(self.fingerprint.load(Ordering::Relaxed))
    }

    /// Returns whether this key owns the slot. Like [`owner`](Self::owner), call it after the word was read.
    #[inline]
    pub(super) fn is_of(&self, fingerprint: Fingerprint) -> bool {
        // ORDERING: Relaxed, for the reason that `owner` gives.
        self.fingerprint.load(Ordering::Relaxed) == fingerprint.get()
    }

    /// Returns the ownership of the slot under which this word was written.
    #[inline]
    pub(super) fn ownership(&self, word: SlotWord) -> Ownership {
        let slot = (ptr::from_ref(self).addr() / size_of::<Self>()) as u32;
        Ownership { slot, version: VERSION.get(word.0) as u8 }
    }

    /// Returns the slot's word if this key owns the slot and no other key is taking the slot.
    #[inline]
    pub(super) fn word_of(&self, fingerprint: Fingerprint) -> Option<SlotWord> {
        let word = self.word();
        (!word.is_claimed() && self.is_of(fingerprint)).then_some(word)
    }

    /// Returns whether the slot still has this word.
    #[inline]
    pub(super) fn still_has(&self, word: SlotWord) -> bool {
        // ORDERING: Relaxed. The Acquire fence in `LiveQuota::is_current` comes before this load. So if `owner` saw a
        // new fingerprint, this load sees that the word has changed.
        SlotWord(self.word.load(Ordering::Relaxed)) == word
    }

    /// Swaps the word for `new` if it is still `old`. May fail spuriously.
    #[inline]
    pub(super) fn replace(&self, old: SlotWord, new: SlotWord) -> bool {
        // ORDERING: Release pairs with the Acquire in `word`. A thread that reads the new word then sees the epoch
        // under which it was computed, and does not judge it by an older quota. A swap of a word that another thread
        // wrote continues that thread's release sequence. Relaxed on failure: the value read is dropped. loom-tests:
        // keyed::spend_survives_a_stale_quota.
        self.word.compare_exchange_weak(old.0, new.0, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Claims the slot, whichever key owns it, if it still has this word.
    pub(super) fn claim(&self, word: SlotWord) -> Option<Claim<'_>> {
        // ORDERING: Relaxed: the word was read with Acquire, and what is written next is released by the stores in
        // `publish`.
        self.word.compare_exchange(word.0, word.claimed().0, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        Some(Claim { slot: self, word: word.claimed() })
    }
}

/// The right of one thread to give a slot to a new owner. No other thread writes to the slot meanwhile.
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

    /// Gives the slot to `owner`, or leaves it vacant if `owner` is `None`, and returns the slot's new word.
    pub(super) fn publish(self, owner: Option<Fingerprint>, tier: usize, word: u64) -> SlotWord {
        let word = self.word.in_tier(tier).at_level(word);
        // ORDERING: Release pairs with the Acquire fence in `LiveQuota::is_current`: a thread that sees the fingerprint
        // before that fence sees after it that the slot was claimed.
        self.slot.fingerprint.store(owner.map_or(0, Fingerprint::get), Ordering::Release);
        // ORDERING: Release pairs with the Acquire in `word`: a thread that sees the word sees the fingerprint too.
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
        // The words are loaded before their owners, as `Slot::owner` requires. All four words are loaded at once. A
        // load of the key's word alone would have to wait until the key's slot is known.
        let words = self.words();
        // All owners are compared without a branch, because no processor can predict which of the four slots is the
        // key's. The choice is made in pairs, so each result depends on at most two consecutive choices.
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

/// The slot that `look_for` found, and the slot's word, which may be claimed.
///
/// If the key has no slot, `slot` is any slot, and `is_of_key` is false. An `Option` would make the fast path test for
/// `None` too.
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

    /// Begins to load a key's first set. Nine of ten keys have their slots in their first set.
    #[inline]
    pub(super) fn fetch(&self, key: Fingerprint) {
        // The compiler does not remove this load of an atomic, though nothing uses its value.
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
        // This may be the key's former slot, which another key is just taking. The key may already have a newer slot,
        // so all eight slots are searched.
        let with_word = |slot: &'a Slot| Some((slot, slot.word_of(key)?));
        self.candidates(key).into_iter().flat_map(Set::slots).find_map(with_word)
    }

    /// Returns the two sets in which a key may have a slot.
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
