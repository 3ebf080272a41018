//! One quota, a bucket for every key.

use super::locks::Locks;
use super::policy::WhenFull;
use super::shared::{Shared, SharedDebt, SharedWord};
use super::table::{Fingerprint, KeyedSlots, SLOTS_PER_KEY, Table, WAYS};
use super::tiers::Tiers;
use crate::limit::{
    Algorithm, Allowed, Denied, KeyedAlgorithm, LimitSetDenied, RateLimiter, TokenBucket, TokenLine, Usage,
};
use crate::quota::Quota;
use crate::sync::{Backoff, const_unless_loom};
use crate::time::Seed;
use crate::time::{Clock, DefaultClock};
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;

/// One limit per key, in memory that is fixed at construction.
///
/// Keys are hashed with a random seed and not kept: two keys whose 64-bit hashes are equal share a bucket, which for a
/// million keys has a chance of one in 37 million. A key that is known is looked up without a lock; the first sight of
/// a key takes one of 64 locks (one critical section, without the feature `std`).
///
/// # When it is full
///
/// There are two slots for each key of the capacity, and each key may have one of eight. The slot of a full bucket is given
/// away without loss. Where all eight owe something, [`WhenFull`] decides; with as many busy keys as the capacity, that happens
/// to 35 newcomers in 10,000. By default those spend from shared buckets, of which there are two for each key of the capacity.
/// No key gets a second burst by that, and none under [`WhenFull::DenyNew`]. [`WhenFull::EvictLeastIndebted`] keeps less: all
/// slots together stay in their envelope, a key that is evicted and returns may have a fresh burst.
/// [The guide](https://docs.rs/damper/latest/damper/guide/full_table/) has figures.
///
/// # Several quotas
///
/// Keys can belong to [tiers](crate::keyed::KeyedLimiterBuilder::tiers), each with a quota of its own; a key is asked
/// for its tier when it is first seen, and [`set_tier`](KeyedLimiter::set_tier) overrules it. Every quota can be
/// changed while the limiter is used.
///
/// # Other algorithms
///
/// A key's bucket is a [`TokenBucket`]; by [`algorithm`](crate::keyed::KeyedLimiterBuilder::algorithm) it can be a
/// [`FixedWindow`](crate::FixedWindow) or a [`SlidingCounter`](crate::SlidingCounter), each of which fits a slot. Where
/// these are pushed out, the newcomer continues the count of the window.
///
/// # Range
///
/// A bucket's position has 56 bits, which circle after 208 days of nanoseconds (sooner, where a quota was made much
/// faster): a key that nobody used for so long may for the time of one refill be judged more strictly. A clock that
/// steps back by more than it should, and further than the deepest debt, fills the buckets. Where readings of the clock
/// differ between threads, a bucket that one of them finds full may be forgotten, and give another what the rate brings in
/// that difference once more. Of windows the number wraps instead: after 2^24 of a fixed window, 2^16 of a sliding counter.
///
/// # Examples
///
#[cfg_attr(feature = "std", doc = "```")]
#[cfg_attr(not(feature = "std"), doc = "```text")]
/// # extern crate damper_core as damper;
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
pub struct KeyedLimiter<K: ?Sized, C = DefaultClock, S = Seed, A = TokenBucket> {
    pub(super) tiers: Tiers<K>,
    pub(super) table: Table,
    pub(super) shared: Shared,
    pub(super) locks: Locks,
    pub(super) when_full: WhenFull,
    pub(super) capacity: usize,
    pub(super) clock: C,
    pub(super) hasher: S,
    pub(super) algorithm: PhantomData<fn() -> A>,
}

/// Where tokens were taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receipt {
    pub(super) at: u64,
    /// There are at most 16.
    pub(super) tier: u8,
    pub(super) place: Place,
}

/// Whose tokens were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Nobody's: the call cost nothing, under a quota without a limit or for no tokens.
    Nowhere,
    /// Those of the key's slot.
    Slot,
    /// Those of the shared bucket, which was cleared so many times before.
    Shared { clears: u32 },
}

impl Place {
    /// `self`, if the word changed.
    pub(super) fn unless_same(self, before: u64, after: u64) -> Self {
        if after == before { Self::Nowhere } else { self }
    }
}

pub(super) type Taken = Result<(Allowed, Receipt), Denied>;

impl<K: ?Sized, C, S> KeyedLimiter<K, C, S> {
    const_unless_loom! {
        /// One quota for each key, in slots that the caller lends: two keys for each set of them. It allocates nothing,
        /// and can be a `static`.
        ///
        /// First sights take one lock for all keys, which without the feature `std` is a critical section of the
        /// firmware's; hits take none.
        ///
        /// # Examples
        ///
        /// ```
        /// # extern crate damper_core as damper;
        /// use damper::keyed::KeyedSlots;
        /// use damper::time::Seed;
        /// use damper::{CoarseClock, KeyedLimiter, Quota};
        ///
        /// static TIME: CoarseClock = CoarseClock::new();
        /// static SLOTS: KeyedSlots<32> = KeyedSlots::new(); // 3 KiB, for 64 nodes
        /// static NODES: KeyedLimiter<u16, &CoarseClock, Seed> =
        ///     KeyedLimiter::in_slots(Quota::per_minute(6).burst(2), &SLOTS, &TIME, Seed::new(0x5EED, 0xF00D));
        ///
        /// assert!(NODES.check(&7).is_ok());
        /// assert!(NODES.check(&7).is_ok());
        /// assert!(NODES.check(&7).is_err());
        /// assert!(NODES.check(&8).is_ok());
        /// ```
        #[must_use]
        pub const fn in_slots<const SETS: usize, const SHARED: usize>(
            quota: Quota,
            slots: &'static KeyedSlots<SETS, SHARED>,
            clock: C,
            hasher: S,
        ) -> Self {
            Self {
                tiers: Tiers::one(quota, TokenLine::IN_LEVELS),
                table: slots.sets(),
                shared: slots.shared(),
                locks: Locks::one(),
                when_full: WhenFull::SharedOverflow,
                capacity: SETS * WAYS / SLOTS_PER_KEY,
                clock,
                hasher,
                algorithm: PhantomData,
            }
        }
    }
}

impl<K: ?Sized, C, S, A> KeyedLimiter<K, C, S, A> {
    /// Sets what becomes of a key for which there is no slot, before the first use. Default:
    /// [`WhenFull::SharedOverflow`].
    #[must_use]
    pub const fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }
}

impl<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm> KeyedLimiter<K, C, S, A> {
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

    /// Takes `n` tokens of the key's limit and of the limit `all` in one decision: of both, or of none. [`Allowed`]
    /// describes the one that has fewer left.
    ///
    /// # Errors
    ///
    /// [`LimitSetDenied`]: layer 0 is the key's limit, layer 1 is `all`. Where both refuse, it names the one with the longer
    /// wait.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "std", doc = "```")]
    #[cfg_attr(not(feature = "std"), doc = "```text")]
    /// # extern crate damper_core as damper;
    /// use damper::{KeyedLimiter, ManualClock, Quota, RateLimiter};
    ///
    /// let clock = ManualClock::new();
    /// let all = RateLimiter::with_clock(Quota::per_second(100).burst(3), &clock);
    /// let each = KeyedLimiter::<str>::builder(Quota::per_second(10).burst(2)).clock(&clock).build()?;
    /// assert!(each.check_n_with("alice", 2, &all).is_ok());
    /// assert_eq!(each.check_n_with("alice", 1, &all).unwrap_err().index(), 0);
    /// assert_eq!(each.check_n_with("bob", 2, &all).unwrap_err().index(), 1);
    /// assert_eq!(each.peek("bob").used(), 0, "nothing was taken");
    /// # Ok::<(), damper::KeyedLimiterError>(())
    /// ```
    pub fn check_n_with<B: Algorithm, D: Clock>(
        &self,
        key: &K,
        n: u32,
        all: &RateLimiter<B, D>,
    ) -> Result<Allowed, LimitSetDenied> {
        let fingerprint = self.fingerprint(key);
        let (own, receipt) = self.take_of(fingerprint, key, n, true).map_err(|denied| match all.refusal(n) {
            Some(longer) if longer.outlasts(&denied) => LimitSetDenied::new(longer, 1, all.quota()),
            _ => LimitSetDenied::new(denied, 0, self.quota_of(fingerprint, key)),
        })?;
        match all.check_n(n) {
            Ok(shared) => Ok(if own.remaining() <= shared.remaining() { own } else { shared }),
            Err(denied) => {
                self.roll_back(fingerprint, n, receipt);
                Err(LimitSetDenied::new(denied, 1, all.quota()))
            }
        }
    }

    /// Returns how much of this key's limit is used, and takes nothing. A key without a slot owes
    /// what it may have spent of its shared bucket.
    pub fn peek(&self, key: &K) -> Usage {
        let fingerprint = self.fingerprint(key);
        let usage = |line: &A::Line, quota, word, at| A::usage(line, quota, word, at, &self.clock);
        let quota = self.quota_of(fingerprint, key);
        let seen = self.visit(fingerprint, |line, word, at| (word, usage(line, quota, word, at)));
        seen.unwrap_or_else(|| {
            self.visit_shared_of(fingerprint, key, |line, at, debt| (None, usage(line, quota, debt.of_key, at)))
        })
    }

    /// Gives back up to `n` tokens that this key took and did not need, and returns how many it gave back.
    ///
    /// A debt is repaid first. What a full bucket or an idle window has no room for is lost; of a token that was missing
    /// in part only that part is given back, and counts as one. For a key without a slot it does nothing and returns 0.
    pub fn refund(&self, key: &K, n: u32) -> u32 {
        let given = self.visit(self.fingerprint(key), |line, word, at| {
            let (given, after) = A::refund(line, word, at, n);
            (after, given)
        });
        given.unwrap_or(0)
    }

    /// Books `n` tokens of this key after the fact, whether they are there or not, and returns how many it booked: what
    /// something turned out to cost. Debt goes no deeper than [`Quota::max_debt`]. A key without a slot is booked in
    /// the bucket that those share, or not at all if there is none: then it returns 0.
    pub fn charge(&self, key: &K, n: u32) -> u32 {
        let fingerprint = self.fingerprint(key);
        loop {
            let booked = self.visit(fingerprint, |line, word, at| {
                let (booked, after) = A::charge(line, word, at, n);
                (after, booked)
            });
            if let Some(booked) = booked {
                return booked;
            }
            let own = self.tiers.own(key);
            let share = self.share_of(fingerprint);
            let shared = self.locks.of(share.bucket()).write(|_| match self.slot_of(fingerprint) {
                // Seen meanwhile.
                Some(_) => None,
                None if self.when_full != WhenFull::SharedOverflow => Some(0),
                None => Some(self.charge_shared(share, self.tiers.of(fingerprint, own), n)),
            });
            if let Some(booked) = shared {
                return booked;
            }
        }
    }

    /// Forgets what this key took: its bucket is full again.
    pub fn reset(&self, key: &K) {
        self.visit(self.fingerprint(key), |line, _, at| (A::idle(line, at), ()));
    }

    #[inline]
    pub(super) fn fingerprint(&self, key: &K) -> Fingerprint {
        Fingerprint::of(self.hasher.hash_one(key))
    }

    /// The quota of the tier that a key is in, or would be.
    fn quota_of(&self, fingerprint: Fingerprint, key: &K) -> Quota {
        let of_newcomer = || self.tiers.of(fingerprint, self.tiers.own(key));
        self.tiers.at(|| self.slot_of(fingerprint).map_or_else(of_newcomer, |(_, word)| word.tier())).1.quota()
    }

    /// Decides by the shared bucket of a key without a slot, in the tier that it would have.
    pub(super) fn visit_shared_of<T>(
        &self,
        fingerprint: Fingerprint,
        key: &K,
        decide: impl Fn(&A::Line, u64, SharedDebt) -> (Option<SharedWord>, T),
    ) -> T {
        let (tier, _) = self.tiers.at(|| self.tiers.of(fingerprint, self.tiers.own(key)));
        self.visit_shared(self.share_of(fingerprint), tier, decide)
    }

    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    pub(super) fn take(&self, key: &K, n: u32) -> Taken {
        let fingerprint = self.fingerprint(key);
        // The straight path, once; whatever is in its way is the loop's business.
        let slot = self.table.find(fingerprint);
        if let Some(slot) = slot
            && let Some(word) = slot.word_of(fingerprint)
            && let Some(taken) = self.take_straight(slot, word, n)
        {
            return taken;
        }
        self.take_of(fingerprint, key, n, slot.is_some())
    }

    #[cold]
    fn take_of(&self, fingerprint: Fingerprint, key: &K, n: u32, mut is_seen: bool) -> Taken {
        loop {
            let taken = if is_seen {
                self.visit_in_tier(fingerprint, |tier, line, word, at| match A::take(line, word, at, n, &self.clock) {
                    Ok((after, allowed)) => {
                        let place = Place::Slot.unless_same(word, after);
                        (after, Ok((allowed, Receipt { at: A::receipt(after, at), tier: tier as u8, place })))
                    }
                    Err(denied) => (word, Err(denied)),
                })
            } else {
                self.take_first(fingerprint, key, n)
            };
            match taken {
                Some(taken) => return taken,
                None => is_seen = !is_seen,
            }
        }
    }

    /// The first sight of a key; `None` if another thread was first with the same.
    fn take_first(&self, fingerprint: Fingerprint, key: &K, n: u32) -> Option<Taken> {
        let own = self.tiers.own(key);
        self.lock_of(fingerprint)
            .write(|counts| self.take_as_newcomer(fingerprint, self.tiers.of(fingerprint, own), n, counts))
    }
}

impl<K: ?Sized, C: Clock, S, A: KeyedAlgorithm> KeyedLimiter<K, C, S, A> {
    /// Forgets all keys, and what they took. What a call takes meanwhile may be forgotten or not.
    pub fn clear(&self) {
        for slot in self.table.slots() {
            let backoff = Backoff::new();
            while slot.owner().is_some() {
                let word = slot.word();
                // Who changes the owner just now comes after.
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
                backoff.spin();
            }
        }
        self.clear_shared();
    }

    /// The keys that it was built for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The keys that have a slot, whether they owe something or not: at most two for each of the capacity, rounded up
    /// to whole sets of four.
    pub fn len(&self) -> usize {
        // At most the number of slots, but for keys that come and go while they are counted.
        self.locks.sum(|counts| counts.keys) as usize
    }

    /// Whether no key has a slot.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys lost their slot while they owed something.
    pub fn evictions(&self) -> u64 {
        self.locks.sum(|counts| counts.evictions)
    }

    /// How many calls were decided by the bucket that keys without a slot share.
    pub fn overflows(&self) -> u64 {
        self.locks.sum(|counts| counts.overflows)
    }

    /// How many calls were refused to keys without a slot, because there was none or because of what its owner owed.
    pub fn refused_newcomers(&self) -> u64 {
        self.locks.sum(|counts| counts.refused_newcomers)
    }
}

impl<K: ?Sized, C: fmt::Debug, S, A> fmt::Debug for KeyedLimiter<K, C, S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLimiter")
            .field("quota", &self.tiers.first().quota())
            .field("capacity", &self.capacity)
            .field("when_full", &self.when_full)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
