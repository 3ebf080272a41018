//! The first sight of a key: which slot it gets, if any, and what it owes at once.
//!
//! All of this runs under the lock of a part of the keys, so that no key gets two slots. The slots themselves belong to
//! keys of every part: what is read of them counts only if the swap that claims one of them succeeds.

use super::fingerprint::Fingerprint;
use super::locks::Counts;
use super::shared::{Share, SharedDebt};
use super::slots::{Set, Slot, SlotWord, WAYS};
use super::{Debtor, Demand, Origin, Table, Taken};
use crate::limit::{Denied, KeyedAlgorithm, Owed};
use crate::quota::Line;
use crate::sync::SpinWait;
use crate::time::Clock;

/// The fate of a key without a slot, when all its slots belong to keys that still owe something.
///
/// [The guide](https://docs.rs/damper/latest/damper/guide/full_table/) simulates which keys each choice refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum WhenFull {
    /// It spends from a shared bucket with the quota of one key, which its hash chooses.
    ///
    /// Known keys keep their slots, and each key stays in its envelope. By default there are two such buckets for each
    /// key of the capacity.
    #[default]
    SharedOverflow,
    /// It is refused, and the refusal says when a slot is free.
    ///
    /// Known keys keep their slots, and each key stays in its envelope.
    DenyNew,
    /// It takes over the slot of the key that is full soonest, with that key's debt.
    ///
    /// It does so only if that leaves enough tokens.
    ///
    /// All slots together admit no more than they hold. A single key may exceed its quota: evicted before it has used up its
    /// burst, and back through the other of its two sets in a slot that owes nothing, it has a burst again.
    EvictLeastIndebted,
}

/// The vacant or idle slots of a first set from which on the second set is not preferred.
const ENOUGH: u32 = 2;

/// A slot that may change its owner.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    slot: &'a Slot,
    word: SlotWord,
    /// The word that a newcomer in this slot starts from, if it takes over the owner's debt.
    inherited: u64,
    /// The owner's debt, in units of the newcomer's line, and whether there is an owner.
    ///
    /// The less the better.
    rank: (u64, bool),
}

impl<'a> Candidate<'a> {
    fn is_idle(&self) -> bool {
        self.rank.0 == 0
    }

    fn is_taken(&self) -> bool {
        self.rank.1
    }

    /// Gives the slot to a newcomer whose bucket starts with the word `before`, if that leaves enough tokens.
    ///
    /// `None` if another thread changed the slot.
    fn take_over<A: KeyedAlgorithm, D: Demand<A>>(
        &self,
        key: Fingerprint,
        demand: D,
        &Reading { tier, line, at, clock }: &Reading<'_, A::Line, impl Clock>,
        before: u64,
        debtor: Debtor,
        counts: &mut Counts,
    ) -> Option<Result<D::Answer<'a>, Denied>> {
        let (after, allowed) = match demand.decide(line, before, at, debtor, clock) {
            Ok(taken) => taken,
            Err(denied) => {
                counts.refused_newcomers += 1;
                return Some(Err(denied));
            }
        };
        let mut origin = Origin::Nothing;
        if after != before {
            let claim = self.slot.claim(self.word)?;
            if !self.is_taken() {
                counts.keys = counts.keys.wrapping_add(1);
            } else if !self.is_idle() {
                counts.evictions += 1;
            }
            origin = Origin::Slot(self.slot, claim.publish(Some(key), tier, after));
        }
        Some(Ok(D::answer(allowed, Taken { after, at, tier, origin })))
    }
}

/// The slots of a set that may change their owners.
#[derive(Clone, Copy, Default)]
struct Candidates<'a> {
    best: Option<Candidate<'a>>,
    vacant: u32,
    idle: u32,
}

/// The slot that is full soonest.
///
/// A vacant one comes before one whose owner owes nothing, and of equals that of the set where more are.
#[inline]
fn choose<'a>(first: Candidates<'a>, second: Candidates<'a>) -> Option<Candidate<'a>> {
    // Where there are vacant slots, they are filled evenly; else those whose owners owe nothing.
    let [room, room_in_second] =
        if first.vacant + second.vacant > 0 { [first.vacant, second.vacant] } else { [first.idle, second.idle] };
    let (one, other) = if room < ENOUGH && room_in_second > room { (second, first) } else { (first, second) };
    match (one.best, other.best) {
        (Some(one), Some(other)) => Some(if other.rank < one.rank { other } else { one }),
        (one, other) => one.or(other),
    }
}

/// A tier's line and a reading of the clock on it: what a newcomer is judged by.
struct Reading<'a, L, C> {
    tier: usize,
    line: &'a L,
    at: u64,
    clock: &'a C,
}

impl<A: KeyedAlgorithm> Table<A> {
    /// Answers a demand of a key that has no slot, and gives it one if it can.
    ///
    /// `None` if it has one by now, because another thread was first with the same key. `tier` is called with the key's
    /// lock held.
    pub(super) fn first_sight<D: Demand<A>>(
        &self,
        key: Fingerprint,
        demand: D,
        clock: &impl Clock,
        tier: impl FnOnce() -> usize,
    ) -> Option<Result<D::Answer<'_>, Denied>> {
        let share = self.shared.share_of(key);
        self.shared.lock(share).write(|counts| self.first_sight_locked(key, share, tier(), demand, clock, counts))
    }

    fn first_sight_locked<D: Demand<A>>(
        &self,
        key: Fingerprint,
        share: Share,
        tier: usize,
        demand: D,
        clock: &impl Clock,
        counts: &mut Counts,
    ) -> Option<Result<D::Answer<'_>, Denied>> {
        let spin_wait = SpinWait::new();
        loop {
            if self.slots.slot_of(key).is_some() {
                return None;
            }
            if let Some(taken) = self.try_first_sight(key, share, tier, demand, clock, counts) {
                return Some(taken);
            }
            spin_wait.spin();
        }
    }

    /// One attempt; `None` if another thread intervened.
    fn try_first_sight<D: Demand<A>>(
        &self,
        key: Fingerprint,
        share: Share,
        tier: usize,
        demand: D,
        clock: &impl Clock,
        counts: &mut Counts,
    ) -> Option<Result<D::Answer<'_>, Denied>> {
        let (tier, under) = self.tiers.at(tier);
        let others = self.shared.debt_in_other_tiers::<A>(share, tier, &self.tiers, clock);
        let (epoch, line) = under.quota.read::<A::Line>(clock);
        let shared = self.shared.word(share, tier);
        let [first, second] = self.slots.candidates(key);
        let words = [first.words(), second.words()];
        // After the words: this knows the debt of every key whose word says that it was moved to this tier.
        let mut line = under.expecting_moved(line);
        // Once, after the words.
        let at = line.reading(clock.now());
        let now = Reading { tier, line: &line, at, clock };
        let candidate = choose(self.candidates(first, &words[0], &now), self.candidates(second, &words[1], &now))?;
        if !under.quota.is_current(epoch) {
            return None;
        }
        let debt = || share.debt::<A>(&line, at, shared, others, clock);
        match self.when_full {
            WhenFull::SharedOverflow if candidate.is_idle() => {
                // The key may have spent of its shared bucket, and takes that debt along; the slot's owner owes nothing.
                candidate.take_over::<A, D>(key, demand, &now, debt().of_key, Debtor::Itself, counts)
            }
            _ if candidate.is_idle() => {
                candidate.take_over::<A, D>(key, demand, &now, candidate.inherited, Debtor::Itself, counts)
            }
            WhenFull::SharedOverflow => Some(self.take_shared(share, demand, &now, debt(), counts)),
            WhenFull::EvictLeastIndebted => {
                candidate.take_over::<A, D>(key, demand, &now, candidate.inherited, Debtor::Another, counts)
            }
            WhenFull::DenyNew if Self::takes_tokens(demand.tokens(), &now) => {
                counts.refused_newcomers += 1;
                let wait = A::resets_in(&line, candidate.inherited, at, clock);
                Some(Err(Denied::counted_by(line.frequency(), 0, wait, wait)))
            }
            // A demand that is always allowed, or never.
            WhenFull::DenyNew => {
                let everything = A::owing(&line, at, Owed::EVERYTHING);
                candidate.take_over::<A, D>(key, demand, &now, everything, Debtor::Another, counts)
            }
        }
    }

    /// Whether an idle bucket would allow it, and have less then.
    fn takes_tokens(n: u32, &Reading { line, at, clock, .. }: &Reading<'_, A::Line, impl Clock>) -> bool {
        let idle = A::idle(line, at);
        A::take(line, idle, at, n, clock).is_ok_and(|(after, _)| after != idle)
    }

    #[inline]
    fn candidates<'a>(
        &self,
        set: &'a Set,
        words: &[SlotWord; WAYS],
        now: &Reading<'_, A::Line, impl Clock>,
    ) -> Candidates<'a> {
        let mut candidates = Candidates::default();
        for (slot, &word) in set.slots().iter().zip(words) {
            let Some(candidate) = self.candidate(slot, word, now) else { continue };
            candidates.vacant += u32::from(!candidate.is_taken());
            candidates.idle += u32::from(candidate.is_idle());
            if candidates.best.is_none_or(|best| candidate.rank < best.rank) {
                candidates.best = Some(candidate);
            }
        }
        candidates
    }

    /// A slot that may change its owner; `None` while it changes its owner or the owner's quota changes.
    #[inline]
    fn candidate<'a>(
        &self,
        slot: &'a Slot,
        word: SlotWord,
        now: &Reading<'_, A::Line, impl Clock>,
    ) -> Option<Candidate<'a>> {
        let &Reading { line, tier, at, clock } = now;
        if word.is_claimed() {
            None
        } else if slot.owner().is_none() {
            Some(Candidate { slot, word, inherited: A::idle(line, at), rank: (0, false) })
        } else {
            let inherited = if word.tier() == tier {
                A::word(line, word.level(), at, clock)
            } else {
                self.inherited_from_other_tier(word, now)?
            };
            Some(Candidate { slot, word, inherited, rank: (A::weight(line, inherited, at, clock), true) })
        }
    }

    /// A word that owes on the newcomer's line what takes as long to come back.
    #[cold]
    fn inherited_from_other_tier(&self, word: SlotWord, now: &Reading<'_, A::Line, impl Clock>) -> Option<u64> {
        let (line, at, full) = self.look(word, now.clock)?;
        Some(A::owing(now.line, now.at, A::owed(&line, full, at, now.clock).inherited()))
    }

    /// Takes tokens from the shared bucket of a key that gets no slot.
    fn take_shared<D: Demand<A>>(
        &self,
        share: Share,
        demand: D,
        &Reading { tier, line, at, clock }: &Reading<'_, A::Line, impl Clock>,
        debt: SharedDebt,
        counts: &mut Counts,
    ) -> Result<D::Answer<'_>, Denied> {
        counts.overflows += 1;
        let (after, allowed) = demand.decide(line, debt.all, at, Debtor::Itself, clock)?;
        let mut origin = Origin::Nothing;
        if after != debt.all {
            self.shared.store(share, tier, debt.spent(after));
            origin = Origin::Shared { clears: counts.clears };
        }
        Ok(D::answer(allowed, Taken { after, at, tier, origin }))
    }
}
