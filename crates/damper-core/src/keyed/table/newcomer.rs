//! The first sight of a key: which slot the key gets, if any, and what it owes from the start.
//!
//! [`table`](super#terms) defines the terms.
//!
//! **The lock.** A *newcomer* is a key that has no slot. Its call holds the lock of the key's group of shared lines.
//! So no key gets two slots, and the shared words of a key change under one lock. That lock does not protect the slots,
//! because keys under other locks may want the same slot. So what a newcomer reads in a slot counts only if the swap
//! that claims this slot succeeds.
//!
//! **The slot.** A newcomer reads everything anew with the lock held. Its hash names two sets of four slots. The
//! newcomer takes one of these slots that is vacant, or one whose owner owes nothing. If all eight owners owe
//! something, [`WhenFull`] decides.
//!
//! **The first word.** The first word in a newcomer's slot already includes the tokens that its call takes. Otherwise
//! the bucket would be idle at first, and two newcomers could evict each other for ever. The word also includes the
//! key's debt in shared words, as `shared` explains.

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

/// The treatment of a new key that finds no free slot.
///
/// A key can have one of eight slots. It finds none free if all eight belong to keys that still owe something.
///
/// [The guide](https://docs.rs/damper/latest/damper/guide/full_table/) simulates which keys each choice refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum WhenFull {
    /// The key spends from a shared word, a bucket that it may share with other keys.
    ///
    /// A shared word allows no more than the quota of one key. The key's hash chooses among a few words. By default
    /// there are two shared words for each key of the capacity. Known keys keep their slots, and no key exceeds its
    /// quota.
    #[default]
    SharedOverflow,
    /// The key is refused. The refusal says when the first of its slots will be free.
    ///
    /// Known keys keep their slots, and no key exceeds its quota.
    DenyNew,
    /// The key takes over the slot of another key of its tier, together with that key's debt.
    ///
    /// The victim is the key that owes least: its bucket is full soonest. If its debt leaves too few tokens for the
    /// call, the call is refused and nothing changes. If all eight slots belong to keys of other tiers that owe
    /// something, the key spends as under `SharedOverflow`.
    ///
    /// All slots together admit no more than their quotas allow, but a single key may exceed its quota. For example, a
    /// key is evicted before it has used up its burst, and then gets a slot that owes nothing. It then has a full burst
    /// again.
    EvictLeastIndebted,
}

/// With at least this many free slots, the first set of a newcomer wins every tie with the second.
///
/// The hash of a newcomer (a key without a slot) names two sets of slots. They tie if their best slots have the same
/// [`Rank`].
const ENOUGH: u32 = 2;

/// A slot that a newcomer may get.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    slot: &'a Slot,
    word: SlotWord,
    rank: Rank,
}

/// The cost of taking a slot from its owner. A newcomer gets the slot with the lowest rank.
///
/// A vacant slot has rank 0. If a slot has an owner, its rank is `1 + debt`, where `debt` is what the owner owes, in
/// units of the newcomer's line. Under `SharedOverflow`, any debt may count as 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(u64);

impl Rank {
    /// No key owns the slot.
    const VACANT: Self = Self(0);

    /// The slot's owner owes nothing.
    const IDLE: Self = Self(1);

    /// The slot cannot be taken, because its owner is in another tier and owes something.
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

    /// Takes the demanded tokens from a bucket with the word `before`, and gives the slot to `key`.
    ///
    /// If the bucket refuses the demand or does not change, the slot keeps its owner. The method returns `None` if
    /// another thread changed the slot.
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
            origin = Origin::Slot(self.slot, self.give_to(key, tier, after, counts)?);
        }
        Some(Ok(D::answer(allowed, Grant { after, at, tier, origin })))
    }

    /// Gives the slot to `key` with the bucket's word `full`, and returns the slot's word.
    ///
    /// It returns `None` if another thread changed the slot.
    #[expect(clippy::inline_always, reason = "as `take_over`")]
    #[inline(always)]
    fn give_to(&self, key: Fingerprint, tier: usize, full: u64, counts: &mut Counts) -> Option<SlotWord> {
        let Some(claim) = self.slot.claim(self.word) else { return disturbed() };
        if !self.is_taken() {
            counts.keys = counts.keys.wrapping_add(1);
        } else if !self.is_idle() {
            counts.evictions += 1;
        }
        Some(claim.publish(Some(key), tier, full))
    }
}

/// The slots of a set, as a newcomer sees them.
#[derive(Clone, Copy)]
struct Candidates<'a> {
    /// The slot with the lowest rank.
    best: Candidate<'a>,
    vacant: u32,
    /// The number of slots whose owners owe nothing.
    idle: u32,
}

/// Chooses between the best slots of a newcomer's two sets: the one with the lower [`Rank`].
///
/// If the ranks are equal, the slot of the first set wins. There is one exception: the second set wins if it has more
/// free slots, and the first has fewer than [`ENOUGH`].
#[expect(clippy::inline_always, reason = "as `Table::candidates`")]
#[inline(always)]
fn choose<'a>(first: Candidates<'a>, second: Candidates<'a>) -> Candidate<'a> {
    // Only vacant slots count as free. If neither set has a vacant slot, slots whose owners owe nothing count instead.
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
/// With conditional moves, the address of the slot to claim is known only after the loads of all eight slots. A branch
/// is predicted, so the processor continues before these loads are complete. A newcomer in a table of idle owners was
/// measured to take 69 ns with branches, and 88 ns without.
#[inline]
fn stay_a_branch() {
    black_box(());
}

/// Pauses, and returns `None`: another thread intervened, so the caller has to retry.
#[cold]
fn disturbed<T>() -> Option<T> {
    SpinWait::new().spin();
    None
}

/// The tier's line and the present position on it, for the decision about a newcomer.
struct Reading<'a, L, C> {
    tier: usize,
    line: &'a L,
    at: u64,
    clock: &'a C,
}

impl<A: PerKey> Table<A> {
    /// Answers the demand of a key that has no slot, and gives the key a slot if it can.
    ///
    /// `tier` returns the key's tier. It is called with the key's lock held. The method returns `None` in these cases,
    /// and the caller then retries:
    ///
    /// - Another thread has given the key a slot.
    /// - A slot or a quota changed meanwhile.
    /// - `tier` returned `None`.
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
        // Most keys never spent without a slot. A glance at the key's line of shared words shows that such a key owes
        // nothing there.
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
                // The key's new slot starts with the debt that the key took on without a slot.
                before = self.with_shared_debt(share, before, elsewhere, now);
            }
            // The epoch is compared only now, after all inputs of the decision were read. If it is still current, all
            // inputs belong to it.
            if !under.quota.is_current(epoch) {
                return disturbed();
            }
            // A key without a slot is counted in `looked` only while it has no shared word of its own. Its later calls
            // would find the word that its own first call made busy.
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

    /// Books tokens for a key that has no slot in a vacant or idle slot, and returns how many.
    ///
    /// It returns 0 if there is no such slot, and `None` as [`first_sight`](Self::first_sight) does. The caller holds
    /// the key's lock.
    #[cold]
    pub(super) fn book_in_free_slot(
        &self,
        key: Fingerprint,
        share: Share,
        tier: usize,
        charge: impl Fn(&A::Line, u64, u64) -> (u32, u64),
        counts: &mut Counts,
        clock: &impl Clock,
    ) -> Option<u32> {
        let (tier, under) = self.tiers.at(tier);
        // Under `EvictLeastIndebted` the key may have spent in shared words.
        let (may_have_word, home) = self.shared.line(share).glance(share.tag);
        let may_owe = SharedLines::may_owe(may_have_word, home, counts);
        let elsewhere =
            if may_owe { self.shared.elsewhere::<A>(share, tier, &self.tiers, clock) } else { Elsewhere::NOTHING };
        self.with_best_slot(key, (tier, under), clock, |candidate, now, epoch| {
            let &Reading { line, at, .. } = now;
            if candidate.rank == Rank::BUSY {
                return disturbed();
            }
            let idle = A::idle(line, at);
            let before = if may_owe { self.with_shared_debt(share, idle, elsewhere, now) } else { idle };
            // All inputs of the decision are read before the epoch is compared, as in `first_sight_locked`.
            if !under.quota.is_current(epoch) {
                return disturbed();
            }
            if !candidate.is_idle() {
                return Some(0);
            }
            let (booked, after) = charge(line, before, at);
            if after != before {
                candidate.give_to(key, tier, after, counts)?;
            }
            Some(booked)
        })
    }

    /// Calls `then` with the best slot for a newcomer, the present position, and the quota's epoch.
    ///
    /// The order of reads is: the quota, the words of the slots, the clock. The method returns `None` if one of the
    /// slots already belongs to the key.
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
        // A key may have been moved to this tier with a deeper debt than the quota allows. The line has to accept such
        // a debt. The tier's deepest debt of this kind is loaded after the words. So it covers all keys that the words
        // show in this tier.
        under.expect_moved(&mut line);
        // The clock is read once, after the words.
        let at = line.reading(clock.now());
        let now = Reading { tier, line: &line, at, clock };
        let first = self.candidates(key, first, &words[0], &now)?;
        let second = self.candidates(key, second, &words[1], &now)?;
        then(choose(first, second), &now, epoch)
    }

    /// Returns the refusal that a key without a slot would get because no slot is free. Writes nothing.
    ///
    /// It returns `None` in these cases:
    ///
    /// - The key has a slot, or would get a free slot or a shared word. Then only its own tokens decide.
    /// - Under `EvictLeastIndebted`, the debt that the key would inherit leaves enough tokens.
    /// - Under `DenyNew`, the demand would take no tokens.
    /// - Another thread intervened.
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

    /// Returns the refusal of a newcomer that has to wait until the bucket with the word `word` owes nothing.
    fn no_slot(line: &A::Line, word: u64, at: u64, clock: &impl Clock) -> Denied {
        let wait = A::resets_in(line, word, at, clock);
        Denied::counted_by(line.frequency(), 0, wait, wait)
    }

    /// Gives a newcomer the slot of another key together with that key's debt, or refuses the newcomer.
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
        // limit. So the slot keeps its owner. The demand is decided as if the bucket owed as much as possible.
        let everything = A::owing(line, at, Debt::EVERYTHING);
        candidate.take_over::<A, D>(key, demand, now, everything, Debtor::Another, counts)
    }

    /// Returns a set's best slot for a newcomer, and how many vacant and idle slots the set has.
    ///
    /// It returns `None` if one of the slots already belongs to the key.
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

    /// Returns the [`Rank`] of a slot that another key owns: the cost of taking the slot.
    #[expect(clippy::inline_always, reason = "as `candidates`")]
    #[inline(always)]
    fn rank(&self, word: SlotWord, now: &Reading<'_, A::Line, impl Clock>) -> Rank {
        // Under `SharedOverflow` a slot is not taken if its owner owes anything. So it does not matter how much.
        let compares_debts = self.when_full != WhenFull::SharedOverflow;
        if word.tier() == now.tier && !compares_debts {
            return Rank::of_debt(A::owes(now.line, word.level(), now.at, now.clock).into());
        }
        if word.tier() != now.tier && self.when_full == WhenFull::EvictLeastIndebted {
            // A newcomer never inherits a debt of another tier. Under the quota of that tier, a debt may last far
            // longer than any debt in the newcomer's tier.
            return match self.look(word, now.clock) {
                None => Rank::BUSY,
                Some((line, at, full)) if A::weight(&line, full, at, now.clock) == 0 => Rank::IDLE,
                Some(_) => Rank::OF_OTHER_TIER,
            };
        }
        let inherited = self.inherited(word, now);
        inherited.map_or(Rank::BUSY, |word| Rank::of_debt(A::weight(now.line, word, now.at, now.clock)))
    }

    /// Returns a newcomer's first word if the newcomer inherits the debt of the slot's owner.
    ///
    /// It returns `None` while the owner's quota changes. From a vacant slot the newcomer inherits no debt.
    #[inline]
    fn inherited_by(&self, candidate: Candidate<'_>, now: &Reading<'_, A::Line, impl Clock>) -> Option<u64> {
        if candidate.is_taken() { self.inherited(candidate.word, now) } else { Some(A::idle(now.line, now.at)) }
    }

    /// Returns a word on the newcomer's line that owes what the slot's owner owes.
    ///
    /// It returns `None` while the owner's quota changes.
    #[inline]
    fn inherited(&self, word: SlotWord, now: &Reading<'_, A::Line, impl Clock>) -> Option<u64> {
        let &Reading { tier, line, at, clock } = now;
        if word.tier() == tier {
            Some(A::word(line, word.level(), at, clock))
        } else {
            self.inherited_from_other_tier(word, now)
        }
    }

    /// Returns a word on the newcomer's line whose debt lasts as long as the owner's debt.
    #[cold]
    fn inherited_from_other_tier(&self, word: SlotWord, now: &Reading<'_, A::Line, impl Clock>) -> Option<u64> {
        let (line, at, full) = self.look(word, now.clock)?;
        Some(A::owing(now.line, now.at, A::owed(&line, full, at, now.clock).inherited()))
    }

    /// Returns a word that owes the greater of two debts: that of `before`, and the key's in shared words.
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
