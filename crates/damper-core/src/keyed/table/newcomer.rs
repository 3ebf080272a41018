//! The first sight of a key: which slot it gets, if any, and what it owes at once.
//!
//! [`table`](super#terms) defines the terms.
//!
//! A *newcomer* is a key that has no slot. Its call holds one of 64 locks, which the key's group of shared lines
//! decides. So no key gets two slots, and the shared words of a key change under one lock. A slot can belong to a key
//! of any lock. So what a newcomer reads in a slot counts only if the swap that claims this slot succeeds.
//!
//! A newcomer reads everything anew with the lock held. Of the eight slots in its two sets it takes a vacant one, or
//! one whose owner owes nothing. If every owner owes something, [`WhenFull`] decides. The first word that a newcomer
//! writes to its slot includes what it spends. Otherwise its bucket would be idle at first, and two newcomers could
//! evict each other for ever. The word also includes the key's debt in shared words, as `shared` explains.

use super::fingerprint::Fingerprint;
use super::lines::{Share, SharedLines};
use super::locks::Counts;
use super::shared::Elsewhere;
use super::slots::{Set, Slot, SlotWord, WAYS};
use super::tier_quotas::Tier;
use super::{Debtor, Demand, Grant, Origin, Table};
use crate::limit::{Debt, Denied, PerKey};
use crate::quota::Line;
use crate::sync::SpinWait;
use crate::time::Clock;
use core::hint::black_box;

/// The fate of a new key if all slots that it could have belong to keys that still owe something.
///
/// [The guide](https://docs.rs/damper/latest/damper/guide/full_table/) simulates which keys each choice refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum WhenFull {
    /// The key spends from one of a few shared words, which its hash chooses, with the quota of one key.
    ///
    /// Known keys keep their slots, and no key exceeds its quota. By default there are two such words for each key of
    /// the capacity.
    #[default]
    SharedOverflow,
    /// The key is refused, and the refusal says when a slot is free.
    ///
    /// Known keys keep their slots, and no key exceeds its quota.
    DenyNew,
    /// The key takes over the slot and the debt of that key of its tier whose bucket is full soonest.
    ///
    /// It does so only if that leaves enough tokens. If all its slots belong to keys of other tiers, it spends as with
    /// `SharedOverflow`.
    ///
    /// All slots together admit no more than their quotas allow, but a single key may exceed its quota. If it is
    /// evicted before it has used up its burst, and then gets a slot that owes nothing in the other of its two sets, it
    /// has a burst again.
    EvictLeastIndebted,
}

/// A newcomer stays in its first set if this set has at least this many vacant or idle slots.
const ENOUGH: u32 = 2;

/// A slot that may change its owner.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    slot: &'a Slot,
    word: SlotWord,
    rank: Rank,
}

/// The loss if a slot is taken from its owner. A newcomer takes the slot with the smallest loss.
///
/// If the slot has an owner, it is the owner's debt in units of the newcomer's line, plus one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(u64);

impl Rank {
    /// No key owns the slot.
    const VACANT: Self = Self(0);

    /// The slot's owner owes nothing.
    const IDLE: Self = Self(1);

    /// The slot cannot be taken: its owner is of another tier and owes something.
    const OF_OTHER_TIER: Self = Self(u64::MAX - 1);

    /// The slot cannot be taken now, because it is changing its owner or its owner's quota is changing.
    const BUSY: Self = Self(u64::MAX);

    fn of_debt(units: u64) -> Self {
        Self(Self::IDLE.0.saturating_add(units))
    }
}

impl<'a> Candidate<'a> {
    fn is_idle(&self) -> bool {
        self.rank <= Rank::IDLE
    }

    fn is_taken(&self) -> bool {
        self.rank > Rank::VACANT
    }

    /// Gives the slot to a newcomer whose bucket has the word `before`, and takes the demanded tokens.
    ///
    /// If the bucket refuses the demand, the slot keeps its owner. It returns `None` if another thread changed the
    /// slot.
    #[expect(clippy::inline_always, reason = "measured: each answer that is passed on in memory takes 1 ns")]
    #[inline(always)]
    fn take_over<A: PerKey, D: Demand<A>>(
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
            let Some(claim) = self.slot.claim(self.word) else { return disturbed() };
            if !self.is_taken() {
                counts.keys = counts.keys.wrapping_add(1);
            } else if !self.is_idle() {
                counts.evictions += 1;
            }
            origin = Origin::Slot(self.slot, claim.publish(Some(key), tier, after));
        }
        Some(Ok(D::answer(allowed, Grant { after, at, tier, origin })))
    }
}

/// The slots of a set, as a newcomer sees them.
#[derive(Clone, Copy)]
struct Candidates<'a> {
    /// The slot with the least rank.
    best: Candidate<'a>,
    vacant: u32,
    /// The number of slots whose owners owe nothing.
    idle: u32,
}

/// Chooses, between the best slots of two sets, the one that is full soonest.
///
/// A vacant slot comes before one whose owner owes nothing. Of equal slots it chooses the first set's, unless that set
/// has little room left and the second has more.
#[expect(clippy::inline_always, reason = "as `Table::candidates`")]
#[inline(always)]
fn choose<'a>(first: Candidates<'a>, second: Candidates<'a>) -> Candidate<'a> {
    // A set's room is its vacant slots or, if both sets have none, its slots whose owners owe nothing.
    let [room, room_in_second] =
        if first.vacant + second.vacant > 0 { [first.vacant, second.vacant] } else { [first.idle, second.idle] };
    let prefers_second = room < ENOUGH && room_in_second > room;
    let (first, second) = (first.best, second.best);
    let takes_second = if prefers_second { second.rank <= first.rank } else { second.rank < first.rank };
    if takes_second {
        stay_a_branch();
        second
    } else {
        first
    }
}

/// Keeps the compiler from turning the branch around this call into a conditional move.
///
/// With conditional moves, the address of the slot to claim waits for the loads of all eight slots, one after another.
/// A branch is predicted, so the processor goes on. A newcomer in a table of idle owners was measured to take 69 ns
/// with branches, and 88 ns without.
#[inline]
fn stay_a_branch() {
    black_box(());
}

/// Returns no answer, because another thread intervened.
#[cold]
fn disturbed<T>() -> Option<T> {
    SpinWait::new().spin();
    None
}

/// A tier's line and a reading of the clock on it, by which a newcomer is judged.
struct Reading<'a, L, C> {
    tier: usize,
    line: &'a L,
    at: u64,
    clock: &'a C,
}

impl<A: PerKey> Table<A> {
    /// Answers a demand of a key that has no slot, and gives it one if it can.
    ///
    /// It returns `None` if another thread has given the key a slot, if a slot or a quota changed meanwhile, or if
    /// `tier` returns `None`. The caller then looks again. `tier` is called with the key's lock held.
    #[expect(clippy::inline_always, reason = "measured: each answer that is passed on in memory takes 1 ns")]
    #[inline(always)]
    pub(in crate::keyed) fn first_sight<D: Demand<A>>(
        &self,
        key: Fingerprint,
        demand: D,
        clock: &impl Clock,
        tier: impl FnOnce() -> Option<usize>,
    ) -> Option<Result<D::Answer<'_>, Denied>> {
        let share = self.shared.share_of(key);
        self.shared.lock(share).write(|counts| self.first_sight_locked(key, share, tier()?, demand, clock, counts))
    }

    #[expect(clippy::inline_always, reason = "measured: each answer that is passed on in memory takes 1 ns")]
    #[inline(always)]
    fn first_sight_locked<D: Demand<A>>(
        &self,
        key: Fingerprint,
        share: Share,
        tier: usize,
        demand: D,
        clock: &impl Clock,
        counts: &mut Counts,
    ) -> Option<Result<D::Answer<'_>, Denied>> {
        let (tier, under) = self.tiers.at(tier);
        // Most keys never spent without a slot. For them a glance at the key's line shows that they owe nothing there.
        let (may_have_word, home) = self.shared.line(share).glance(share.tag);
        let may_owe = SharedLines::may_owe(may_have_word, home, counts);
        let elsewhere =
            if may_owe { self.shared.elsewhere::<A>(share, tier, &self.tiers, clock) } else { Elsewhere::NOTHING };
        self.with_best_slot(key, (tier, under), clock, |candidate, now, epoch| {
            let &Reading { line, at, .. } = now;
            if candidate.rank == Rank::BUSY {
                return disturbed();
            }
            let is_shared = self.when_full == WhenFull::SharedOverflow;
            let inherited = if is_shared { Some(A::idle(line, at)) } else { self.inherited_by(candidate, now) };
            let Some(mut before) = inherited else { return disturbed() };
            if may_owe {
                // The key takes along what it spent without a slot.
                before = self.with_shared_debt(share, before, elsewhere, now);
            }
            // The epoch is compared after everything that the decision depends on was read.
            if !under.quota.is_current(epoch) {
                return disturbed();
            }
            // A key is counted as a newcomer only while it has no shared word of its own. Later calls would find the
            // word that the key's first call made busy.
            if !may_have_word {
                counts.looked += 1;
                let is_busy = |home| SharedLines::is_busy::<A>(home, tier, &self.tiers, (line, at), clock);
                if home.is_some_and(is_busy) {
                    counts.busy += 1;
                }
            }
            if candidate.is_idle() {
                candidate.take_over::<A, D>(key, demand, now, before, Debtor::Itself, counts)
            } else if is_shared || candidate.rank == Rank::OF_OTHER_TIER {
                Some(self.take_shared(share, tier, demand, counts, clock))
            } else {
                self.take_with_debt(candidate, before, key, demand, now, counts)
            }
        })
    }

    /// Calls `then` with the best slot for a newcomer, a reading of the clock, and the quota's epoch.
    ///
    /// The quota is read before the words of the slots, and the clock after them. The method returns `None` if one of
    /// the slots is the key's.
    #[expect(clippy::inline_always, reason = "measured: each answer that is passed on in memory takes 1 ns")]
    #[inline(always)]
    fn with_best_slot<'a, C: Clock, T>(
        &'a self,
        key: Fingerprint,
        (tier, under): (usize, &Tier),
        clock: &C,
        then: impl FnOnce(Candidate<'a>, &Reading<'_, A::Line, C>, usize) -> Option<T>,
    ) -> Option<T> {
        let (epoch, mut line) = under.quota.read::<A::Line>(clock);
        let [first, second] = self.slots.candidates(key);
        let words = [first.words(), second.words()];
        // This comes after the words were read. So the line accepts the debt of every key that these words show in this
        // tier, even if the key was moved here with a deeper debt than the quota allows.
        under.expect_moved(&mut line);
        // The clock is read once, after the words.
        let at = line.reading(clock.now());
        let now = Reading { tier, line: &line, at, clock };
        let first = self.candidates(key, first, &words[0], &now)?;
        let second = self.candidates(key, second, &words[1], &now)?;
        then(choose(first, second), &now, epoch)
    }

    /// Returns the refusal of a key for which there is no slot, or only a slot with its owner's debt.
    ///
    /// It writes nothing. It returns `None` if the key's own tokens decide, or if another thread intervened.
    #[cfg(feature = "alloc")]
    #[cold]
    pub(super) fn refusal_without_slot<D: Demand<A>>(
        &self,
        key: Fingerprint,
        demand: D,
        clock: &impl Clock,
        tier: usize,
    ) -> Option<Denied> {
        if self.when_full == WhenFull::SharedOverflow || self.look_for(key).is_of_key {
            return None;
        }
        let share = self.shared.share_of(key);
        self.shared.lock(share).read(|_| {
            self.with_best_slot(key, self.tiers.at(tier), clock, |candidate, now, _| {
                let &Reading { line, at, .. } = now;
                if candidate.is_idle() || candidate.rank >= Rank::OF_OTHER_TIER {
                    return None;
                }
                let inherited = self.inherited_by(candidate, now)?;
                if self.when_full == WhenFull::EvictLeastIndebted {
                    return demand.decide(line, inherited, at, Debtor::Another, clock).err();
                }
                demand.takes_tokens(line, at, clock).then(|| Self::no_slot(line, inherited, at, clock))
            })
        })
    }

    /// Returns the refusal of a newcomer that has to wait until the bucket with this word owes nothing.
    fn no_slot(line: &A::Line, word: u64, at: u64, clock: &impl Clock) -> Denied {
        let wait = A::resets_in(line, word, at, clock);
        Denied::counted_by(line.frequency(), 0, wait, wait)
    }

    /// Gives a slot to a newcomer together with its owner's debt, or refuses the newcomer.
    ///
    /// It returns `None` if another thread changed the slot.
    fn take_with_debt<'a, D: Demand<A>>(
        &self,
        candidate: Candidate<'a>,
        inherited: u64,
        key: Fingerprint,
        demand: D,
        now: &Reading<'_, A::Line, impl Clock>,
        counts: &mut Counts,
    ) -> Option<Result<D::Answer<'a>, Denied>> {
        let &Reading { line, at, clock, .. } = now;
        if self.when_full == WhenFull::EvictLeastIndebted {
            return candidate.take_over::<A, D>(key, demand, now, inherited, Debtor::Another, counts);
        }
        if demand.takes_tokens(line, at, clock) {
            counts.refused_newcomers += 1;
            return Some(Err(Self::no_slot(line, inherited, at, clock)));
        }
        // The demand would not change even an idle bucket: it asks for no tokens or too many, or the quota has no
        // limit. So no slot changes its owner, whatever the bucket owes.
        let everything = A::owing(line, at, Debt::EVERYTHING);
        candidate.take_over::<A, D>(key, demand, now, everything, Debtor::Another, counts)
    }

    /// Returns a set's best slot for a newcomer, and how many vacant and idle slots the set has.
    ///
    /// It returns `None` if one of the slots is the key's.
    #[expect(clippy::inline_always, reason = "what it returns then stays in registers")]
    #[inline(always)]
    fn candidates<'a>(
        &self,
        key: Fingerprint,
        set: &'a Set,
        words: &[SlotWord; WAYS],
        now: &Reading<'_, A::Line, impl Clock>,
    ) -> Option<Candidates<'a>> {
        let slots = set.slots();
        let mut best = Candidate { slot: &slots[0], word: words[0], rank: Rank::BUSY };
        let (mut vacant, mut idle) = (0, 0);
        for (slot, &word) in slots.iter().zip(words) {
            let owner = slot.owner();
            let rank = if word.is_claimed() {
                Rank::BUSY
            } else if owner == Some(key) {
                return None;
            } else if owner.is_none() {
                vacant += 1;
                Rank::VACANT
            } else {
                let rank = self.rank(word, now);
                idle += u32::from(rank == Rank::IDLE);
                rank
            };
            if rank < best.rank {
                stay_a_branch();
                best = Candidate { slot, word, rank };
            }
        }
        Some(Candidates { best, vacant, idle })
    }

    /// Returns the rank of a slot that another key owns.
    #[expect(clippy::inline_always, reason = "as `candidates`")]
    #[inline(always)]
    fn rank(&self, word: SlotWord, now: &Reading<'_, A::Line, impl Clock>) -> Rank {
        // Under `SharedOverflow` a slot whose owner owes something is not taken, so it does not matter how much.
        let compares_debts = self.when_full != WhenFull::SharedOverflow;
        if word.tier() == now.tier && !compares_debts {
            return Rank::of_debt(A::owes(now.line, word.level(), now.at, now.clock).into());
        }
        if word.tier() != now.tier && self.when_full == WhenFull::EvictLeastIndebted {
            // A newcomer inherits no debt of another tier. Under that tier's quota the debt may last far longer than
            // any debt lasts in the newcomer's tier.
            return match self.look(word, now.clock) {
                None => Rank::BUSY,
                Some((line, at, full)) if A::weight(&line, full, at, now.clock) == 0 => Rank::IDLE,
                Some(_) => Rank::OF_OTHER_TIER,
            };
        }
        let inherited = self.inherited(word, now);
        inherited.map_or(Rank::BUSY, |word| Rank::of_debt(A::weight(now.line, word, now.at, now.clock)))
    }

    /// Returns the first word of a newcomer's bucket, if the newcomer takes over the slot with its debt.
    ///
    /// It returns `None` while the owner's quota changes.
    #[inline]
    fn inherited_by(&self, candidate: Candidate<'_>, now: &Reading<'_, A::Line, impl Clock>) -> Option<u64> {
        if candidate.is_taken() { self.inherited(candidate.word, now) } else { Some(A::idle(now.line, now.at)) }
    }

    /// Returns a word with the owner's debt on the newcomer's line; `None` while the owner's quota changes.
    #[inline]
    fn inherited(&self, word: SlotWord, now: &Reading<'_, A::Line, impl Clock>) -> Option<u64> {
        let &Reading { tier, line, at, clock } = now;
        if word.tier() == tier {
            Some(A::word(line, word.level(), at, clock))
        } else {
            self.inherited_from_other_tier(word, now)
        }
    }

    /// Returns a word whose debt takes as long to be repaid on the newcomer's line as the owner's debt.
    #[cold]
    fn inherited_from_other_tier(&self, word: SlotWord, now: &Reading<'_, A::Line, impl Clock>) -> Option<u64> {
        let (line, at, full) = self.look(word, now.clock)?;
        Some(A::owing(now.line, now.at, A::owed(&line, full, at, now.clock).inherited()))
    }

    /// Returns `before`, or a word that owes more if the key owes more in shared words.
    #[cold]
    fn with_shared_debt(
        &self,
        share: Share,
        before: u64,
        elsewhere: Elsewhere,
        &Reading { tier, line, at, clock }: &Reading<'_, A::Line, impl Clock>,
    ) -> u64 {
        let debt = self.shared.debt::<A>(share, tier, &self.tiers, (line, at), elsewhere, clock);
        A::greater(line, before, debt.of_key, at, clock)
    }

    /// Takes tokens from the shared words, for a key that gets no slot.
    #[inline(never)]
    fn take_shared<D: Demand<A>>(
        &self,
        share: Share,
        tier: usize,
        demand: D,
        counts: &mut Counts,
        clock: &impl Clock,
    ) -> Result<D::Answer<'_>, Denied> {
        counts.overflows += 1;
        let (taken, at, debt) = self.shared.visit::<A, _>(share, tier, &self.tiers, clock, |line, at, debt| {
            (demand.decide(line, debt.start, at, Debtor::Itself, clock), at, *debt)
        });
        let (after, allowed) = taken?;
        let mut origin = Origin::Nothing;
        if after != debt.start {
            origin = Origin::Shared(self.shared.spend::<A>(share, &self.tiers, &debt, after, counts, clock));
        }
        Ok(D::answer(allowed, Grant { after, at, tier, origin }))
    }
}
