//! A decision about a slot in three steps, for calls that ask several limits before they take of any.
//!
//! The steps read and write in the order of [`Table::take_fast`]: the slot's word, its owner, the epoch, the clock, the line,
//! the epoch again. A call may do the first step for several limits before it reads the clock.

use super::slots::{Slot, SlotWord};
use super::{Fingerprint, Origin, Receipt, Table};
use crate::limit::{Allowed, Denied, KeyedAlgorithm};
use crate::quota::Line;
use crate::time::Clock;

/// The words that a look at a key's slot loaded.
#[derive(Debug)]
pub(in crate::keyed) struct SlotLook<'a> {
    slot: &'a Slot,
    word: SlotWord,
    epoch: usize,
}

/// The swap that takes the tokens of an allowed call, and what it returns if it succeeds.
#[derive(Debug)]
pub(in crate::keyed) struct SlotTake<'a> {
    slot: &'a Slot,
    word: SlotWord,
    after: SlotWord,
    receipt: Receipt,
    allowed: Allowed,
}

impl SlotTake<'_> {
    /// Takes the tokens, unless the word has changed since the look. May fail spuriously.
    #[expect(clippy::inline_always, reason = "the answer of each step then stays in registers")]
    #[inline(always)]
    pub(in crate::keyed) fn swap(self) -> Option<(Allowed, Receipt)> {
        (self.after == self.word || self.slot.replace(self.word, self.after)).then_some((self.allowed, self.receipt))
    }
}

impl<A: KeyedAlgorithm> Table<A> {
    /// Loads what a decision about a key depends on before the clock is read.
    ///
    /// `None` if the key has no slot, or the quota no limit or no line yet.
    #[expect(clippy::inline_always, reason = "the answer of each step then stays in registers")]
    #[inline(always)]
    pub(in crate::keyed) fn look_at_slot(&self, key: Fingerprint) -> Option<SlotLook<'_>> {
        let (slot, word) = self.look_for(key).slot_and_word()?;
        // A slot that changes its owner is in no tier.
        let epoch = self.tiers.get(word.tier())?.quota.limited_epoch()?;
        Some(SlotLook { slot, word, epoch })
    }

    /// Decides about `n` tokens by a look and a reading of the clock after it. Writes nothing.
    ///
    /// It returns `None` if the slot or the quota changed meanwhile, or if the bucket is below empty.
    #[expect(clippy::inline_always, reason = "the answer of each step then stays in registers")]
    #[inline(always)]
    pub(in crate::keyed) fn judge<'a>(
        &self,
        SlotLook { slot, word, epoch }: SlotLook<'a>,
        n: u32,
        now: u64,
        clock: &impl Clock,
    ) -> Option<Result<SlotTake<'a>, Denied>> {
        if n == 0 {
            return None;
        }
        let tier = self.tiers.get(word.tier())?;
        let mut line: A::Line = tier.quota.line_for_fast_path(epoch);
        if A::BY_WINDOWS {
            tier.expect_moved(&mut line);
        }
        let at = line.reading(now);
        let taken = A::take_straight(&line, word.level(), at, n, clock)?;
        if !tier.quota.is_current(epoch) {
            return None;
        }
        match taken {
            Ok((after, allowed)) => {
                let (level, after) = (after, word.at_level(after));
                let receipt = Receipt::new(A::receipt(level, at), word.tier(), Origin::Slot(slot, after));
                Some(Ok(SlotTake { slot, word, after, receipt, allowed }))
            }
            // Only then the refusal is by this key's bucket.
            Err(denied) => slot.still_has(word).then_some(Err(denied)),
        }
    }
}
