//! The decision about a call by all words of its path.
//!
//! A *word* here is the bucket of one level and one dimension, stored in an atomic word. A call decides in three steps:
//!
//! 1. It loads all words of its path.
//! 2. It reads the clock once, and judges whether each word has the tokens.
//! 3. It takes the tokens by a compare-and-swap of each word, in the order of the levels.
//!
//! If a word has changed since it was loaded, the call judges it anew. If that word lacks the tokens now, the call
//! gives back what it took from the earlier words.
//!
//! **A level of guarantees** refuses no call. If its word has the tokens, the call takes them and is *guaranteed*: it
//! may take the last token of the next level. Otherwise the call *borrows*: it takes nothing from the guarantee, and at
//! the next level it must leave the part of the burst that is kept for guaranteed calls. Both kinds of calls take from
//! the same word of the next level, so together they never exceed its plan.

use super::answer::Tightest;
use super::{PerWord, QuotaTree, Step, TreeAllowed, TreeDenied, per_word};
use crate::keyed::table::{Fingerprint, PlannedCheck, Receipt, SlotTake};
use crate::limit::Denied;
use crate::quota::Plan;
use crate::time::Clock;

/// The plans of a path, by level and dimension.
pub(super) trait Plans<const LEVELS: usize, const DIMENSIONS: usize> {
    fn plan(&self, level: usize, dimension: usize) -> &Plan;
}

/// The plans that a caller passes.
impl<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize> Plans<LEVELS, DIMENSIONS>
    for [Step<'_, K, DIMENSIONS>; LEVELS]
{
    #[inline]
    fn plan(&self, level: usize, dimension: usize) -> &Plan {
        self[level].1[dimension]
    }
}

/// The copies of the plans that a call keeps while it waits.
impl<const LEVELS: usize, const DIMENSIONS: usize> Plans<LEVELS, DIMENSIONS> for PerWord<Plan, LEVELS, DIMENSIONS> {
    fn plan(&self, level: usize, dimension: usize) -> &Plan {
        &self[level][dimension]
    }
}

/// The buckets of a call, their plans, and its costs.
pub(super) struct Call<'c, P, const LEVELS: usize, const DIMENSIONS: usize> {
    pub(super) buckets: &'c PerWord<Fingerprint, LEVELS, DIMENSIONS>,
    pub(super) plans: &'c P,
    pub(super) costs: [u32; DIMENSIONS],
}

impl<'c, P: Plans<LEVELS, DIMENSIONS>, const LEVELS: usize, const DIMENSIONS: usize> Call<'c, P, LEVELS, DIMENSIONS> {
    #[inline]
    pub(super) fn plan(&self, level: usize, dimension: usize) -> &'c Plan {
        self.plans.plan(level, dimension)
    }

    /// Returns whether the call takes anything from a word.
    #[inline]
    pub(super) fn takes(&self, level: usize, dimension: usize) -> bool {
        self.costs[dimension] > 0 && !self.plan(level, dimension).is_unlimited()
    }
}

/// Whether a word has the tokens of a call.
enum Judged<'a> {
    /// The tokens are there, and this swap takes them.
    Fits(SlotTake<'a, u32>),
    Refused,
    /// The loaded word is not enough to decide.
    ///
    /// For example, the key has no slot, or the slot is changing its owner. A word from which the call takes nothing is
    /// undecided too.
    Undecided,
}

/// The summary of the judgements of all words.
///
/// It does not contain the judgements, because each copy of the summary would then copy them too.
#[derive(Clone, Copy)]
struct Outlook {
    /// Whether all words have the tokens. Words of guarantees may lack them.
    fits: bool,
    /// Whether any word, except those of guarantees, refused the call or could not be judged.
    may_refuse: bool,
    /// Whether the call borrows from a next level, because a guarantee lacks the tokens.
    borrows: bool,
}

/// The permission of a call and a receipt for each word that it took from, or the refusal.
type TakeResult<const LEVELS: usize, const DIMENSIONS: usize> =
    Result<(TreeAllowed, PerWord<Option<Receipt>, LEVELS, DIMENSIONS>), TreeDenied>;

/// The refusal by a word, with the level and the dimension of this word.
pub(super) type Refused = (Denied, (usize, usize));

/// Returns the refusal with the longer wait, or `one` if both waits are equal.
pub(super) fn longer(one: Option<Refused>, other: Option<Refused>) -> Option<Refused> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other.0.outlasts(&one.0) { other } else { one }),
        (one, other) => one.or(other),
    }
}

impl<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S> QuotaTree<K, LEVELS, DIMENSIONS, C, S> {
    /// Takes the costs from all words of a path, or from none.
    pub(super) fn take(
        &self,
        call: &Call<'_, impl Plans<LEVELS, DIMENSIONS>, LEVELS, DIMENSIONS>,
    ) -> TakeResult<LEVELS, DIMENSIONS> {
        let mut outlook = Outlook { fits: true, may_refuse: false, borrows: false };
        let words = self.judge(call, &mut outlook);
        let mut tightest = Tightest::NONE;
        let mut is_as_judged = outlook.fits;
        // `per_word` fills the receipts in place. Once a swap has failed because a word changed, the closure takes
        // nothing more.
        let taken: PerWord<Option<Receipt>, LEVELS, DIMENSIONS> = per_word(|place, dimension| {
            let Judged::Fits(take) = &words[place][dimension] else { return None };
            if !is_as_judged {
                return None;
            }
            let Some((fit, receipt)) = take.swap::<_, PlannedCheck<'_>>() else {
                is_as_judged = false;
                return None;
            };
            if !self.levels[place].is_guarantee {
                tightest.narrow(fit, call.plans.plan(place, dimension), (place, dimension));
            }
            Some(receipt)
        });
        if is_as_judged {
            return Ok((tightest.permission(call.plans, outlook.borrows), taken));
        }
        self.take_rest(call, &words, outlook, taken, tightest)
    }

    /// Takes the costs that are not `taken` yet, or gives everything back.
    ///
    /// `take` calls it if a word lacked the tokens or could not be judged, or if a swap failed.
    #[cold]
    fn take_rest(
        &self,
        call: &Call<'_, impl Plans<LEVELS, DIMENSIONS>, LEVELS, DIMENSIONS>,
        words: &PerWord<Judged<'_>, LEVELS, DIMENSIONS>,
        outlook: Outlook,
        mut taken: PerWord<Option<Receipt>, LEVELS, DIMENSIONS>,
        mut tightest: Tightest,
    ) -> TakeResult<LEVELS, DIMENSIONS> {
        let &Call { buckets, plans, costs } = call;
        // If a word may refuse the call, `take` has taken nothing, so there is nothing to give back.
        if outlook.may_refuse
            && let Some(refused) = self.refusal(call)
        {
            return Err(self.denied(refused, call, false));
        }
        let mut failed = None;
        // For each dimension: whether the level before guarantees the call, and whether `judge` came to the same
        // conclusion.
        let (mut is_guaranteed, mut as_judged, mut borrows) = ([true; DIMENSIONS], [true; DIMENSIONS], false);
        // For each dimension: the refusal by the level before, if that is a level of guarantees and lacks the tokens.
        let mut not_guaranteed: [Option<Denied>; DIMENSIONS] = [None; DIMENSIONS];
        'words: for (place, level) in self.levels.iter().enumerate() {
            for (dimension, receipt) in taken[place].iter_mut().enumerate() {
                let guarantee = not_guaranteed[dimension].take();
                if receipt.is_some() || !call.takes(place, dimension) {
                    borrows |= receipt.is_some() && !is_guaranteed[dimension];
                    is_guaranteed[dimension] = true;
                    continue;
                }
                let (plan, judged) = (plans.plan(place, dimension), &words[place][dimension]);
                // Such a guarantee never has the tokens.
                if level.is_guarantee && costs[dimension] > plan.burst() {
                    is_guaranteed[dimension] = false;
                    continue;
                }
                let keep = level.keep(plan, is_guaranteed[dimension]);
                let demand = PlannedCheck { plan, n: costs[dimension], keep };
                let swapped = match judged {
                    Judged::Fits(take) if as_judged[dimension] => take.swap::<_, PlannedCheck<'_>>(),
                    _ => None,
                };
                let answer = match swapped {
                    Some(taken) => Ok(taken),
                    None => level.table.take_planned_slow(buckets[place][dimension], demand, &self.clock),
                };
                borrows |= !is_guaranteed[dimension];
                is_guaranteed[dimension] = answer.is_ok() || !level.is_guarantee;
                if level.is_guarantee {
                    as_judged[dimension] &= answer.is_err() == matches!(judged, Judged::Refused);
                }
                match answer {
                    Ok((fit, of_word)) => {
                        if !level.is_guarantee {
                            tightest.narrow(fit, plan, (place, dimension));
                        }
                        *receipt = Some(of_word);
                    }
                    Err(denied) => {
                        // The call passes once it may borrow or once it is guaranteed.
                        let sooner = guarantee.filter(|guarantee| denied.outlasts(guarantee)).unwrap_or(denied);
                        if level.is_guarantee {
                            not_guaranteed[dimension] = Some(sooner);
                            continue;
                        }
                        let was_there = matches!(judged, Judged::Fits(_));
                        failed = Some(((sooner, (place, dimension)), was_there));
                        break 'words;
                    }
                }
            }
        }
        match failed {
            None => Ok((tightest.permission(plans, borrows), taken)),
            Some((refused, was_there)) => {
                self.roll_back(call, taken);
                // The tokens given back may bring the call within its guarantee again. So the refusal is determined
                // anew. A look may show none, because tokens came meanwhile, or because the call was refused for what
                // other keys spent in a shared word.
                Err(self.denied(self.refusal(call).unwrap_or(refused), call, was_there))
            }
        }
    }

    /// Loads all words, reads the clock once, and judges each word.
    #[expect(clippy::inline_always, reason = "what is found then stays where it is")]
    #[inline(always)]
    fn judge(
        &self,
        call: &Call<'_, impl Plans<LEVELS, DIMENSIONS>, LEVELS, DIMENSIONS>,
        outlook: &mut Outlook,
    ) -> PerWord<Judged<'_>, LEVELS, DIMENSIONS> {
        let looks: PerWord<_, LEVELS, DIMENSIONS> = per_word(|level, dimension| {
            let takes = call.takes(level, dimension);
            if takes {
                self.levels[level].table.look_at_slot::<PlannedCheck<'_>>(call.buckets[level][dimension])
            } else {
                None
            }
        });
        // The clock is read after all words, as `look_at_slot` requires.
        let now = self.clock.now();
        let mut is_guaranteed = [true; DIMENSIONS];
        per_word(|place, dimension| {
            if !call.takes(place, dimension) {
                is_guaranteed[dimension] = true;
                return Judged::Undecided;
            }
            let (level, plan) = (&self.levels[place], call.plan(place, dimension));
            let keep = level.keep(plan, is_guaranteed[dimension]);
            let demand = PlannedCheck { plan, n: call.costs[dimension], keep };
            outlook.borrows |= !is_guaranteed[dimension];
            let judged =
                match looks[place][dimension].and_then(|look| level.table.judge(look, demand, now, &self.clock)) {
                    Some(Ok(take)) => {
                        is_guaranteed[dimension] = true;
                        return Judged::Fits(take);
                    }
                    Some(Err(_)) => Judged::Refused,
                    // The word could not be judged, but even a full bucket of this guarantee has too few tokens.
                    None if level.is_guarantee && demand.n > plan.burst() => Judged::Refused,
                    None => Judged::Undecided,
                };
            // A key without a slot has probably spent nothing lately, so it counts as within its guarantee for now.
            let lacks_guarantee = level.is_guarantee && matches!(judged, Judged::Refused);
            is_guaranteed[dimension] = !lacks_guarantee;
            outlook.fits &= lacks_guarantee;
            outlook.may_refuse |= !level.is_guarantee;
            judged
        })
    }

    /// Gives back the costs that were taken, from the last word to the first.
    #[cold]
    fn roll_back(
        &self,
        Call { buckets, plans, costs }: &Call<'_, impl Plans<LEVELS, DIMENSIONS>, LEVELS, DIMENSIONS>,
        taken: PerWord<Option<Receipt>, LEVELS, DIMENSIONS>,
    ) {
        for (level, taken) in taken.into_iter().enumerate().rev() {
            for (dimension, receipt) in taken.into_iter().enumerate().rev() {
                if let Some(receipt) = receipt {
                    let (plan, bucket) = (plans.plan(level, dimension), buckets[level][dimension]);
                    let table = &self.levels[level].table;
                    table.roll_back_planned(bucket, plan, costs[dimension], receipt, &self.clock);
                }
            }
        }
    }

    /// Returns the refusal with the longest wait that a call would get now, if any. Writes nothing.
    #[cold]
    pub(super) fn refusal(
        &self,
        call: &Call<'_, impl Plans<LEVELS, DIMENSIONS>, LEVELS, DIMENSIONS>,
    ) -> Option<Refused> {
        let mut longest: Option<Refused> = None;
        // For each dimension: the refusal by the level before, if that is a level of guarantees and lacks the tokens.
        let mut not_guaranteed: [Option<Denied>; DIMENSIONS] = [None; DIMENSIONS];
        for (place, level) in self.levels.iter().enumerate() {
            for (dimension, not_guaranteed) in not_guaranteed.iter_mut().enumerate() {
                if !call.takes(place, dimension) {
                    *not_guaranteed = None;
                    continue;
                }
                let (plan, bucket) = (call.plan(place, dimension), call.buckets[place][dimension]);
                let refused = |keep| {
                    let demand = PlannedCheck { plan, n: call.costs[dimension], keep };
                    Some((level.table.refusal_planned(bucket, demand, &self.clock)?, (place, dimension)))
                };
                let refused = match not_guaranteed.take() {
                    None => refused(0),
                    // The call passes once it may borrow or once it is guaranteed. So the shorter of these two waits
                    // counts.
                    Some(guarantee) => refused(level.keep(plan, false)).map(|borrowed| {
                        let guaranteed = longer(Some((guarantee, borrowed.1)), refused(0)).unwrap_or(borrowed);
                        if borrowed.0.outlasts(&guaranteed.0) { guaranteed } else { borrowed }
                    }),
                };
                if level.is_guarantee {
                    *not_guaranteed = refused.map(|(denied, _)| denied);
                } else {
                    longest = longer(longest, refused);
                }
            }
        }
        longest
    }

    /// Returns whether a call may have to wait behind other calls for the tokens of a word.
    ///
    /// A call within its guarantee waits behind no other call at the next level. At the guarantee itself it may have to
    /// wait: an older call of the same key may be waiting until the guarantee is refilled.
    pub(super) fn may_wait(
        &self,
        call: &Call<'_, impl Plans<LEVELS, DIMENSIONS>, LEVELS, DIMENSIONS>,
        place: usize,
        dimension: usize,
    ) -> bool {
        call.takes(place, dimension) && self.is_guaranteed(call, place, dimension) != Some(true)
    }

    /// Returns whether the guarantee of the level before has the tokens of the call now.
    ///
    /// It returns `None` if there is no level before, or if its plans are limits.
    fn is_guaranteed(
        &self,
        call: &Call<'_, impl Plans<LEVELS, DIMENSIONS>, LEVELS, DIMENSIONS>,
        place: usize,
        dimension: usize,
    ) -> Option<bool> {
        let before = place.checked_sub(1)?;
        let level = &self.levels[before];
        if !level.is_guarantee {
            return None;
        }
        if !call.takes(before, dimension) {
            return Some(true);
        }
        let plan = call.plan(before, dimension);
        let keep = level.keep(plan, self.is_guaranteed(call, before, dimension).unwrap_or(true));
        let demand = PlannedCheck { plan, n: call.costs[dimension], keep };
        Some(level.table.refusal_planned(call.buckets[before][dimension], demand, &self.clock).is_none())
    }

    pub(super) fn denied(
        &self,
        (denied, (level, dimension)): Refused,
        call: &Call<'_, impl Plans<LEVELS, DIMENSIONS>, LEVELS, DIMENSIONS>,
        is_contended: bool,
    ) -> TreeDenied {
        let quota = call.plan(level, dimension).quota();
        let names = [self.levels[level].name, self.dimensions[dimension]];
        TreeDenied::new(denied, quota, (level, dimension), names, is_contended)
    }
}
