//! The word of a slot.
//!
//! ```text
//!  63         42      41      40         0
//! | FINGERPRINT | PROVISIONAL |   LEVEL   |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | LEVEL | 41 | the time at which the key's bucket is full, in units of 256 ns; of a provisional word its nonce |
//! | PROVISIONAL | 1 | whether the key is only about to get the slot |
//! | FINGERPRINT | 22 | a part of the key's hash, not 0 |
//!
//! A word of 0 is a vacant slot.

use crate::limit::PlannedLevel;
use crate::quota::COARSE_TIME_BITS;
use crate::sync::Field;

/// A slot of a table of words.
const LEVEL: Field = Field::lowest(COARSE_TIME_BITS);
const PROVISIONAL: Field = LEVEL.then(1);
const FINGERPRINT: Field = PROVISIONAL.then(22);
const _: () = assert!(FINGERPRINT.end() == u64::BITS, "fields must tile the word");

/// The bits of a nonce.
pub(super) const NONCE_BITS: u32 = COARSE_TIME_BITS;

/// The largest fingerprint.
pub(super) const MOST_FINGERPRINT: u64 = FINGERPRINT.max();

/// The layout of a slot's level. All calls of a table bring the same plan.
pub(super) enum SlotLevel {}

impl PlannedLevel for SlotLevel {
    const FULL_AT: Field = LEVEL;
    const TAG: Option<Field> = None;
}

/// The value of a slot's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Slot(pub(super) u64);

impl Slot {
    pub(super) const VACANT: Self = Self(0);

    /// Returns the word of a key that is about to get the slot.
    ///
    /// The nonce differs from that of every other provisional word, also one of the same key: a process confirms its own word only.
    pub(super) const fn provisional(fingerprint: u64, nonce: u64) -> Self {
        Self(FINGERPRINT.put(fingerprint) | PROVISIONAL.put(1) | LEVEL.put(nonce))
    }

    /// Returns the word of a key whose slot it is.
    pub(super) const fn confirmed(fingerprint: u64, level: u64) -> Self {
        Self(FINGERPRINT.put(fingerprint) | LEVEL.put(level))
    }

    pub(super) const fn is_vacant(self) -> bool {
        self.0 == 0
    }

    pub(super) const fn is_provisional(self) -> bool {
        PROVISIONAL.get(self.0) != 0
    }

    /// Returns whether the slot is this key's, or about to be.
    pub(super) const fn names(self, fingerprint: u64) -> bool {
        FINGERPRINT.get(self.0) == fingerprint
    }

    /// Returns whether the slot is this key's.
    #[inline]
    pub(super) const fn is_of(self, fingerprint: u64) -> bool {
        self.0 >> LEVEL.end() == fingerprint << 1
    }

    /// Returns the level of a confirmed word.
    #[inline]
    pub(super) const fn level(self) -> u64 {
        LEVEL.get(self.0)
    }

    /// Returns a confirmed word with another level.
    #[inline]
    pub(super) const fn with_level(self, level: u64) -> Self {
        Self(self.0 & !LEVEL.mask() | LEVEL.put(level))
    }
}
