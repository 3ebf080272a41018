//! A decision about a key in three steps: look, judge, take.
//!
//! A call that asks several limits looks at all of them, then reads the clock, and then judges all. Only after that it
//! takes tokens from one limit after another. So if a limit refuses, the call has taken nothing that it would have to
//! give back.

use super::KeyedLimiter;
use super::table::{Check, Fingerprint, SlotLook, SlotTake, TakeResult};
use crate::limit::{Allowed, Denied, KeyedAlgorithm};
use crate::time::Clock;
use core::hash::{BuildHasher, Hash};

/// The result of a look at a key's slot, from which `judge` decides later.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct KeyLook<'a> {
    fingerprint: Fingerprint,
    /// `None` if the slow path has to judge instead, for example because the key has no slot.
    slot: Option<SlotLook<'a>>,
}

/// The tokens of a call that was judged and allowed, but has not taken them yet.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct KeyTake<'a> {
    pub(super) fingerprint: Fingerprint,
    /// `None` if the look did not suffice. The call then decides anew when it takes.
    slot: Option<SlotTake<'a, Allowed>>,
}

impl KeyTake<'_> {
    /// Returns whether the key had a slot at the look, and that slot had the tokens.
    #[must_use]
    pub const fn is_from_slot(&self) -> bool {
        self.slot.is_some()
    }
}

impl<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm> KeyedLimiter<K, C, S, A> {
    /// Looks at a key's slot. The caller reads the clock afterwards.
    #[expect(clippy::inline_always, reason = "the answer of each step then stays in registers")]
    #[inline(always)]
    pub(crate) fn look(&self, key: &K) -> KeyLook<'_> {
        let fingerprint = self.fingerprint(key);
        KeyLook { fingerprint, slot: self.table.look_at_slot::<Check>(fingerprint) }
    }

    /// Decides about `n` tokens from a look and a later reading of the clock. Takes nothing.
    ///
    /// If the look does not suffice, it decides as [`refusal`](Self::refusal) does.
    #[expect(clippy::inline_always, reason = "the answer of each step then stays in registers")]
    #[inline(always)]
    pub(crate) fn judge<'a>(&self, key: &K, n: u32, look: KeyLook<'a>, now: u64) -> Result<KeyTake<'a>, Denied> {
        let fingerprint = look.fingerprint;
        let slot = match look.slot.and_then(|look| self.table.judge(look, Check { n }, now, &self.clock)) {
            Some(taken) => Some(taken?),
            None => match self.refusal_of(fingerprint, key, n) {
                Some(denied) => return Err(denied),
                None => None,
            },
        };
        Ok(KeyTake { fingerprint, slot })
    }

    /// Takes the tokens that a key had at the look, or decides anew if its slot has changed.
    #[expect(clippy::inline_always, reason = "the answer of each step then stays in registers")]
    #[inline(always)]
    pub(crate) fn take_judged(&self, key: &K, n: u32, take: KeyTake<'_>) -> TakeResult {
        match take.slot.and_then(SlotTake::swap::<A, Check>) {
            Some(taken) => Ok(taken),
            None => self.take_slow(take.fingerprint, key, n, self.table.look_for(take.fingerprint).slot_and_word()),
        }
    }
}
