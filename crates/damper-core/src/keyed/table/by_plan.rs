//! The table's operations for keys whose quota comes with the call, as a plan.
//!
//! [`table`](super#terms) defines the terms.

use super::demand::{Fit, PlannedCheck};
use super::{Fingerprint, Receipt, Table, WhenFull};
use crate::limit::{ByPlan, Denied, PlannedLevel};
use crate::quota::CLASSES;
use crate::quota::{Plan, PlanClock};
use crate::time::Clock;

impl Table<ByPlan> {
    /// Creates a table for `capacity` keys, with `shared_words` words of memory for keys without a slot.
    pub(in crate::keyed) fn by_plan(
        capacity: usize,
        shared_words: usize,
        when_full: WhenFull,
        clock: &impl Clock,
    ) -> Self {
        let others = [PlanClock::QUOTA; CLASSES - 1];
        let table = Self::new(PlanClock::QUOTA, Some(&others), PlanClock::START, capacity, shared_words, when_full);
        // Each class of plans is a tier of the table. The fast path uses the first tier's line for all classes. Perhaps
        // no call ever brings a plan of the first class, so this read starts that line.
        table.tiers.first.quota.read::<PlanClock>(clock);
        table
    }

    /// Takes the tokens that a call demands, or refuses it.
    #[expect(clippy::inline_always, reason = "the unused part of the answer is then not computed")]
    #[inline(always)]
    pub(in crate::keyed) fn take_planned(
        &self,
        key: Fingerprint,
        demand: PlannedCheck<'_>,
        clock: &impl Clock,
    ) -> Result<(Fit, Receipt), Denied> {
        let found = self.look_for(key);
        if found.is_of_key
            && !found.word.is_claimed()
            && let Some(taken) = self.take_fast(found.slot, found.word, demand, clock)
        {
            return taken;
        }
        self.take_planned_slow(key, demand, clock)
    }

    /// Takes the tokens that a call demands, or refuses it, after the fast path could not decide.
    #[cold]
    pub(in crate::keyed) fn take_planned_slow(
        &self,
        key: Fingerprint,
        demand: PlannedCheck<'_>,
        clock: &impl Clock,
    ) -> Result<(Fit, Receipt), Denied> {
        // The tiers have to know the deepest debt that this plan allows before a word with such a debt is written. A
        // thread that reads a debt deeper than its tier knows of may conclude that the clock stepped back. It would
        // then drop the debt.
        self.tiers.expect_debt_of(demand.plan.longest_debt());
        loop {
            let in_slot = self.take(key, demand, clock);
            if let Some(taken) = in_slot.or_else(|| self.first_sight(key, demand, clock, || Some(demand.plan.class())))
            {
                return taken;
            }
        }
    }

    /// Returns the refusal that this demand would get now, or `None` if it would be allowed. Writes nothing.
    pub(in crate::keyed) fn refusal_planned(
        &self,
        key: Fingerprint,
        demand: PlannedCheck<'_>,
        clock: &impl Clock,
    ) -> Option<Denied> {
        let PlannedCheck { plan, n, keep } = demand;
        let of_tokens =
            self.peek(key, clock, || plan.class(), |_, level, at| ByPlan::take(plan, level, at, n, keep).err());
        of_tokens.or_else(|| self.refusal_without_slot(key, demand, clock, plan.class()))
    }

    /// Books `n` tokens of a key under a plan after the fact, and returns how many it booked.
    pub(in crate::keyed) fn charge_planned(&self, key: Fingerprint, plan: &Plan, n: u32, clock: &impl Clock) -> u32 {
        if plan.is_unlimited() {
            return n;
        }
        self.tiers.expect_debt_of(plan.longest_debt());
        let charge = |_: &PlanClock, level, at| ByPlan::charge(plan, level, at, n);
        loop {
            let in_slot = self.book_in_slot(key, clock, charge);
            if let Some(booked) = in_slot.or_else(|| self.book_without_slot(key, clock, || Some(plan.class()), charge))
            {
                return booked;
            }
        }
    }

    /// Converts what a key owes under the plan `old` to a debt under the plan `new`.
    ///
    /// It returns whether the key's bucket changed. A key without a slot has no bucket that could change.
    pub(in crate::keyed) fn replan(&self, key: Fingerprint, old: &Plan, new: &Plan, clock: &impl Clock) -> bool {
        self.tiers.expect_debt_of(new.longest_debt());
        let replanned = self.visit(key, clock, |_, level, at| {
            let after = ByPlan::replanned(old, new, level, at);
            (after, after != level)
        });
        replanned.unwrap_or(false)
    }

    /// Gives back the `n` tokens of a receipt, except those that were refilled since the take.
    pub(in crate::keyed) fn roll_back_planned(
        &self,
        key: Fingerprint,
        plan: &Plan,
        n: u32,
        receipt: Receipt,
        clock: &impl Clock,
    ) {
        self.give_back_taken(key, receipt, clock, |_, level, at, taken_at| {
            ByPlan::roll_back(plan, level, at, n, taken_at)
        });
    }

    /// Gives back up to `n` of the tokens of a receipt, even if they were refilled since the take.
    ///
    /// Returns what [`give_back_taken`](Self::give_back_taken) returns. Tokens for which the bucket has no room are lost.
    pub(in crate::keyed) fn refund_planned(
        &self,
        key: Fingerprint,
        plan: &Plan,
        n: u32,
        receipt: Receipt,
        clock: &impl Clock,
    ) -> bool {
        self.give_back_taken(key, receipt, clock, |_, level, at, _| ByPlan::refund(plan, level, at, n).1)
    }
}
