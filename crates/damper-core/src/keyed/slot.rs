//! A slot of the table: whose it is, and its bucket.
//!
//! ```text
//! word  63     60 59  56 55                                    0
//!      | VERSION | TIER | LEVEL                                 |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | LEVEL | 56 | what the algorithm keeps: of a token bucket, the lowest bits of the position at which it is full; all ones while the slot changes its owner |
//! | TIER | 4 | which quota |
//! | VERSION | 4 | changes of the owner; wraps |
//!
//! **Who owns it** is told by a fingerprint beside the word: 64 bits of the key's hash, 0 for nobody. A slot changes
//! its owner by first exchanging the word for a claimed one of the next version; then the fingerprint is written, and
//! then the new owner's word. So:
//!
//! - Who reads the word first, and then finds its own fingerprint, and then exchanges that very word, still owned the
//!   slot.
//! - Who refuses exchanges nothing, and so looks at the word again after the fingerprint: only if it is still the same
//!   was it the bucket of that key that the refusal was computed from.

use super::table::Fingerprint;
use crate::limit::LEVEL_BITS;
use crate::sync::{AtomicU64, Field, Ordering, const_unless_loom};

const LEVEL: Field = Field::lowest(LEVEL_BITS);
const TIER: Field = LEVEL.then(4);
const VERSION: Field = TIER.then(4);
const _: () = assert!(VERSION.end() == u64::BITS, "fields must tile the word");

/// How many quotas there can be.
pub(super) const MOST_TIERS: usize = TIER.max() as usize + 1;

/// The level of a slot that changes its owner.
const CLAIMED: u64 = LEVEL.max();

#[derive(Debug)]
pub(super) struct Slot {
    fingerprint: AtomicU64,
    word: AtomicU64,
}

/// What a slot's word holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(u64);

impl Word {
    pub(super) const fn tier(self) -> usize {
        TIER.get(self.0) as usize
    }

    /// What is kept of the bucket's word.
    pub(super) const fn level(self) -> u64 {
        LEVEL.get(self.0)
    }

    /// Whether the slot is changing its owner.
    pub(super) const fn is_claimed(self) -> bool {
        LEVEL.get(self.0) == CLAIMED
    }

    /// The same owner's, with the lowest bits of another word.
    pub(super) const fn at_level(self, word: u64) -> Self {
        Self(self.0 & !LEVEL.put(LEVEL.max()) | level(word))
    }

    /// The same owner's, in another tier.
    pub(super) const fn in_tier(self, tier: usize) -> Self {
        Self(self.0 & !TIER.put(TIER.max()) | TIER.put(tier as u64))
    }

    /// The claimed word of the next owner.
    const fn claimed(self) -> Self {
        Self(VERSION.put(VERSION.get(self.0) + 1) | TIER.put(TIER.get(self.0)) | CLAIMED)
    }
}

/// The lowest bits of a word: never those of a claimed slot, but one unit more.
const fn level(word: u64) -> u64 {
    match LEVEL.get(word) {
        CLAIMED => 0,
        level => level,
    }
}

impl Slot {
    const_unless_loom! {
        pub(super) const fn empty() -> Self {
            Self { fingerprint: AtomicU64::new(0), word: AtomicU64::new(0) }
        }
    }

    /// Its word.
    #[inline]
    pub(super) fn word(&self) -> Word {
        // ORDERING: Acquire pairs with the Release in `publish`: who sees a word sees its owner's fingerprint, or a
        // later one. loom-tests: keyed::nobody_is_refused_on_another_s_word.
        Word(self.word.load(Ordering::Acquire))
    }

    /// Whose it is, asked after the word was read: whoever exchanges that word then took it from that owner.
    #[inline]
    pub(super) fn owner(&self) -> Option<Fingerprint> {
        // ORDERING: Relaxed: the Acquire fence in `LiveQuota::is_current` follows, and pairs with the Release of the
        // fingerprint in `publish`. Who has seen the new one sees then that the word was claimed, and that an older one
        // has changed. loom-tests: keyed::nobody_is_refused_on_another_s_word.
        Fingerprint::of_owner(self.fingerprint.load(Ordering::Relaxed))
    }

    /// Whether it is this one's, asked as [`owner`](Self::owner) is.
    #[inline]
    pub(super) fn is_of(&self, fingerprint: Fingerprint) -> bool {
        self.owner() == Some(fingerprint)
    }

    /// Its word, if it is this one's, and nobody is taking it from him.
    #[inline]
    pub(super) fn word_of(&self, fingerprint: Fingerprint) -> Option<Word> {
        let word = self.word();
        (!word.is_claimed() && self.is_of(fingerprint)).then_some(word)
    }

    /// Whether the word is still the same.
    #[inline]
    pub(super) fn still_has(&self, word: Word) -> bool {
        // ORDERING: Relaxed, after the fence that `owner` speaks of.
        Word(self.word.load(Ordering::Relaxed)) == word
    }

    /// Puts `new` in the place of `old`, if that is still there.
    #[inline]
    pub(super) fn replace(&self, old: Word, new: Word) -> bool {
        // ORDERING: Release, so that who reads the word sees the epoch of its line, as in `OneWord::replace`; and an
        // exchange upon another's continues its release sequence. Relaxed on failure: the value read is dropped.
        self.word.compare_exchange_weak(old.0, new.0, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Takes the slot from its owner, if its word is still the same; whoever it was.
    pub(super) fn claim(&self, word: Word) -> Option<Claim<'_>> {
        // ORDERING: Relaxed: the word was read with Acquire, and what is written next is released by `publish`.
        self.word.compare_exchange(word.0, word.claimed().0, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        Some(Claim { slot: self, word: word.claimed() })
    }
}

/// A slot that changes its owner.
pub(super) struct Claim<'a> {
    slot: &'a Slot,
    word: Word,
}

impl Claim<'_> {
    /// Whose it was.
    pub(super) fn owner(&self) -> Option<Fingerprint> {
        // Nobody else writes it while it is claimed.
        self.slot.owner()
    }

    /// Gives the slot to its new owner, or to nobody.
    pub(super) fn publish(self, owner: Option<Fingerprint>, tier: usize, word: u64) {
        // ORDERING: Release pairs with the fence that `owner` speaks of: who sees the fingerprint sees that the slot
        // was claimed.
        self.slot.fingerprint.store(owner.map_or(0, Fingerprint::get), Ordering::Release);
        // ORDERING: Release pairs with the Acquire in `word`: who sees the word sees the fingerprint.
        self.slot.word.store(self.word.in_tier(tier).at_level(word).0, Ordering::Release);
    }
}
