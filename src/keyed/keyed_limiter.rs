//! One quota, a bucket for every key.

use super::policy::WhenFull;
use super::slot::{Slot, Word};
use super::table::{Fingerprint, Table};
use crate::atomic::{AtomicU64, Backoff, Lock, Ordering};
use crate::clock::{Clock, DefaultClock, Ticks};
use crate::limit::{Algorithm, Allowed, Denied, LayerDenied, RateLimiter, Usage};
use crate::quota::{LiveQuota, Quota, SetQuotaError, Timeline};
use alloc::boxed::Box;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use crossbeam_utils::CachePadded;
use hashbrown::HashMap;
use parking_lot::RwLock;
use std::hash::RandomState;

/// One limit per key, in memory that is fixed at construction.
///
/// Keys are hashed with a random seed and not kept: two keys whose 64-bit hashes are equal share a bucket, which for a million keys has a
/// chance of one in 37 million. A key that is known is looked up without a lock; the first sight of a key takes one of 64 locks.
///
/// # When it is full
///
/// There are two slots for each key of the capacity, and each key may have one of eight. A bucket that is full says nothing, so its slot is given away
/// without loss. Where all eight owe something, [`WhenFull`] says what becomes of the newcomer; with as many busy keys as the capacity, that
/// happens to about 3 in 10,000. Nobody gets a fresh burst by pushing others out.
///
/// # Several quotas
///
/// Keys can belong to [tiers](crate::keyed::KeyedLimiterBuilder::tiers), each with a quota of its own; a key is asked for its tier when it is first seen, and
/// [`set_tier`](KeyedLimiter::set_tier) overrules it. Every quota can be changed while the limiter is used.
///
/// # Range
///
/// A bucket's position has 56 bits, which circle after 208 days of nanoseconds (sooner, where a quota was made much faster): a key that nobody used for so
/// long may for the time of one refill be judged more strictly. A clock that steps back by more than it should, and further than the deepest debt,
/// fills the buckets.
///
/// # Examples
///
/// ```
/// use damper::{KeyedLimiter, Quota};
/// use std::net::IpAddr;
///
/// let limits = KeyedLimiter::<IpAddr>::builder(Quota::per_second(50).burst(2)).capacity(100_000).build()?;
/// let (alice, bob) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
/// limits.check(&alice)?;
/// limits.check(&alice)?;
/// assert!(limits.check(&alice).is_err());
/// assert!(limits.check(&bob).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyedLimiter<K: ?Sized, C = DefaultClock, S = RandomState> {
    pub(super) tiers: Box<[Tier]>,
    pub(super) table: Table,
    /// Held while a key is given a slot, by its hash, so that none gets two.
    pub(super) locks: Box<[CachePadded<Lock>]>,
    pub(super) when_full: WhenFull,
    pub(super) tier_of: Option<TierOf<K>>,
    /// The tiers of single keys, by their fingerprints.
    pub(super) overrides: RwLock<HashMap<u64, usize>>,
    pub(super) counts: Counts,
    pub(super) capacity: usize,
    pub(super) clock: C,
    pub(super) hasher: S,
    pub(super) keys: PhantomData<fn(&K)>,
}

/// Which tier a key belongs to.
pub(super) type TierOf<K> = Box<dyn Fn(&K) -> usize + Send + Sync>;

/// A quota, and what the keys without a slot share of it.
#[derive(Debug)]
pub(super) struct Tier {
    pub(super) quota: LiveQuota,
    /// A position on the quota's line.
    pub(super) overflow: AtomicU64,
}

/// What happened to keys.
///
/// ORDERING: Relaxed throughout: numbers to look at.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) keys: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) overflows: AtomicU64,
    pub(super) refused_newcomers: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Where tokens were taken.
#[derive(Clone, Copy, Debug)]
struct Receipt {
    at: u64,
    tier: usize,
    /// Of the overflow bucket, not of the key's own.
    is_shared: bool,
}

type Taken = Result<(Allowed, Receipt), Denied>;

impl<K: Hash + ?Sized, C: Clock, S: BuildHasher> KeyedLimiter<K, C, S> {
    /// Takes one token of this key's bucket if there is one.
    ///
    /// # Errors
    ///
    /// [`Denied`], which tells when to come back.
    #[expect(clippy::inline_always, reason = "what nobody asks an answer for is then not computed")]
    #[inline(always)]
    pub fn check(&self, key: &K) -> Result<Allowed, Denied> {
        self.check_n(key, 1)
    }

    /// Takes `n` tokens of this key's bucket if all of them are there, else none.
    ///
    /// A refusal of a key that has a slot writes nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`], which tells when to come back, or that `n` exceeds the burst.
    #[expect(clippy::inline_always, reason = "as `check`")]
    #[inline(always)]
    pub fn check_n(&self, key: &K, n: u32) -> Result<Allowed, Denied> {
        self.take(key, n).map(|(allowed, _)| allowed)
    }

    /// As [`check_n`](Self::check_n), of the key's limit and of one for all in one decision: both are taken, or none. What is allowed is told of the one that
    /// has fewer left.
    ///
    /// # Errors
    ///
    /// [`LayerDenied`]: the limit 0 is that of the key, 1 the one for all.
    ///
    /// # Examples
    ///
    /// ```
    /// use damper::{KeyedLimiter, ManualClock, Quota, RateLimiter};
    ///
    /// let clock = ManualClock::new();
    /// let all = RateLimiter::with_clock(Quota::per_second(100).burst(3), &clock);
    /// let each = KeyedLimiter::<str>::builder(Quota::per_second(10).burst(2)).clock(&clock).build()?;
    /// assert!(each.check_n_with("alice", 2, &all).is_ok());
    /// assert_eq!(each.check_n_with("alice", 1, &all).unwrap_err().layer(), 0);
    /// assert_eq!(each.check_n_with("bob", 2, &all).unwrap_err().layer(), 1);
    /// assert_eq!(each.peek("bob").used(), 0, "nothing was taken");
    /// # Ok::<(), damper::KeyedLimiterError>(())
    /// ```
    pub fn check_n_with<A: Algorithm, D: Clock>(
        &self,
        key: &K,
        n: u32,
        all: &RateLimiter<A, D>,
    ) -> Result<Allowed, LayerDenied> {
        let fingerprint = self.fingerprint(key);
        let (own, receipt) = self.take_of(fingerprint, key, n).map_err(|denied| {
            let tier = self.peek_tier(fingerprint, key);
            LayerDenied::new(denied, 0, self.tiers[tier].quota.quota())
        })?;
        match all.check_n(n) {
            Ok(shared) => Ok(if own.remaining() <= shared.remaining() { own } else { shared }),
            Err(denied) => {
                self.roll_back(fingerprint, n, receipt);
                Err(LayerDenied::new(denied, 1, all.quota()))
            }
        }
    }

    /// Tells how much of this key's limit is used, and takes nothing; a key without a slot has used none.
    pub fn peek(&self, key: &K) -> Usage {
        let fingerprint = self.fingerprint(key);
        let seen = self.visit(fingerprint, |line, word, at| {
            (word, (line.remaining(word, at), line.resets_in(word, at).duration(line.frequency())))
        });
        let quota = self.tiers[self.peek_tier(fingerprint, key)].quota.quota();
        let (remaining, resets_in) = seen.unwrap_or((quota.capacity(), Some(core::time::Duration::ZERO)));
        Usage::of(quota, remaining, resets_in)
    }

    /// Gives back `n` tokens that this key took and did not need; more than a full bucket holds are lost, and so are those of a key
    /// without a slot. While the bucket is below empty, nothing is given back.
    pub fn refund(&self, key: &K, n: u32) {
        self.visit(self.fingerprint(key), |line, word, at| (line.refund(word, at, n), ()));
    }

    /// Books `n` tokens of this key after the fact, whether they are there or not, and returns how many it booked: what something turned
    /// out to cost. Debt goes no deeper than [`Quota::max_debt`]. A key without a slot is booked in the bucket that those share, or not at all if there
    /// is none: then it returns 0.
    pub fn charge(&self, key: &K, n: u32) -> u32 {
        let fingerprint = self.fingerprint(key);
        loop {
            let booked = self.visit(fingerprint, |line, word, at| {
                let (booked, after) = line.charge(word, at, n);
                (after, booked)
            });
            if let Some(booked) = booked {
                return booked;
            }
            let own = self.own_tier(key);
            let shared = self.lock(fingerprint).while_held(|| match self.slot_of(fingerprint) {
                // Seen meanwhile.
                Some(_) => None,
                None if self.when_full != WhenFull::SharedOverflow => Some(0),
                None => Some(self.visit_overflow(self.tier(fingerprint, own), |line, word, at| {
                    let (booked, after) = line.charge(word, at, n);
                    (after, booked)
                })),
            });
            if let Some(booked) = shared {
                return booked;
            }
        }
    }

    /// Forgets what this key took: its bucket is full again.
    pub fn reset(&self, key: &K) {
        self.visit(self.fingerprint(key), |_, _, at| (at, ()));
    }

    /// Makes this key belong to a tier, whatever it would else. What is missing from its bucket takes as long to be refilled as before.
    /// Remembered until the limiter is dropped or [`clear_tier`](Self::clear_tier) is called, in memory of its own: for few keys.
    ///
    /// # Errors
    ///
    /// [`KeyedLimiterError::Tier`](super::KeyedLimiterError::Tier) if there is no such tier.
    pub fn set_tier(&self, key: &K, tier: usize) -> Result<(), super::KeyedLimiterError> {
        if tier >= self.tiers.len() {
            return Err(super::KeyedLimiterError::Tier(tier));
        }
        let fingerprint = self.fingerprint(key);
        self.lock(fingerprint).while_held(|| {
            self.overrides.write().insert(fingerprint.get(), tier);
            self.move_to(fingerprint, tier);
        });
        Ok(())
    }

    /// Makes this key belong to the tier again that it would without [`set_tier`](Self::set_tier).
    pub fn clear_tier(&self, key: &K) {
        let (fingerprint, own) = (self.fingerprint(key), self.own_tier(key));
        self.lock(fingerprint).while_held(|| {
            self.overrides.write().remove(&fingerprint.get());
            self.move_to(fingerprint, own);
        });
    }

    /// Called with the key's lock held, so that no first sight comes between with the tier of before.
    fn move_to(&self, fingerprint: Fingerprint, tier: usize) {
        let backoff = Backoff::new();
        while let Some(slot) = self.slot_of(fingerprint) {
            let (new, now) = (&self.tiers[tier], slot.word());
            let Some((old, at, word)) = self.look(now) else { continue };
            let (epoch, line) = new.quota.read(&self.clock);
            let position = line.position(self.clock.now());
            let debt = match old.resets_in(word, at) {
                Ticks::ZERO => 0,
                wait => line.units_in(wait).min(line.deepest_debt_in_units()),
            };
            let moved = now.in_tier(tier).at_level(position.wrapping_add(debt));
            if slot.is_of(fingerprint.get()) && new.quota.is_current(epoch) && slot.replace(now, moved) {
                return;
            }
            backoff.spin();
        }
    }

    #[inline]
    fn fingerprint(&self, key: &K) -> Fingerprint {
        Fingerprint::of(self.hasher.hash_one(key))
    }

    /// The tier of a key that was given none; asked without a lock, for who is asked may use the limiter.
    fn own_tier(&self, key: &K) -> usize {
        // What is beyond the last tier is the last.
        self.tier_of.as_ref().map_or(0, |tier_of| tier_of(key)).min(self.tiers.len() - 1)
    }

    /// The tier of a key: that which it was given, or else its own.
    fn tier(&self, fingerprint: Fingerprint, own: usize) -> usize {
        if self.tiers.len() == 1 {
            return 0;
        }
        self.overrides.read().get(&fingerprint.get()).copied().unwrap_or(own)
    }

    /// The tier that a key is in, or would be.
    fn peek_tier(&self, fingerprint: Fingerprint, key: &K) -> usize {
        self.visit_word(fingerprint).map_or_else(|| self.tier(fingerprint, self.own_tier(key)), Word::tier)
    }

    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn take(&self, key: &K, n: u32) -> Taken {
        let fingerprint = self.fingerprint(key);
        // The straight path, once; whatever is in its way is the loop's business.
        match self.take_straight(fingerprint, n) {
            Some(taken) => taken,
            None => self.take_of(fingerprint, key, n),
        }
    }

    /// Of a key that has a slot and owes nothing, of a quota with a limit, if nobody comes between.
    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn take_straight(&self, fingerprint: Fingerprint, n: u32) -> Option<Taken> {
        let slot = self.table.find(fingerprint)?;
        let index = if self.tiers.len() == 1 { 0 } else { slot.word().tier() };
        let quota = &self.tiers[index].quota;
        let (epoch, line) = quota.read_straight()?;
        let word = slot.word();
        if n == 0 || word.is_claimed() || word.tier() != index || !slot.is_of(fingerprint.get()) {
            return None;
        }
        let at = line.position(self.clock.now());
        let full = line.word_near(word.ahead_of(at), at)?;
        if !quota.is_current(epoch) {
            return None;
        }
        // No closures here: a call that is given the line makes the others keep it in memory.
        match line.take(full, at, n) {
            Ok(after) if slot.replace(word, word.at_level(after)) => {
                Some(Ok((Allowed::new(&line, after, at), Receipt { at, tier: index, is_shared: false })))
            }
            Err(refusal) if slot.still_has(word) => Some(Err(Denied::new(&line, full, at, refusal))),
            _ => None,
        }
    }

    #[cold]
    fn take_of(&self, fingerprint: Fingerprint, key: &K, n: u32) -> Taken {
        loop {
            let taken = self.visit_in_tier(fingerprint, |tier, line, word, at| match line.take(word, at, n) {
                Ok(after) => (after, Ok((Allowed::new(line, after, at), Receipt { at, tier, is_shared: false }))),
                Err(refusal) => (word, Err(Denied::new(line, word, at, refusal))),
            });
            if let Some(taken) = taken.or_else(|| self.take_first(fingerprint, key, n)) {
                return taken;
            }
        }
    }

    /// The first sight of a key; `None` if another thread was first with the same.
    #[cold]
    fn take_first(&self, fingerprint: Fingerprint, key: &K, n: u32) -> Option<Taken> {
        let own = self.own_tier(key);
        self.lock(fingerprint).while_held(|| self.take_as_newcomer(fingerprint, self.tier(fingerprint, own), n))
    }
}

impl<K: ?Sized, C: Clock, S> KeyedLimiter<K, C, S> {
    fn lock(&self, fingerprint: Fingerprint) -> &Lock {
        &self.locks[fingerprint.get() as usize % self.locks.len()]
    }

    /// The slot of a key, if it has one that nobody is taking from it.
    fn slot_of(&self, fingerprint: Fingerprint) -> Option<&Slot> {
        let slot = self.table.find(fingerprint)?;
        if !slot.word().is_claimed() {
            return Some(slot);
        }
        // One that is being taken from the key may stand before the one that it got since.
        let is_its = |slot: &&Slot| slot.seems_of(fingerprint.get()) && !slot.word().is_claimed();
        self.table.candidates(fingerprint).into_iter().flatten().find(is_its)
    }

    /// The word of a key's slot.
    fn visit_word(&self, fingerprint: Fingerprint) -> Option<Word> {
        let slot = self.slot_of(fingerprint)?;
        let word = slot.word();
        (!word.is_claimed() && slot.is_of(fingerprint.get())).then_some(word)
    }

    /// The line, the position of now and the bucket's full word, of what a slot was seen to have; `None` if the quota is just changing.
    #[inline]
    fn look(&self, word: Word) -> Option<(Timeline, u64, u64)> {
        let tier = &self.tiers[word.tier()];
        let (epoch, line) = tier.quota.read(&self.clock);
        let at = line.position(self.clock.now());
        let full = line.word_ahead(word.ahead_of(at), at, &self.clock);
        tier.quota.is_current(epoch).then_some((line, at, full))
    }

    /// Decides about the bucket of a key, until a decision stands; `None` if the key has no slot. A decision that leaves the word as it is
    /// writes nothing.
    #[inline]
    fn visit<T>(&self, fingerprint: Fingerprint, decide: impl Fn(&Timeline, u64, u64) -> (u64, T)) -> Option<T> {
        self.visit_in_tier(fingerprint, |_, line, word, at| decide(line, word, at))
    }

    /// As [`visit`](Self::visit), told which tier it is.
    #[inline]
    fn visit_in_tier<T>(
        &self,
        fingerprint: Fingerprint,
        decide: impl Fn(usize, &Timeline, u64, u64) -> (u64, T),
    ) -> Option<T> {
        let backoff = Backoff::new();
        loop {
            let slot = self.slot_of(fingerprint)?;
            // The tier says which epoch is to be read before the word.
            let index = if self.tiers.len() == 1 { 0 } else { slot.word().tier() };
            let tier = &self.tiers[index];
            let (epoch, line) = match tier.quota.read_published() {
                Some(published) => published,
                None => tier.quota.read(&self.clock),
            };
            let word = slot.word();
            if word.is_claimed() {
                return None;
            }
            if slot.is_of(fingerprint.get()) && word.tier() == index {
                // After the word, as in `OneWord::look`.
                let at = line.position(self.clock.now());
                let full = line.word_ahead(word.ahead_of(at), at, &self.clock);
                if tier.quota.is_current(epoch) {
                    let (after, answer) = decide(index, &line, full, at);
                    let stands =
                        if after == full { slot.still_has(word) } else { slot.replace(word, word.at_level(after)) };
                    if stands {
                        return Some(answer);
                    }
                }
            }
            backoff.spin();
        }
    }

    /// Decides about the bucket that the keys of a tier share which have no slot.
    fn visit_overflow<T>(&self, tier: usize, decide: impl Fn(&Timeline, u64, u64) -> (u64, T)) -> T {
        let tier = &self.tiers[tier];
        let backoff = Backoff::new();
        loop {
            let (epoch, line) = tier.quota.read(&self.clock);
            // ORDERING: Relaxed, because the fence in `is_current` follows, as in `OneWord::look`.
            let old = tier.overflow.load(Ordering::Relaxed);
            let at = line.position(self.clock.now());
            if tier.quota.is_current(epoch) {
                let word = line.heal(old, at, &self.clock).unwrap_or(old);
                let (after, answer) = decide(&line, word, at);
                // ORDERING: Release, as in `OneWord::replace`.
                let is_done = after == old
                    || tier.overflow.compare_exchange(old, after, Ordering::Release, Ordering::Relaxed).is_ok();
                if is_done {
                    return answer;
                }
            }
            backoff.spin();
        }
    }

    /// Takes tokens for a key that has no slot, and gives it one if it can; called with its lock held. `None` if it has one by now.
    fn take_as_newcomer(&self, fingerprint: Fingerprint, tier: usize, n: u32) -> Option<Taken> {
        let backoff = Backoff::new();
        loop {
            if self.slot_of(fingerprint).is_some() {
                return None;
            }
            if let Some(taken) = self.try_take_as_newcomer(fingerprint, tier, n) {
                return Some(taken);
            }
            backoff.spin();
        }
    }

    /// One try of it; `None` if others came between.
    fn try_take_as_newcomer(&self, fingerprint: Fingerprint, index: usize, n: u32) -> Option<Taken> {
        let tier = &self.tiers[index];
        let (epoch, line) = tier.quota.read(&self.clock);
        // ORDERING: Relaxed, because the fence in `is_current` follows.
        let overflow = tier.overflow.load(Ordering::Relaxed);
        let words = self.table.candidates(fingerprint).map(|set| set.map(|slot| (slot, slot.word())));
        let [first, second] = words.map(|set| set.map(|(slot, word)| Some((self.victim(slot, word)?, word))));
        // Where there are slots of nobody, they are what is filled evenly; else those whose owners owe nothing.
        let is_any_nobodys = first.iter().chain(&second).flatten().any(|(slot, _)| !slot.is_taken);
        let [room, room_elsewhere] = [&first, &second].map(|set| {
            let is_room = |slot: &Victim<'_>| if is_any_nobodys { !slot.is_taken } else { slot.is_idle() };
            set.iter().flatten().filter(|(slot, _)| is_room(slot)).count()
        });
        let sets = if room <= 1 && room_elsewhere > room { [second, first] } else { [first, second] };
        let (_, (victim, word)) = sets
            .into_iter()
            .enumerate()
            .flat_map(|(order, set)| set.into_iter().flatten().map(move |slot| (order, slot)))
            .min_by_key(|(order, (victim, _))| (victim.full_in, victim.is_taken, *order))?;
        // Anew, after the words.
        let at = line.position(self.clock.now());
        if !tier.quota.is_current(epoch) {
            return None;
        }
        let mut owed = match victim.full_in {
            Ticks::ZERO => 0,
            wait => match self.when_full {
                WhenFull::DenyNew if line.take(at, at, n).is_ok_and(|after| after != at) => {
                    count(&self.counts.refused_newcomers);
                    return Some(Err(Denied::counted(&line, 0, wait, wait)));
                }
                // What is always allowed, or never.
                WhenFull::DenyNew => line.deepest_debt_in_units(),
                WhenFull::SharedOverflow => return Some(self.take_of_overflow(index, n)),
                WhenFull::EvictLeastIndebted if word.tier() == index => {
                    Timeline::debt(line.word_ahead(word.ahead_of(at), at, &self.clock), at)
                }
                WhenFull::EvictLeastIndebted => line.units_in(wait).min(line.deepest_debt_in_units()),
            },
        };
        if self.when_full == WhenFull::SharedOverflow {
            // It may have been one of those who share.
            owed = owed.max(Timeline::debt(line.heal(overflow, at, &self.clock).unwrap_or(overflow), at));
        }
        let word_before = at.wrapping_add(owed);
        let after = match line.take(word_before, at, n) {
            Ok(after) if n == 0 || line.is_unlimited() => {
                let receipt = Receipt { at, tier: index, is_shared: false };
                return Some(Ok((Allowed::new(&line, after, at), receipt)));
            }
            Ok(after) => after,
            Err(refusal) => {
                count(&self.counts.refused_newcomers);
                return Some(Err(Denied::new(&line, word_before, at, refusal)));
            }
        };
        let claim = victim.slot.claim(word)?;
        if claim.fingerprint() == 0 {
            count(&self.counts.keys);
        } else if victim.full_in > Ticks::ZERO {
            count(&self.counts.evictions);
        }
        claim.publish(fingerprint.get(), index, after);
        Some(Ok((Allowed::new(&line, after, at), Receipt { at, tier: index, is_shared: false })))
    }

    fn take_of_overflow(&self, tier: usize, n: u32) -> Taken {
        count(&self.counts.overflows);
        self.visit_overflow(tier, |line, word, at| match line.take(word, at, n) {
            Ok(after) => (after, Ok((Allowed::new(line, after, at), Receipt { at, tier, is_shared: true }))),
            Err(refusal) => (word, Err(Denied::new(line, word, at, refusal))),
        })
    }

    /// A slot that may change its owner, and when it is full; `None` if it changes him just now, or its quota.
    fn victim<'a>(&self, slot: &'a Slot, word: Word) -> Option<Victim<'a>> {
        if word.is_claimed() {
            return None;
        }
        if slot.is_of(0) {
            return Some(Victim { slot, full_in: Ticks::ZERO, is_taken: false });
        }
        let (line, at, full) = self.look(word)?;
        Some(Victim { slot, full_in: line.resets_in(full, at), is_taken: true })
    }

    fn roll_back(&self, fingerprint: Fingerprint, n: u32, receipt: Receipt) {
        let back = |line: &Timeline, word, at| line.roll_back(word, at, n, receipt.at);
        if receipt.is_shared {
            self.visit_overflow(receipt.tier, |line, word, at| (back(line, word, at), ()));
        } else {
            // Positions of another tier say nothing here.
            self.visit_in_tier(fingerprint, |tier, line, word, at| {
                (if tier == receipt.tier { back(line, word, at) } else { word }, ())
            });
        }
    }

    /// Forgets all keys, and what they took.
    pub fn clear(&self) {
        for slot in self.table.slots() {
            let backoff = Backoff::new();
            while !slot.is_of(0) {
                let word = slot.word();
                // Who changes the owner just now comes after.
                if word.is_claimed() {
                    break;
                }
                if let Some(claim) = slot.claim(word) {
                    if claim.fingerprint() != 0 {
                        self.counts.keys.fetch_sub(1, Ordering::Relaxed);
                    }
                    claim.publish(0, 0, 0);
                    break;
                }
                backoff.spin();
            }
        }
        for tier in 0..self.tiers.len() {
            self.visit_overflow(tier, |_, _, at| (at, ()));
        }
    }

    /// The keys that it was built for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The keys that have a slot, whether they owe something or not: at most two for each of the capacity, rounded up to whole sets of four.
    pub fn len(&self) -> usize {
        // At most the number of slots.
        self.counts.keys.load(Ordering::Relaxed) as usize
    }

    /// Whether no key has a slot.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys lost their slot while they owed something.
    pub fn evictions(&self) -> u64 {
        self.counts.evictions.load(Ordering::Relaxed)
    }

    /// How many calls were decided by the bucket that keys without a slot share.
    pub fn overflows(&self) -> u64 {
        self.counts.overflows.load(Ordering::Relaxed)
    }

    /// How many calls were refused to keys without a slot, because there was none or because of what its owner owed.
    pub fn refused_newcomers(&self) -> u64 {
        self.counts.refused_newcomers.load(Ordering::Relaxed)
    }

    /// The quota of each key; of tiers, the first.
    pub fn quota(&self) -> Quota {
        self.tiers[0].quota.quota()
    }

    /// The quota of a tier, if there is one.
    pub fn tier_quota(&self, tier: usize) -> Option<Quota> {
        Some(self.tiers.get(tier)?.quota.quota())
    }

    /// Puts another quota in force for each key, as [`RateLimiter::set_quota`] does; of tiers, for the first.
    ///
    /// # Errors
    ///
    /// [`SetQuotaError`], and the quota stays.
    pub fn set_quota(&self, quota: Quota) -> Result<(), SetQuotaError> {
        self.tiers[0].quota.set(quota, &self.clock)
    }

    /// As [`set_quota`](Self::set_quota) for one of the tiers; `None` if there is no such tier.
    ///
    /// # Errors
    ///
    /// [`SetQuotaError`], and the quota stays.
    pub fn set_tier_quota(&self, tier: usize, quota: Quota) -> Option<Result<(), SetQuotaError>> {
        Some(self.tiers.get(tier)?.quota.set(quota, &self.clock))
    }
}

/// A slot that may change its owner: that which is full soonest, then of the set where more are, then nobody's.
struct Victim<'a> {
    slot: &'a Slot,
    full_in: Ticks,
    is_taken: bool,
}

impl Victim<'_> {
    fn is_idle(&self) -> bool {
        self.full_in == Ticks::ZERO
    }
}

impl<K: ?Sized, C: fmt::Debug, S> fmt::Debug for KeyedLimiter<K, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLimiter")
            .field("quota", &self.tiers[0].quota)
            .field("capacity", &self.capacity)
            .field("when_full", &self.when_full)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
