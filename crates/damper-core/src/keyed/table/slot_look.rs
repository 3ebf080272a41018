//! A decision about a slot in three steps: look, judge, take.
//!
//! [`table`](super#terms) defines the terms.
//!
//! A call on one limit does these steps one after another. A call that asks several limits looks at all of them, reads
//! the clock once, judges all, and only then takes tokens, from one after another.
//!
//! **The order of reads** is: the slot's word, its owner, the epoch, the clock, the line, the epoch again. The second
//! load of the epoch comes with a fence. After that, a swap or another load of the word notices if the slot was not the
//! key's, as [`Slot::owner`] says.

use super::demand::{Demand, Grant};
use super::slots::{Slot, SlotWord};
use super::{Fingerprint, Origin, Table, Tier};
use crate::limit::{Denied, PerKey};
use crate::quota::Line;
use crate::time::Clock;

/// The slot that a look found, with its word and the epoch of its quota.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct SlotLook<'a> {
    pub(super) slot: &'a Slot,
    pub(super) word: SlotWord,
    pub(super) epoch: usize,
}

/// The swap that takes the tokens of an allowed demand; `T` is its [`Demand::Allowed`].
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct SlotTake<'a, T> {
    slot: &'a Slot,
    word: SlotWord,
    /// The bucket's level after the take.
    after: u64,
    at: u64,
    allowed: T,
}

impl<'a, T> SlotTake<'a, T> {
    /// Takes the tokens, unless the slot's word has changed since the look. May fail spuriously.
    #[expect(clippy::inline_always, reason = "the answer of each step then stays in registers")]
    #[inline(always)]
    pub(in crate::keyed) fn swap<A: PerKey, D: Demand<A, Allowed = T>>(self) -> Option<D::Answer<'a>> {
        let Self { slot, word, after: level, at, allowed } = self;
        let after = word.at_level(level);
        slot.replace(word, after).then(|| {
            let origin = Origin::Slot(slot, after);
            D::answer(allowed, Grant { after: level, at, tier: word.tier(), origin })
        })
    }
}

impl<A: PerKey> Table<A> {
    /// Loads what a decision about a key has to read before the clock.
    ///
    /// It returns `None` if the key has no slot, or if its quota has no limit or was not used yet.
    #[expect(clippy::inline_always, reason = "the answer of each step then stays in registers")]
    #[inline(always)]
    pub(in crate::keyed) fn look_at_slot<D: Demand<A>>(&self, key: Fingerprint) -> Option<SlotLook<'_>> {
        let (slot, word) = self.look_for(key).slot_and_word()?;
        let epoch = self.tier_of_word::<D>(word)?.quota.limited_epoch()?;
        Some(SlotLook { slot, word, epoch })
    }

    /// Decides about a demand by a look, and by a reading of the clock that came after it. Writes nothing.
    ///
    /// It returns `None` if the slot or the quota changed meanwhile, or if the bucket is below empty.
    #[expect(clippy::inline_always, reason = "the answer of each step then stays in registers")]
    #[inline(always)]
    pub(in crate::keyed) fn judge<'a, D: Demand<A>>(
        &self,
        look: SlotLook<'a>,
        demand: D,
        now: u64,
        clock: &impl Clock,
    ) -> Option<Result<SlotTake<'a, D::Allowed>, Denied>> {
        Self::judge_under(self.tier_of_word::<D>(look.word)?, look, demand, || now, clock)
    }

    /// Returns the tier on whose line a demand is judged; `None` if the slot is changing its owner.
    #[inline]
    fn tier_of_word<D: Demand<A>>(&self, word: SlotWord) -> Option<&Tier> {
        if D::BRINGS_ITS_DEPTH {
            // With plans, the tiers are the classes of plans, and all have the same line.
            return (!word.is_claimed()).then_some(&self.tiers.first);
        }
        // A slot that is changing its owner is in no tier.
        self.tiers.get(word.tier())
    }

    /// Decides as [`judge`](Self::judge) does, under the quota of a tier.
    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    pub(super) fn judge_under<'a, D: Demand<A>>(
        tier: &Tier,
        SlotLook { slot, word, epoch }: SlotLook<'a>,
        demand: D,
        now: impl FnOnce() -> u64,
        clock: &impl Clock,
    ) -> Option<Result<SlotTake<'a, D::Allowed>, Denied>> {
        if demand.tokens() == 0 || D::BRINGS_ITS_DEPTH && !tier.expects_debt_of(demand.deepest_debt()) {
            return None;
        }
        // The clock is read before the line, whose words then need fewer registers.
        let now = now();
        let mut line: A::Line = tier.quota.line_for_fast_path(epoch);
        // Only windows need the deepest debt that was moved into the tier, because a token bucket below empty is left
        // to the slow path anyway.
        if A::BY_WINDOWS {
            tier.expect_moved(&mut line);
        }
        let at = line.reading(now);
        let judged = demand.decide_straight(&line, word.level(), at, clock)?;
        if !tier.quota.is_current(epoch) {
            return None;
        }
        // No closure gets the line here. A single call that took a reference to it would force it into memory.
        match judged {
            Ok((after, allowed)) => Some(Ok(SlotTake { slot, word, after, at, allowed })),
            // If the slot has another word by now, the refusal may be by the bucket of another key.
            Err(denied) if slot.still_has(word) => Some(Err(denied)),
            Err(_) => None,
        }
    }
}
