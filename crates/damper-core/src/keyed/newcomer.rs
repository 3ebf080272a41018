//! The first sight of a key: which slot it gets, if any, and what it owes at once.
//!
//! All of this runs under the lock of a part of the keys, so that no key gets two slots; the slots themselves belong to
//! keys of every part, and what is read of them counts only if the exchange that claims one of them succeeds.

use super::keyed_limiter::{KeyedLimiter, Place, Receipt, Taken};
use super::locks::Counts;
use super::policy::WhenFull;
use super::shared::{Share, SharedDebt};
use super::slot::{Slot, Word};
use super::table::{Fingerprint, Set, WAYS};
use crate::limit::{Denied, KeyedAlgorithm, Owed};
use crate::quota::Line;
use crate::sync::Backoff;
use crate::time::Clock;

/// How many slots of nobody, or of who owes nothing, a first set has to have at least, so that nobody looks at the
/// second.
const ENOUGH: u32 = 2;

/// A slot that may change its owner.
#[derive(Clone, Copy)]
struct Victim<'a> {
    slot: &'a Slot,
    word: Word,
    /// The word of who takes its owner's place.
    heir: u64,
    /// What its owner owes, in units of the newcomer's line, and whether it has an owner: the less the better.
    rank: (u64, bool),
}

impl Victim<'_> {
    fn is_idle(&self) -> bool {
        self.rank.0 == 0
    }

    fn is_taken(&self) -> bool {
        self.rank.1
    }
}

/// What a set has to offer.
#[derive(Clone, Copy, Default)]
struct Offer<'a> {
    best: Option<Victim<'a>>,
    nobodys: u32,
    idle: u32,
}

/// The slot that is full soonest: nobody's before one whose owner owes nothing, and of equals that of the set where
/// more are.
#[inline]
fn choose<'a>(first: Offer<'a>, second: Offer<'a>) -> Option<Victim<'a>> {
    // Where there are slots of nobody, they are what is filled evenly; else those whose owners owe nothing.
    let [room, room_elsewhere] =
        if first.nobodys + second.nobodys > 0 { [first.nobodys, second.nobodys] } else { [first.idle, second.idle] };
    let (one, other) = if room < ENOUGH && room_elsewhere > room { (second, first) } else { (first, second) };
    match (one.best, other.best) {
        (Some(one), Some(other)) => Some(if other.rank < one.rank { other } else { one }),
        (one, other) => one.or(other),
    }
}

/// What a newcomer is judged by: its tier, read at one moment.
#[derive(Clone, Copy)]
struct Moment<'a, L> {
    index: usize,
    line: &'a L,
    at: u64,
}

impl<K: ?Sized, C: Clock, S, A: KeyedAlgorithm> KeyedLimiter<K, C, S, A> {
    /// Takes tokens for a key that has no slot, and gives it one if it can. `None` if it has one by now.
    pub(super) fn take_as_newcomer(
        &self,
        fingerprint: Fingerprint,
        tier: usize,
        n: u32,
        counts: &mut Counts,
    ) -> Option<Taken> {
        let backoff = Backoff::new();
        loop {
            if self.slot_of(fingerprint).is_some() {
                return None;
            }
            if let Some(taken) = self.try_take_as_newcomer(fingerprint, tier, n, counts) {
                return Some(taken);
            }
            backoff.spin();
        }
    }

    /// One try of it; `None` if others came between.
    fn try_take_as_newcomer(
        &self,
        fingerprint: Fingerprint,
        index: usize,
        n: u32,
        counts: &mut Counts,
    ) -> Option<Taken> {
        let (index, _) = self.tiers.at(|| index);
        let share = self.share_of(fingerprint);
        let elsewhere = self.owed_elsewhere(share, index);
        let (quota, (epoch, line)) = self.read_tier(index);
        let shared = self.shared_word(share.bucket(), index);
        let [first, second] = self.table.candidates(fingerprint);
        let words = [first.words(), second.words()];
        // A key that was moved to this tier since the line was read brought a debt that this knows of.
        let mut line = self.expecting_moved(index, line);
        // Once, after the words.
        let at = line.reading(self.clock.now());
        let now = Moment { index, line: &line, at };
        let victim = choose(self.offer_of(first, &words[0], &now), self.offer_of(second, &words[1], &now))?;
        if !quota.is_current(epoch) {
            return None;
        }
        let debt = || self.shared_debt(share, &line, at, shared, elsewhere);
        match self.when_full {
            WhenFull::SharedOverflow if victim.is_idle() => {
                // The key may have spent of its shared bucket, and takes that debt along; the slot's owner owes nothing.
                self.replace(&victim, fingerprint, n, &now, debt().of_key, counts)
            }
            _ if victim.is_idle() => self.replace(&victim, fingerprint, n, &now, victim.heir, counts),
            WhenFull::SharedOverflow => Some(self.take_of_shared(share, n, &now, debt(), counts)),
            WhenFull::EvictLeastIndebted => self.replace(&victim, fingerprint, n, &now, victim.heir, counts),
            WhenFull::DenyNew if self.takes_tokens(n, &now) => {
                counts.refused_newcomers += 1;
                let wait = A::resets_in(&line, victim.heir, at, &self.clock);
                Some(Err(Denied::counted_by(line.frequency(), 0, wait, wait)))
            }
            // What is always allowed, or never.
            WhenFull::DenyNew => {
                self.replace(&victim, fingerprint, n, &now, A::owing(&line, at, Owed::EVERYTHING), counts)
            }
        }
    }

    /// Whether an idle bucket would allow it, and have less then.
    fn takes_tokens(&self, n: u32, &Moment { line, at, .. }: &Moment<'_, A::Line>) -> bool {
        let idle = A::idle(line, at);
        A::take(line, idle, at, n, &self.clock).is_ok_and(|(after, _)| after != idle)
    }

    #[inline]
    fn offer_of<'a>(&self, set: &'a Set, words: &[Word; WAYS], now: &Moment<'_, A::Line>) -> Offer<'a> {
        let mut offer = Offer::default();
        for (slot, &word) in set.slots().iter().zip(words) {
            let Some(victim) = self.victim(slot, word, now) else { continue };
            offer.nobodys += u32::from(!victim.is_taken());
            offer.idle += u32::from(victim.is_idle());
            if offer.best.is_none_or(|best| victim.rank < best.rank) {
                offer.best = Some(victim);
            }
        }
        offer
    }

    /// A slot that may change its owner; `None` if it changes him just now, or its quota.
    #[inline]
    fn victim<'a>(&self, slot: &'a Slot, word: Word, now: &Moment<'_, A::Line>) -> Option<Victim<'a>> {
        let &Moment { line, index, at, .. } = now;
        if word.is_claimed() {
            None
        } else if slot.owner().is_none() {
            Some(Victim { slot, word, heir: A::idle(line, at), rank: (0, false) })
        } else {
            let heir = if word.tier() == index {
                A::word(line, word.level(), at, &self.clock)
            } else {
                self.heir_from_other_tier(word, now)?
            };
            Some(Victim { slot, word, heir, rank: (A::weight(line, heir, at, &self.clock), true) })
        }
    }

    /// A word that owes on the newcomer's line what takes as long to come back.
    #[cold]
    fn heir_from_other_tier(&self, word: Word, now: &Moment<'_, A::Line>) -> Option<u64> {
        let (line, at, full) = self.look(word)?;
        Some(A::owing(now.line, now.at, A::owed(&line, full, at, &self.clock).inherited()))
    }

    /// Gives a slot to a newcomer whose bucket has this word before, if that leaves enough tokens.
    fn replace(
        &self,
        victim: &Victim<'_>,
        fingerprint: Fingerprint,
        n: u32,
        &Moment { line, index, at, .. }: &Moment<'_, A::Line>,
        before: u64,
        counts: &mut Counts,
    ) -> Option<Taken> {
        let (after, allowed) = match A::take(line, before, at, n, &self.clock) {
            Ok(taken) => taken,
            Err(denied) => {
                counts.refused_newcomers += 1;
                return Some(Err(denied));
            }
        };
        if after != before {
            let claim = victim.slot.claim(victim.word)?;
            if !victim.is_taken() {
                counts.keys = counts.keys.wrapping_add(1);
            } else if !victim.is_idle() {
                counts.evictions += 1;
            }
            claim.publish(Some(fingerprint), index, after);
        }
        let place = Place::Slot.unless_same(before, after);
        Some(Ok((allowed, Receipt { at: A::receipt(after, at), tier: index as u8, place })))
    }

    /// Decides by the bucket that a key shares which has no slot.
    fn take_of_shared(
        &self,
        share: Share,
        n: u32,
        &Moment { line, index, at }: &Moment<'_, A::Line>,
        debt: SharedDebt,
        counts: &mut Counts,
    ) -> Taken {
        counts.overflows += 1;
        let (after, allowed) = A::take(line, debt.all, at, n, &self.clock)?;
        if after != debt.all {
            self.store_shared_word(share.bucket(), index, debt.spent(after));
        }
        let place = Place::Shared { clears: counts.clears }.unless_same(debt.all, after);
        Ok((allowed, Receipt { at: A::receipt(after, at), tier: index as u8, place }))
    }
}
