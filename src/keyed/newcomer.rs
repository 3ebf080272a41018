//! The first sight of a key: which slot it gets, if any, and what it owes at once.
//!
//! All of this runs under the lock of a part of the keys, so that no key gets two slots; the slots themselves belong to keys of every part, and
//! what is read of them counts only if the exchange that claims one of them succeeds.

use super::keyed_limiter::{KeyedLimiter, Receipt, Taken};
use super::locks::Counts;
use super::policy::WhenFull;
use super::slot::{Slot, Word};
use super::table::{Fingerprint, Set, WAYS};
use super::tiers::Tier;
use crate::atomic::{Backoff, Ordering};
use crate::clock::{Clock, Ticks};
use crate::limit::{Allowed, Denied};
use crate::quota::Timeline;

/// How many slots of nobody, or of who owes nothing, a first set has to have at least, so that nobody looks at the second.
const ENOUGH: u32 = 2;

/// A slot that may change its owner.
#[derive(Clone, Copy)]
struct Victim<'a> {
    slot: &'a Slot,
    word: Word,
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

/// The slot that is full soonest: nobody's before one whose owner owes nothing, and of equals that of the set where more are.
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
struct Moment<'a> {
    tier: &'a Tier,
    index: usize,
    line: &'a Timeline,
    /// The word of the bucket that those without a slot share.
    overflow: u64,
    at: u64,
}

impl<K: ?Sized, C: Clock, S> KeyedLimiter<K, C, S> {
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
        let (index, tier) = self.tiers.at(|| index);
        let (epoch, line) = tier.quota.read(&self.clock);
        // ORDERING: Relaxed, because the fence in `is_current` follows.
        let overflow = tier.overflow.load(Ordering::Relaxed);
        let [first, second] = self.table.candidates(fingerprint);
        let words = [first.words(), second.words()];
        // Once, after the words.
        let at = line.position(self.clock.now());
        let now = Moment { tier, index, line: &line, overflow, at };
        let victim = choose(self.offer_of(first, &words[0], &now), self.offer_of(second, &words[1], &now))?;
        if !tier.quota.is_current(epoch) {
            return None;
        }
        match self.when_full {
            _ if victim.is_idle() => self.replace(&victim, fingerprint, n, &now, 0, counts),
            WhenFull::SharedOverflow => self.try_take_of_overflow(n, &now, counts),
            WhenFull::EvictLeastIndebted => self.replace(&victim, fingerprint, n, &now, victim.rank.0, counts),
            WhenFull::DenyNew if line.take(at, at, n).is_ok_and(|after| after != at) => {
                counts.refused_newcomers += 1;
                let wait = line.wait_unaligned(victim.rank.0);
                Some(Err(Denied::counted(&line, 0, wait, wait)))
            }
            // What is always allowed, or never.
            WhenFull::DenyNew => self.replace(&victim, fingerprint, n, &now, line.deepest_debt_in_units(), counts),
        }
    }

    #[inline]
    fn offer_of<'a>(&self, set: &'a Set, words: &[Word; WAYS], now: &Moment<'_>) -> Offer<'a> {
        let mut offer = Offer::default();
        for (slot, &word) in set.slots().iter().zip(words) {
            let Some(rank) = self.rank(slot, word, now) else { continue };
            let victim = Victim { slot, word, rank };
            offer.nobodys += u32::from(!victim.is_taken());
            offer.idle += u32::from(victim.is_idle());
            if offer.best.is_none_or(|best| rank < best.rank) {
                offer.best = Some(victim);
            }
        }
        offer
    }

    /// How hard it is to take a slot from its owner; `None` if it changes him just now, or its quota.
    #[inline]
    fn rank(&self, slot: &Slot, word: Word, now: &Moment<'_>) -> Option<(u64, bool)> {
        if word.is_claimed() {
            None
        } else if slot.is_of(0) {
            Some((0, false))
        } else if word.tier() == now.index {
            Some((Timeline::debt(now.line.word_ahead(word.ahead_of(now.at), now.at, &self.clock), now.at), true))
        } else {
            self.debt_in_other_tier(word, now).map(|debt| (debt, true))
        }
    }

    /// As much of the newcomer's line as takes as long to be refilled.
    #[cold]
    fn debt_in_other_tier(&self, word: Word, now: &Moment<'_>) -> Option<u64> {
        let (line, at, full) = self.look(word)?;
        match line.resets_in(full, at) {
            Ticks::ZERO => Some(0),
            wait => Some(now.line.units_in(wait).min(now.line.deepest_debt_in_units())),
        }
    }

    /// Gives a slot to a newcomer who owes so much from the start, if that leaves enough tokens.
    fn replace(
        &self,
        victim: &Victim<'_>,
        fingerprint: Fingerprint,
        n: u32,
        now: &Moment<'_>,
        owed: u64,
        counts: &mut Counts,
    ) -> Option<Taken> {
        let &Moment { line, index, at, .. } = now;
        let owed = match self.when_full {
            // It may have been one of those who share.
            WhenFull::SharedOverflow => owed.max(Timeline::debt(now.overflow_word(&self.clock), at)),
            WhenFull::DenyNew | WhenFull::EvictLeastIndebted => owed,
        };
        let before = at.wrapping_add(owed);
        let after = match line.take(before, at, n) {
            Ok(after) if after == before => return Some(Ok(allowed(line, after, at, index))),
            Ok(after) => after,
            Err(refusal) => {
                counts.refused_newcomers += 1;
                return Some(Err(Denied::new(line, before, at, refusal)));
            }
        };
        let claim = victim.slot.claim(victim.word)?;
        if !victim.is_taken() {
            counts.keys = counts.keys.wrapping_add(1);
        } else if !victim.is_idle() {
            counts.evictions += 1;
        }
        claim.publish(fingerprint.get(), index, after);
        Some(Ok(allowed(line, after, at, index)))
    }

    /// Decides by the bucket that the keys of a tier share which have no slot; `None` if another was faster.
    fn try_take_of_overflow(&self, n: u32, now: &Moment<'_>, counts: &mut Counts) -> Option<Taken> {
        let &Moment { line, index, at, .. } = now;
        let word = now.overflow_word(&self.clock);
        let (after, taken) = match line.take(word, at, n) {
            Ok(after) => (after, Ok((Allowed::new(line, after, at), Receipt { at, tier: index, is_shared: true }))),
            Err(refusal) => (word, Err(Denied::new(line, word, at, refusal))),
        };
        now.put_overflow(after).then(|| {
            counts.overflows += 1;
            taken
        })
    }
}

fn allowed(line: &Timeline, after: u64, at: u64, tier: usize) -> (Allowed, Receipt) {
    (Allowed::new(line, after, at), Receipt { at, tier, is_shared: false })
}

impl Moment<'_> {
    /// The shared bucket's word, brought back if it can only be from before a clock stepped back.
    fn overflow_word(&self, clock: &impl Clock) -> u64 {
        self.line.heal(self.overflow, self.at, clock).unwrap_or(self.overflow)
    }

    /// Puts this in the place of the shared bucket's word, if nobody else was faster.
    fn put_overflow(&self, after: u64) -> bool {
        // ORDERING: Release, as in `OneWord::replace`.
        let put =
            |old, new| self.tier.overflow.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed).is_ok();
        after == self.overflow || put(self.overflow, after)
    }
}
