//! The table: the buckets of all keys, and the quotas that these keys are under.
//!
//! This file decides about keys that have a slot. `newcomer` decides about a key when it is first seen. `shared` keeps
//! the debt of a key as long as the key has no slot.
//!
//! # Terms
//!
//! - A *slot* is the place in the table for the bucket of one key.
//! - A *line* ([`Line`]) belongs to a quota. It turns a reading of the clock into a *position*.
//! - A *word* is the state of a bucket, on the line of its quota. A slot stores only a part of it, the *level*
//!   ([`PerKey`]). The level, the tier and a version are packed in one atomic, the *slot's word*.
//! - A bucket *owes* the tokens that were taken from it and are not refilled yet. It is *idle* if it owes none. It is
//!   *below empty* if it owes more than a burst, for example because callers took tokens in advance.
//! - A slot is *claimed* while it changes its owner.
//! - A *tier* is one of the table's quotas, with its line and the keys that are under this quota.
//! - An *epoch* is a period in which a quota stays the same. Each change of the quota starts a new one.
//! - A *newcomer* is a key that has no slot. Its *first sight* is a call in which the table gives it a slot if it can.
//! - A *shared word* is a bucket in which keys without a slot spend. Shared words stand in *shared lines* of memory.
//!   Four of these lines are a *group* (`lines`).
//!
//! # A check of a known key
//!
//! A key is known if it has a slot. `keyed_limiter` hashes it before, outside the table. Then its check has five steps:
//!
//! 1. Load the word of the slot.
//! 2. Load the fingerprint in the slot, which has to be the key's own.
//! 3. Load the epoch of the tier's quota, and read the clock.
//! 4. Decide. The algorithm makes the decision: for a plain check, `demand` calls `take_straight` (in
//!    `limit::per_key`).
//! 5. If the check is allowed, swap the word of step 1 for the new word. If it is refused, load the word again.
//!
//! If the swap succeeds, the slot belonged to the key throughout. A refusal counts only if the second load finds the
//! word of step 1. Without the second load, a refusal could come from the debt of the slot's previous owner, although
//! the key itself has tokens.
//!
//! If step 5 finds another word, or if the slot is claimed, the check takes the slow path. A newcomer's check takes the
//! slow path too.
//!
//! # Memory
//!
//! For each key of the capacity there are two slots of 16 bytes. By default there are also two shared words of 8 bytes.
//! A cache line holds seven shared words and their header. The table stores no part of a key but its fingerprint, so
//! two keys with equal fingerprints share a bucket.

// | file | idea |
// |---|---|
// | `slots` | `Slots`: where the slot of a key can be, and how a slot changes its owner |
// | `slot_look` | a decision about a slot in three steps: look, judge, take |
// | `fingerprint` | `Fingerprint`: the hash that identifies a key, and says where in the table the key can be |
// | `newcomer` | a key's first call: which slot it gets, and what it owes |
// | `tests` | random calls on full tables, checked against a list of the admitted calls |
// | `demand` | `Demand`: what a call asks of a bucket, and what it gets |
// | `by_plan` | keys whose quota comes with the call |
// | `waiting` | callers that wait for a key's tokens, in order |
// | `lines` | `SharedLines`: the memory in which keys without a slot spend |
// | `shared` | `SharedDebt`: what keys without a slot owe, and where they spend |
// | `tier_quotas` | `Tiers`: the quotas of the tiers, which can change at any time |
// | `locks` | `Locks`: the locks of first calls and shared words, with their counters |
// | `keyed_slots` | `KeyedSlots`: memory that the caller lends to a table, such as a `static` |

#[cfg(feature = "alloc")]
mod by_plan;
mod demand;
mod fingerprint;
mod keyed_slots;
mod lines;
mod locks;
mod newcomer;
mod shared;
mod slot_look;
mod slots;
#[cfg(all(test, feature = "alloc"))]
mod tests;
mod tier_quotas;
mod waiting;

#[cfg(feature = "alloc")]
pub(super) use demand::{Fit, PlannedCheck};
pub(crate) use fingerprint::Fingerprint;
pub use keyed_slots::KeyedSlots;
#[cfg(feature = "alloc")]
pub(super) use lines::{BUCKETS_PER_KEY, with_headers};
pub(super) use locks::Counts;
pub use newcomer::WhenFull;
pub(super) use slot_look::{SlotLook, SlotTake};
pub(super) use slots::{MOST_TIERS, SLOTS_PER_KEY, Slot, SlotWord, WAYS};
pub(super) use waiting::TableReservation;

use super::census::KeyCensus;
use super::crowding::Crowding;
use crate::limit::{Allowed, Denied, PerKey, UnderQuota};
use crate::quota::{Line, LineStart, LiveQuota, Quota};
use crate::sync::{Guarded, SpinWait, const_unless_loom};
use crate::time::Clock;
use core::marker::PhantomData;
pub(super) use demand::Check;
use demand::{Debtor, Demand, Grant, Origin};
use lines::SharedLines;
use shared::SharedOrigin;
use slots::{Lookup, Ownership, Slots};
use tier_quotas::{Tier, Tiers};

/// The buckets of all keys, under the quotas of their tiers.
pub(super) struct Table<A> {
    tiers: Tiers,
    slots: Slots,
    shared: SharedLines,
    pub(super) when_full: WhenFull,
    algorithm: PhantomData<fn() -> A>,
}

/// The receipt of taken tokens. With it the tokens can be given back.
#[derive(Debug)]
#[must_use]
pub struct Receipt {
    at: u64,
    /// The number of the tier. It fits, because there are at most 15 tiers.
    tier: u8,
    source: Source,
}

/// The bucket that a call's tokens came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The call took no tokens: the quota has no limit, or the call asked for none.
    Nothing,
    /// The tokens came from a slot, during this ownership of it.
    Slot(Ownership),
    /// The tokens came from a word that keys without a slot share.
    Shared(SharedOrigin),
}

impl Receipt {
    /// Creates the receipt of tokens that were taken at position `at` of the tier's line.
    #[inline]
    fn new(at: u64, tier: usize, origin: Origin<'_>) -> Self {
        let source = match origin {
            Origin::Nothing => Source::Nothing,
            Origin::Slot(slot, word) => Source::Slot(slot.ownership(word)),
            Origin::Shared(origin) => Source::Shared(origin),
        };
        // The number fits, because there are at most 15 tiers.
        Self { at, tier: tier as u8, source }
    }
}

/// The answer to a call that takes tokens.
pub(super) type TakeResult = Result<(Allowed, Receipt), Denied>;

impl<A> Table<A> {
    const_unless_loom! {
        /// Creates a table in memory that the caller lends.
        pub(super) const fn in_slots<const SETS: usize, const SHARED: usize>(
            quota: Quota,
            start: LineStart,
            slots: &'static KeyedSlots<SETS, SHARED>,
        ) -> Self {
            Self {
                tiers: Tiers::one(quota, start),
                slots: Slots::Lent(&slots.sets),
                shared: SharedLines::lent(slots.shared.as_flattened()),
                when_full: WhenFull::SharedOverflow,
                algorithm: PhantomData,
            }
        }
    }

    /// Creates a table for `capacity` keys, with `shared_words` words of memory for keys without a slot.
    ///
    /// `first` is the quota of the first tier, and `others` has the quotas of the further tiers. `others` is `None` if
    /// all keys will always be in one tier.
    #[cfg(feature = "alloc")]
    pub(super) fn new(
        first: Quota,
        others: Option<&[Quota]>,
        start: LineStart,
        capacity: usize,
        shared_words: usize,
        when_full: WhenFull,
    ) -> Self {
        let tiers = Tiers::new(first, others.unwrap_or_default(), start);
        let fixed = others.map_or(0, |_| tiers.len());
        let (slots, shared) = (Slots::new(capacity), SharedLines::new(shared_words, fixed));
        Self { tiers, slots, shared, when_full, algorithm: PhantomData }
    }

    /// Makes the lines of all tiers able to change to `largest` later. Call it before the first use.
    #[cfg(feature = "alloc")]
    pub(super) fn make_room_for(&mut self, largest: Quota) {
        self.tiers.make_room_for(largest);
    }

    /// Finds the slot that has a key's fingerprint.
    ///
    /// If no slot has it, the result names any slot, and its `is_of_key` is `false`.
    #[expect(clippy::inline_always, reason = "measured: a call takes 1 ns longer where it is a function of its own")]
    #[inline(always)]
    pub(super) fn look_for(&self, key: Fingerprint) -> Lookup<'_> {
        self.slots.look_for(key)
    }

    /// Begins to load the first of a key's two sets of slots into the processor's cache.
    #[inline]
    pub(super) fn fetch(&self, key: Fingerprint) {
        self.slots.fetch(key);
    }

    /// Returns how many tiers there are.
    pub(super) fn tiers(&self) -> usize {
        self.tiers.len()
    }

    /// Adds a tier after the last one, and returns its number; `None` if there are 15 tiers already.
    #[cfg(feature = "alloc")]
    pub(super) fn add_tier(&self, quota: Quota) -> Option<usize> {
        self.tiers.add(quota, self.shared.groups())
    }

    /// Returns the number of `retier` and `clear_tier` calls for the keys that share this key's lock; wraps.
    #[cfg(feature = "alloc")]
    pub(super) fn retiers(&self, key: Fingerprint) -> u32 {
        self.shared.retiers(self.shared.share_of(key))
    }

    /// Adds one to the count that [`retiers`](Self::retiers) returns.
    #[cfg(feature = "alloc")]
    pub(super) fn count_retier(&self, key: Fingerprint) {
        self.shared.count_retier(self.shared.share_of(key));
    }

    /// Returns the quota of a tier, if there is such a tier.
    pub(super) fn tier(&self, tier: usize) -> Option<&LiveQuota> {
        self.tiers.get(tier).map(|tier| &tier.quota)
    }

    /// Returns the quota of the first tier.
    pub(super) fn first_tier(&self) -> &LiveQuota {
        &self.tiers.first.quota
    }

    /// Returns the quota of a key's tier. If the key has no slot, `newcomer_tier` is asked for the tier.
    pub(super) fn quota_of(&self, key: Fingerprint, newcomer_tier: impl FnOnce() -> usize) -> Quota {
        self.numbered_tier(key, newcomer_tier).1.quota.quota()
    }

    /// Returns the number of a key's tier. If the key has no slot, `newcomer_tier` is asked for the number.
    pub(super) fn tier_of(&self, key: Fingerprint, newcomer_tier: impl FnOnce() -> usize) -> usize {
        self.numbered_tier(key, newcomer_tier).0
    }

    fn numbered_tier(&self, key: Fingerprint, newcomer_tier: impl FnOnce() -> usize) -> (usize, &Tier) {
        self.tiers.at(self.slots.slot_of(key).map_or_else(newcomer_tier, |(_, word)| word.tier()))
    }

    /// Returns a key's lock, which is held while the key gets a slot and while its shared words change.
    fn lock_of(&self, key: Fingerprint) -> &Guarded<Counts> {
        self.shared.lock(self.shared.share_of(key))
    }

    /// Adds up one of the counts over all locks. The sum wraps.
    pub(super) fn sum(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        self.shared.sum(of)
    }

    /// Returns how many shared words newcomers looked at, and how many of these words owed something.
    pub(super) fn crowding(&self) -> Crowding {
        // `busy` is summed first. A newcomer that comes between the two sums is then counted at most in `looked`, so
        // `busy` never exceeds `looked`.
        let busy = self.sum(|counts| counts.busy);
        Crowding { looked: self.sum(|counts| counts.looked), busy }
    }

    /// Vacates all slots and clears all shared words, so that no key owes anything.
    pub(super) fn clear(&self) {
        // The shared words come first. A key that gets a slot takes its debt in shared words along, so in the other
        // order a key could take such a debt to a slot that is vacated already. A slot's debt never moves to a shared
        // word.
        self.shared.clear_all(&self.tiers);
        for slot in self.slots.iter() {
            let spin_wait = SpinWait::new();
            while slot.owner().is_some() {
                let word = slot.word();
                // A newcomer is just taking the slot. Its call counts as later than the clear.
                if word.is_claimed() {
                    break;
                }
                if let Some(claim) = slot.claim(word) {
                    let owner = claim.owner();
                    claim.publish(None, 0, 0);
                    if let Some(owner) = owner {
                        self.lock_of(owner).write(|counts| counts.keys = counts.keys.wrapping_sub(1));
                    }
                    break;
                }
                spin_wait.spin();
            }
        }
    }
}

impl<A: PerKey> Table<A> {
    /// Takes tokens from a key's slot in the first tier.
    ///
    /// If the quota comes with each call, as a [`Plan`](crate::Plan), all tiers have the line of the first tier. Then
    /// this method serves the keys of all tiers.
    ///
    /// It returns `None` if only the slow path can decide:
    ///
    /// - The slot's word has changed since it was loaded, or the swap failed spuriously.
    /// - The bucket is below empty.
    /// - The demand asks for no tokens.
    /// - The call's plan allows a deeper debt than any that was announced to the tier
    ///   ([`expect_debt_of`](Tier::expect_debt_of)).
    /// - The quota has no limit, was not used yet, or changed meanwhile.
    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    pub(super) fn take_fast<'a, D: Demand<A>>(
        &self,
        slot: &'a Slot,
        word: SlotWord,
        demand: D,
        clock: &impl Clock,
    ) -> Option<Result<D::Answer<'a>, Denied>> {
        Self::take_under(&self.tiers.first, slot, word, demand, clock)
    }

    /// Takes tokens from a key's slot in any tier, as [`take_fast`](Self::take_fast) does in the first tier.
    ///
    /// It also returns `None` for a slot that is changing its owner, because such a slot is in no tier.
    ///
    /// The method is never inlined. Inlined beside `take_fast`, it would slow that method down. `take_fast` would then
    /// also compute parts of the answer that its caller does not use.
    #[inline(never)]
    pub(super) fn take_in_tier<'a, D: Demand<A>>(
        &self,
        slot: &'a Slot,
        word: SlotWord,
        demand: D,
        clock: &impl Clock,
    ) -> Option<Result<D::Answer<'a>, Denied>> {
        Self::take_under(self.tiers.get(word.tier())?, slot, word, demand, clock)
    }

    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn take_under<'a, D: Demand<A>>(
        tier: &Tier,
        slot: &'a Slot,
        word: SlotWord,
        demand: D,
        clock: &impl Clock,
    ) -> Option<Result<D::Answer<'a>, Denied>> {
        let look = SlotLook { slot, word, epoch: tier.quota.limited_epoch()? };
        match Self::judge_under(tier, look, demand, || clock.now(), clock)? {
            Ok(take) => take.swap::<A, D>().map(Ok),
            Err(denied) => Some(Err(denied)),
        }
    }

    /// Takes the tokens that a call demands, or refuses it; `None` if the key has no slot.
    pub(super) fn take<D: Demand<A>>(
        &self,
        key: Fingerprint,
        demand: D,
        clock: &impl Clock,
    ) -> Option<Result<D::Answer<'_>, Denied>> {
        self.visit_slot(key, clock, |slot, seen, line, word, at| {
            match demand.decide(line, word, at, Debtor::Itself, clock) {
                Ok((after, allowed)) => {
                    let origin = if after == word { Origin::Nothing } else { Origin::Slot(slot, seen.at_level(after)) };
                    (after, Ok(D::answer(allowed, Grant { after, at, tier: seen.tier(), origin })))
                }
                Err(denied) => (word, Err(denied)),
            }
        })
    }

    /// Gives the tokens of a receipt back to their bucket, and returns whether it is relieved of them.
    ///
    /// It is relieved if it got them back, or if it has no room for them because it is full or forgotten. It owes them
    /// still in these cases:
    ///
    /// - Its debt was converted to another tier or plan.
    /// - It is a shared word, and several words may owe the tokens by now.
    ///
    /// A slot that the key got since the take has a copy of the debt of a shared word, and still owes it. The result
    /// does not say so.
    ///
    /// `less` gets the tier's line, the bucket's word, the present position and the position of the take. It returns
    /// the new word.
    pub(super) fn give_back_taken(
        &self,
        key: Fingerprint,
        Receipt { at: taken_at, tier: taken_in, source }: Receipt,
        clock: &impl Clock,
        less: impl Fn(&A::Line, u64, u64, u64) -> u64,
    ) -> bool {
        let taken_in = usize::from(taken_in);
        // The result is `None` if the bucket owes something, but got nothing back.
        let relieved = |line: &A::Line, word, at| {
            let after = less(line, word, at, taken_at);
            (after != word || A::weight(line, word, at, clock) == 0).then_some(after)
        };
        match source {
            Source::Nothing => true,
            Source::Shared(origin) => {
                let share = self.shared.share_of(key);
                self.shared.lock(share).write(|counts| {
                    self.shared.revise::<A>(share, &self.tiers, origin, counts, clock, relieved).is_some()
                })
            }
            Source::Slot(ownership) => {
                let is_relieved = self.visit_slot(key, clock, |slot, seen, line, word, at| {
                    // If the key has lost its slot since the take, its former bucket is forgotten, and so is its debt.
                    // The key's new bucket does not owe the tokens, so it gets none back.
                    if slot.ownership(seen) != ownership {
                        return (word, true);
                    }
                    // The position of the take is on the line of the receipt's tier, and means nothing on another line.
                    let after = if seen.tier() == taken_in { relieved(line, word, at) } else { None };
                    (after.unwrap_or(word), after.is_some())
                });
                self.wake(key);
                is_relieved.unwrap_or(true)
            }
        }
    }

    /// Calls `decide` with the bucket of a key, and stores the word that `decide` returns.
    ///
    /// `decide` gets the tier's line, the bucket's word and the present position. It is called again if another thread
    /// changed the bucket meanwhile. If it returns the same word, nothing is written.
    ///
    /// This method returns `None` if the key has no slot.
    #[inline]
    pub(super) fn visit<T>(
        &self,
        key: Fingerprint,
        clock: &impl Clock,
        decide: impl Fn(&A::Line, u64, u64) -> (u64, T),
    ) -> Option<T> {
        self.visit_slot(key, clock, |_, _, line, word, at| decide(line, word, at))
    }

    /// Does what [`visit`](Self::visit) does, and also passes the slot and the slot's word to `decide`.
    #[inline]
    fn visit_slot<'a, T>(
        &'a self,
        key: Fingerprint,
        clock: &impl Clock,
        decide: impl Fn(&'a Slot, SlotWord, &A::Line, u64, u64) -> (u64, T),
    ) -> Option<T> {
        let spin_wait = SpinWait::new();
        loop {
            let (slot, word) = self.slots.slot_of(key)?;
            if let Some((line, at, full)) = self.look(word, clock) {
                let (after, answer) = decide(slot, word, &line, full, at);
                let stands =
                    if after == full { slot.still_has(word) } else { slot.replace(word, word.at_level(after)) };
                if stands {
                    return Some(answer);
                }
            }
            spin_wait.spin();
        }
    }

    /// Returns what a slot's word means now: its tier's line, the present position, and the bucket's word.
    ///
    /// It returns `None` if the quota changed meanwhile.
    ///
    /// The slot's word names the tier, so it has to be loaded before the epoch. The word may therefore come from an
    /// earlier epoch. Callers accept a decision only if the slot still has this word afterwards. That has the same
    /// effect as loading the word after the epoch.
    #[inline]
    fn look(&self, word: SlotWord, clock: &impl Clock) -> Option<(A::Line, u64, u64)> {
        let (quota, (epoch, mut line)) = self.tiers.read::<A::Line>(word.tier(), clock);
        // The clock is read after the slot's word, for the reason that `OneWord::read` gives.
        let at = line.reading(clock.now());
        let full = A::word(&line, word.level(), at, clock);
        quota.is_current(epoch).then_some((line, at, full))
    }

    /// Calls `look` with the bucket of a key, and changes nothing.
    ///
    /// `look` gets the tier's line, the bucket's word and the present position.
    ///
    /// If the key has no slot, `newcomer_tier` is asked for its tier. The bucket then owes what the key may have spent
    /// in shared words. These are read with the key's lock held, because debts move between them.
    pub(super) fn peek<T>(
        &self,
        key: Fingerprint,
        clock: &impl Clock,
        newcomer_tier: impl FnOnce() -> usize,
        look: impl Fn(&A::Line, u64, u64) -> T,
    ) -> T {
        self.visit(key, clock, |line, word, at| (word, look(line, word, at))).unwrap_or_else(|| {
            let (tier, of_key) = self.tiers.at(newcomer_tier());
            let share = self.shared.share_of(key);
            self.shared.lock(share).read(|_| {
                // If no call has used the tier yet, its line has not started, and a peek must not start it. The key may
                // owe something nevertheless, because it may have spent in another tier before.
                if let Some(mut line) = of_key.quota.unsettled_line::<A::Line>(clock) {
                    let elsewhere = self.shared.elsewhere::<A>(share, tier, &self.tiers, clock);
                    let at = line.reading(clock.now());
                    let debt = self.shared.debt::<A>(share, tier, &self.tiers, (&line, at), elsewhere, clock);
                    return look(&line, debt.of_key, at);
                }
                self.shared.visit::<A, _>(share, tier, &self.tiers, clock, |line, at, debt| look(line, debt.of_key, at))
            })
        })
    }

    /// Books tokens in the bucket of a key that has a slot, and returns how many; `None` without a slot.
    ///
    /// `charge` gets the tier's line, the bucket's word and the present position. It returns how many tokens it books,
    /// and the new word.
    fn book_in_slot(
        &self,
        key: Fingerprint,
        clock: &impl Clock,
        charge: impl Fn(&A::Line, u64, u64) -> (u32, u64),
    ) -> Option<u32> {
        self.visit(key, clock, |line, word, at| {
            let (booked, after) = charge(line, word, at);
            (after, booked)
        })
    }

    /// Books tokens for a key without a slot, and returns how many.
    ///
    /// Under `SharedOverflow` it books them in a shared word. Otherwise it gives the key a free slot, and returns 0 if
    /// there is none.
    ///
    /// [`book_in_slot`](Self::book_in_slot) describes `charge`. `tier` returns the key's tier, or `None` if the caller
    /// has to ask for the tier again. `tier` is called with the key's lock held.
    ///
    /// The method books nothing and returns `None` if the key has a slot by now, if `tier` returns `None`, or if
    /// another thread intervened.
    fn book_without_slot(
        &self,
        key: Fingerprint,
        clock: &impl Clock,
        tier: impl FnOnce() -> Option<usize>,
        charge: impl Fn(&A::Line, u64, u64) -> (u32, u64),
    ) -> Option<u32> {
        let share = self.shared.share_of(key);
        self.shared.lock(share).write(|counts| match self.slots.slot_of(key) {
            // Another thread has given the key a slot meanwhile.
            Some(_) => None,
            None if self.when_full != WhenFull::SharedOverflow => {
                self.book_in_free_slot(key, share, tier()?, charge, counts, clock)
            }
            None => Some(self.shared.charge::<A>(share, tier()?, &self.tiers, charge, counts, clock)),
        })
    }

    /// Counts the keys that have a slot, by their tiers, and changes nothing.
    ///
    /// The clock is read once for each chunk of slots, not for each slot. A call may take from a slot after the clock
    /// was read and before the slot is counted. Such a slot seems to owe a little more than it does. The line of a tier
    /// is read once for consecutive slots of that tier.
    pub(super) fn census(&self, clock: &impl Clock) -> KeyCensus {
        let mut census = KeyCensus::of_tiers(self.tiers.len());
        for slots in self.slots.chunks() {
            let now = clock.now();
            let mut seen: Option<(usize, A::Line, u64)> = None;
            for slot in slots {
                let word = slot.word();
                if slot.owner().is_none() || word.is_claimed() {
                    continue;
                }
                let tier = word.tier();
                let (line, at) = match &seen {
                    Some((of, line, at)) if *of == tier => (line, *at),
                    _ => {
                        let (_, (_, mut line)) = self.tiers.read::<A::Line>(tier, clock);
                        let at = line.reading(now);
                        let (_, line, at) = seen.insert((tier, line, at));
                        (&*line, *at)
                    }
                };
                let full = A::word(line, word.level(), at, clock);
                let is_owing = A::weight(line, full, at, clock) > 0;
                census.count(tier, is_owing, is_owing && A::is_exhausted(line, full, at, clock));
            }
        }
        census
    }

    /// Moves a key to the tier that `tier` returns. Returns `false` if `tier` returns `None`.
    ///
    /// `tier` is called with the key's lock held. So no other thread can give the key a slot in the old tier meanwhile.
    /// If the key has no slot, there is nothing to move.
    pub(super) fn move_to(&self, key: Fingerprint, clock: &impl Clock, tier: impl FnOnce() -> Option<usize>) -> bool {
        let share = self.shared.share_of(key);
        let is_known = self.shared.lock(share).write(|counts| {
            let Some(tier) = tier() else { return false };
            let spin_wait = SpinWait::new();
            while let Some((slot, word)) = self.slots.slot_of(key) {
                if word.tier() == tier {
                    return true;
                }
                let Some((old, at, full)) = self.look(word, clock) else { continue };
                // The slot gets the sum of two debts: the one in the slot, and the one in shared words. If it got only
                // the greater debt, a roll-back of tokens of that debt would lower the other debt, too.
                let owed = A::owed(&old, full, at, clock).plus(self.shared.owed_with_others::<A>(
                    share,
                    tier,
                    &self.tiers,
                    counts,
                    clock,
                ));
                let (new, (epoch, mut line)) = self.tiers.read::<A::Line>(tier, clock);
                self.tiers.at(tier).1.expect_debt_of(A::reach(&line, owed));
                let at = line.reading(clock.now());
                let moved = word.in_tier(tier).at_level(A::owing(&line, at, owed));
                if new.is_current(epoch) && slot.replace(word, moved) {
                    return true;
                }
                spin_wait.spin();
            }
            true
        });
        self.wake(key);
        is_known
    }
}

impl<A: UnderQuota> Table<A> {
    /// Gives back the `n` tokens of a receipt, except those that were refilled since the take.
    pub(super) fn roll_back(&self, key: Fingerprint, n: u32, receipt: Receipt, clock: &impl Clock) {
        self.give_back_taken(key, receipt, clock, |line, word, at, taken_at| A::roll_back(line, word, at, n, taken_at));
    }

    /// Books `n` tokens of a key that has a slot, and returns how many it booked; `None` without a slot.
    pub(super) fn charge_in_slot(&self, key: Fingerprint, n: u32, clock: &impl Clock) -> Option<u32> {
        self.book_in_slot(key, clock, |line, word, at| A::charge(line, word, at, n))
    }

    /// Books `n` tokens of a key without a slot, and returns what
    /// [`book_without_slot`](Self::book_without_slot) returns.
    pub(super) fn charge_without_slot(
        &self,
        key: Fingerprint,
        n: u32,
        clock: &impl Clock,
        tier: impl FnOnce() -> Option<usize>,
    ) -> Option<u32> {
        self.book_without_slot(key, clock, tier, |line, word, at| A::charge(line, word, at, n))
    }
}

/// Returns whether a level, which has 56 bits, can count up to the limit of this quota.
pub(super) fn is_kept_by<A: UnderQuota>(quota: Quota) -> bool {
    quota.is_unlimited() || quota.limit() <= A::LARGEST_LIMIT
}
