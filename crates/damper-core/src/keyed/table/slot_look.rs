//! A decision about a slot in three steps: look, judge, take.
//!
//! [`table`](super#terms) defines the terms.
//!
//! A call on one limit does these steps one after another. A call that asks several limits looks at all of them, then
//! reads the clock, and then judges all. Only after that it takes tokens from one limit after another.
//!
//! **The order of reads** is: the slot's word, the slot's owner, the epoch of the quota, the clock, the line, the epoch
//! again. An Acquire fence comes before the second load of the epoch. After that, the word is swapped or loaded again.
//! If the slot did not belong to the key throughout, the word has changed by then, as [`Slot::owner`] explains.

use super::demand::{Demand, Grant};
use super::slots::{Slot, SlotWord};
use super::{Fingerprint, Origin, Table, Tier};
use crate::limit::{Denied, PerKey};
use crate::quota::Line;
use crate::time::Clock;

/// The slot that a look found, with its word and the epoch of the quota that the word is under.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct SlotLook<'a> {
    pub(super) slot: &'a Slot,
    pub(super) word: SlotWord,
    pub(super) epoch: usize,
}

/// The swap that takes the tokens of an allowed demand. `T` is [`Demand::Allowed`] of that demand.
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

    /// Decides about a demand from a look and a later reading of the clock. Writes nothing.
    ///
    /// It returns `None` if only the slow path can decide: for example, if the slot or the quota changed meanwhile, or
    /// if the bucket owes more than a burst.
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
            // With plans, the tiers are the classes of plans. All classes are judged on the line of the first.
            return (!word.is_claimed()).then_some(&self.tiers.first);
        }
        // While a slot changes its owner, its word names a tier that does not exist.
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
        // The clock is read before the line is loaded, so no registers have to keep the line during that call.
        let now = now();
        let mut line: A::Line = tier.quota.line_for_fast_path(epoch);
        // A key that was moved to this tier may owe more than the quota allows. Only windows must expect that here. A
        // token bucket that owes so much is below empty, and the slow path decides about it.
        if A::BY_WINDOWS {
            tier.expect_moved(&mut line);
        }
        let at = line.reading(now);
        let judged = demand.decide_straight(&line, word.level(), at, clock)?;
        if !tier.quota.is_current(epoch) {
            return None;
        }
        // The line is passed to no closure here. A reference to it in a single call would force the line out of
        // registers into memory.
        match judged {
            Ok((after, allowed)) => Some(Ok(SlotTake { slot, word, after, at, allowed })),
            // If the slot has another word by now, the refusal may have been computed from another key's bucket.
            Err(denied) if slot.still_has(word) => Some(Err(denied)),
            Err(_) => None,
        }
    }
}
