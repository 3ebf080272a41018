//! The keyed limiter: one quota, and a bucket for every key.

#[cfg(feature = "std")]
use super::builder::KeyedLimiterBuilder;
use super::census::TierCensus;
use super::crowding::Crowding;
use super::table::{
    Check, Fingerprint, KeyedSlots, Receipt, SLOTS_PER_KEY, Slot, SlotWord, Table, TakeResult, WAYS, WhenFull,
};
use super::tiers::TierChoice;
#[cfg(feature = "alloc")]
use crate::decision_log::DecisionLog;
use crate::limit::{
    Algorithm, Allowed, Denied, KeyedAlgorithm, LimitSetDenied, PerKey, RateLimiter, TokenBucket, TokenLine, Usage,
};
use crate::quota::Quota;
use crate::sync::const_unless_loom;
use crate::time::{Clock, DefaultClock, Seed};
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use core::ops::Deref;

/// One limit per key, in memory that is fixed at construction.
///
/// Keys are hashed with a random seed and not stored. Two keys whose 64-bit hashes are equal share a bucket. For a
/// million keys the chance of that is one in 37 million. The call that first sees a key takes one of 64 locks (without
/// the feature `std`, it enters a critical section). Checks of a known key take no lock.
///
/// # When it is full
///
/// A slot holds the bucket of one key. There are two slots for each key of the capacity, and a key can be in any of
/// eight slots, which its hash chooses. If the bucket in a slot is full again, a new key gets that slot, and nothing is
/// lost. If the buckets in all eight slots owe tokens, [`WhenFull`] decides. That happens to 35 new keys in 10,000 when
/// as many keys owe tokens as the capacity says.
///
/// - By default those keys spend from shared buckets, of which there are two for each key of the capacity. No key gets
///   a second burst that way.
/// - Under [`WhenFull::DenyNew`] those keys are refused. Again no key gets a second burst.
/// - Under [`WhenFull::EvictLeastIndebted`] a new key takes over the slot and the debt of another key. All slots
///   together admit no more than their quotas allow. But a key that lost its slot and returns may have a fresh burst.
///
/// [The guide](https://docs.rs/damper/latest/damper/guide/full_table/) has figures.
///
/// # Several quotas
///
/// Keys can belong to [tiers](crate::keyed::KeyedLimiterBuilder::tiers), each with a quota of its own. The tier of a
/// key is determined when the key is first seen, and [`set_tier`](KeyedLimiter::set_tier) overrides it. While the
/// limiter is used, you can change [one quota](KeyedLimiter::set_tier_quota) or [several at
/// once](KeyedLimiter::set_tier_quotas), [add a tier](KeyedLimiter::add_tier), and have a key's tier [determined
/// again](KeyedLimiter::retier).
///
/// # Other algorithms
///
/// A key's bucket is a [`TokenBucket`]. With [`algorithm`](crate::keyed::KeyedLimiterBuilder::algorithm) it can be a
/// [`FixedWindow`](crate::FixedWindow) or a [`SlidingCounter`](crate::SlidingCounter). If a key under one of these two
/// loses its slot while it owes something, the new key in the slot continues the old key's count.
///
/// # Range
///
/// - A slot stores in 56 bits the instant at which its bucket is full. With ticks of a nanosecond the stored instants
///   wrap after 208 days or more (sooner, if a quota was made much faster). A key that was idle for that long may be
///   refused although it has tokens, for at most the time of one refill.
/// - A slot of a [`FixedWindow`](crate::FixedWindow) stores the number of a window instead, which wraps after 2^24
///   windows. For a [`SlidingCounter`](crate::SlidingCounter) it wraps after 2^16 windows.
/// - All buckets count as full if the clock steps back too far: by more than
///   [`max_step_back`](Clock::max_step_back), and by more than the time in which the deepest debt is repaid.
/// - If clock readings differ between threads, a thread whose clock is ahead may find a bucket full too early, and give
///   its slot away. The key may then get twice the tokens that refill during this difference.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::{KeyedLimiter, Quota};
/// use std::net::IpAddr;
///
/// let limits = KeyedLimiter::<IpAddr>::builder(Quota::per_second(50).burst(2)).capacity(100_000).build()?;
/// let (alice, bob) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
/// limits.check(&alice)?;
/// limits.check(&alice)?;
/// assert!(limits.check(&alice).is_err());
/// assert!(limits.check(&bob).is_ok());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyedLimiter<K: ?Sized, C = DefaultClock, S = Seed, A = TokenBucket> {
    pub(super) table: Table<A>,
    pub(super) tiers: TierChoice<K>,
    pub(super) capacity: usize,
    pub(super) clock: C,
    pub(super) hasher: S,
}

#[cfg(feature = "std")]
impl<K: ?Sized> KeyedLimiter<K> {
    /// Starts the builder of a limiter with this quota for each key, on the default clock.
    pub fn builder(quota: Quota) -> KeyedLimiterBuilder<K> {
        KeyedLimiterBuilder::new(quota, crate::time::Monotonic, Seed::random())
    }
}

impl<K: ?Sized, C, S> KeyedLimiter<K, C, S> {
    const_unless_loom! {
        /// Creates a limiter of one quota for each key, in slots that the caller lends.
        ///
        /// Each of the `SETS` sets of slots is for two keys. The limiter allocates nothing, and can be a `static`.
        ///
        /// A call for a key that has no slot takes a lock that all keys share. Without the feature `std` this lock is a
        /// critical section of the firmware. A check of a key that has a slot takes no lock.
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
                table: Table::in_slots(quota, TokenLine::IN_LEVELS, slots),
                tiers: TierChoice::One(PhantomData),
                capacity: SETS * WAYS / SLOTS_PER_KEY,
                clock,
                hasher,
            }
        }
    }
}

impl<K: ?Sized, C, S, A> KeyedLimiter<K, C, S, A> {
    /// Sets what happens to a new key that finds no free slot in the table.
    ///
    /// Call it before the limiter is first used. The default is [`WhenFull::SharedOverflow`].
    #[must_use]
    pub const fn when_full(mut self, when_full: WhenFull) -> Self {
        self.table.when_full = when_full;
        self
    }
}

impl<K: Hash + ?Sized, C, S: BuildHasher, A> KeyedLimiter<K, C, S, A> {
    #[inline]
    pub(super) fn fingerprint(&self, key: &K) -> Fingerprint {
        Fingerprint::of(self.hasher.hash_one(key))
    }
}

impl<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm> KeyedLimiter<K, C, S, A> {
    /// Takes one token of this key's bucket if there is one.
    ///
    /// # Errors
    ///
    /// [`Denied`], which says when to retry.
    #[expect(clippy::inline_always, reason = "the unused part of the answer is then not computed")]
    #[inline(always)]
    pub fn check(&self, key: &K) -> Result<Allowed, Denied> {
        self.check_n(key, 1)
    }

    /// Takes `n` tokens of this key's bucket if all of them are there, else none.
    ///
    /// A refusal writes nothing if the key has a slot.
    ///
    /// # Errors
    ///
    /// [`Denied`], which says when to retry, or that `n` exceeds the burst.
    #[expect(clippy::inline_always, reason = "as `check`")]
    #[inline(always)]
    pub fn check_n(&self, key: &K, n: u32) -> Result<Allowed, Denied> {
        self.take(key, n).map(|(allowed, _)| allowed)
    }

    /// Takes `n` tokens of the key's limit and `n` tokens of the limit `all`, or none of either.
    ///
    /// The call first looks at both limits. If one of them refuses, the call writes nothing, provided that the key has
    /// a slot. Otherwise the call takes from the key's limit and then from `all`. If another call has taken the tokens
    /// of `all` in between, this call gives the key's tokens back, less what has been refilled since. It is then
    /// refused as [contended](LimitSetDenied::is_contended).
    ///
    /// [`Allowed`] describes the limit that has fewer tokens left.
    ///
    /// # Errors
    ///
    /// [`LimitSetDenied`], whose [index](LimitSetDenied::index) is 0 for the key's limit and 1 for `all`. If both
    /// limits refuse, it names the limit with the longer wait.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::{KeyedLimiter, ManualClock, Quota, RateLimiter};
    ///
    /// let clock = ManualClock::new();
    /// let all = RateLimiter::with_clock(Quota::per_second(100).burst(3), &clock);
    /// let each = KeyedLimiter::<str>::builder(Quota::per_second(10).burst(2)).clock(&clock).build()?;
    /// assert!(each.check_n_with("alice", 2, &all).is_ok());
    /// assert_eq!(each.check_n_with("alice", 1, &all).unwrap_err().index(), 0);
    /// assert_eq!(each.check_n_with("bob", 2, &all).unwrap_err().index(), 1);
    /// assert_eq!(each.peek("bob").used(), 0, "nothing was taken");
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_n_with<B: Algorithm, D: Clock>(
        &self,
        key: &K,
        n: u32,
        all: &RateLimiter<B, D>,
    ) -> Result<Allowed, LimitSetDenied> {
        let (own, shared) = (self.look(key), all.look());
        // The clocks are read after both words. `OneWord::read` gives the reason.
        let (now, shared_now) = (self.clock.now(), all.clock().now());
        let (own, shared) = match (self.judge(key, n, own, now), all.judge(n, shared, shared_now)) {
            (Ok(own), Ok(shared)) => (own, shared),
            (Err(own), Err(longer)) if longer.outlasts(&own) => {
                return Err(LimitSetDenied::new(longer, 1, all.quota()));
            }
            (Err(own), _) => return Err(LimitSetDenied::new(own, 0, self.quota_of(self.fingerprint(key), key))),
            (_, Err(denied)) => return Err(LimitSetDenied::new(denied, 1, all.quota())),
        };
        let (fingerprint, had_slot) = (own.fingerprint, own.is_from_slot());
        let (own, receipt) = self.take_judged(key, n, own).map_err(|denied| {
            let denied = LimitSetDenied::new(denied, 0, self.quota_of(fingerprint, key));
            // If the key had a slot, another call has taken the tokens since the look. A key without one may be refused
            // because there is no slot for it, and not because of another call.
            if had_slot { denied.contended() } else { denied }
        })?;
        match all.take_judged(n, shared) {
            Ok(shared) => Ok(if own.remaining() <= shared.remaining() { own } else { shared }),
            Err(denied) => {
                self.table.roll_back(fingerprint, n, receipt, &self.clock);
                Err(LimitSetDenied::new(denied, 1, all.quota()).contended())
            }
        }
    }

    /// Returns how much of this key's limit is used, and takes nothing.
    ///
    /// For a key without a slot it returns what the key may have spent from shared buckets. To read these, the call
    /// takes a lock.
    pub fn peek(&self, key: &K) -> Usage {
        let fingerprint = self.fingerprint(key);
        let quota = self.quota_of(fingerprint, key);
        self.look_at(fingerprint, key, |line, word, at| A::usage(line, quota, word, at, &self.clock))
    }

    /// Gives back up to `n` tokens that this key took and did not need, and returns how many.
    ///
    /// A debt is repaid first. Tokens for which the bucket or the window has no room are lost. If only a part of a
    /// token was missing, that part is given back and counts as one token. For a key without a slot the method does
    /// nothing and returns 0.
    pub fn refund(&self, key: &K, n: u32) -> u32 {
        let fingerprint = self.fingerprint(key);
        let given = self.table.visit(fingerprint, &self.clock, |line, word, at| {
            let (given, after) = A::refund(line, word, at, n);
            (after, given)
        });
        self.table.wake(fingerprint);
        given.unwrap_or(0)
    }

    /// Books `n` tokens of this key after the fact, and returns how many it booked.
    ///
    /// It is for costs that are known only afterwards, so it books tokens even if they are not there. Debt goes no
    /// deeper than [`Quota::max_debt`].
    ///
    /// Under [`WhenFull::SharedOverflow`], the tokens of a key without a slot are booked in a bucket that such keys
    /// share. Otherwise such a key gets a free slot. If there is none, the method books none and returns 0.
    pub fn charge(&self, key: &K, n: u32) -> u32 {
        let fingerprint = self.fingerprint(key);
        loop {
            if let Some(booked) = self.table.charge_in_slot(fingerprint, n, &self.clock) {
                return booked;
            }
            let own = self.own_tier(fingerprint, key);
            let tier = || self.tiers.of(fingerprint, own, &self.table);
            if let Some(booked) = self.table.charge_without_slot(fingerprint, n, &self.clock, tier) {
                return booked;
            }
        }
    }

    /// Forgets what this key took: its bucket is full again.
    ///
    /// For a key without a slot it does nothing.
    pub fn reset(&self, key: &K) {
        let fingerprint = self.fingerprint(key);
        self.table.visit(fingerprint, &self.clock, |line, _, at| (A::idle(line, at), ()));
        self.table.wake(fingerprint);
    }

    /// Takes all tokens of this key that are there, and returns how many.
    ///
    /// The bucket is then empty, and refills from now on. Under a quota without a limit it takes none, and returns
    /// `u32::MAX`.
    pub fn drain(&self, key: &K) -> u32 {
        let mut left = self.peek(key).remaining();
        // A refusal says how many tokens are left. That is always fewer than were asked for, so the loop ends.
        while left > 0
            && let Err(denied) = self.check_n(key, left)
        {
            left = denied.remaining();
        }
        left
    }

    /// Returns the refusal that [`check_n`](Self::check_n) would give because of the key's own debt, if any.
    ///
    /// It takes nothing. A key without a slot is judged by what it may have spent from its shared bucket, not by
    /// whether there is a slot for it.
    pub(crate) fn refusal(&self, key: &K, n: u32) -> Option<Denied> {
        self.refusal_of(self.fingerprint(key), key, n)
    }

    pub(super) fn refusal_of(&self, fingerprint: Fingerprint, key: &K, n: u32) -> Option<Denied> {
        self.look_at(fingerprint, key, |line, word, at| A::take(line, word, at, n, &self.clock).err())
    }

    /// Records the answer to a call for `n` tokens of this key in `log`.
    #[cfg(feature = "alloc")]
    pub(crate) fn log_decision<D: Clock, T, E>(&self, key: &K, n: u32, answer: &Result<T, E>, log: &DecisionLog<D>) {
        log.record(self.fingerprint(key).get(), n, answer);
    }

    /// Takes `n` tokens as [`check_n`](Self::check_n) does, and records the decision in `log`.
    #[cfg(feature = "alloc")]
    #[inline]
    pub(crate) fn check_logged<D: Clock>(&self, key: &K, n: u32, log: &DecisionLog<D>) -> Result<Allowed, Denied> {
        let fingerprint = self.fingerprint(key);
        match self.take_at_once(fingerprint, n) {
            Ok(taken) => {
                log.record(fingerprint.get(), n, &taken);
                taken.map(|(allowed, _)| allowed)
            }
            Err(found) => self.check_logged_slow(fingerprint, key, n, found, log),
        }
    }

    /// Decides by the slow path, out of line, so that the answer of the fast path stays in registers.
    #[cfg(feature = "alloc")]
    #[cold]
    fn check_logged_slow<D: Clock>(
        &self,
        fingerprint: Fingerprint,
        key: &K,
        n: u32,
        found: Option<(&Slot, SlotWord)>,
        log: &DecisionLog<D>,
    ) -> Result<Allowed, Denied> {
        let taken = self.take_slow(fingerprint, key, n, found);
        log.record(fingerprint.get(), n, &taken);
        taken.map(|(allowed, _)| allowed)
    }

    /// Takes `n` tokens as [`check_n`](Self::check_n) does.
    ///
    /// It also returns a receipt, by which [`roll_back`](Self::roll_back) gives the tokens back.
    #[expect(clippy::inline_always, reason = "as `check`")]
    #[inline(always)]
    pub(crate) fn take(&self, key: &K, n: u32) -> TakeResult {
        self.take_hashed(self.fingerprint(key), key, n)
    }

    /// Takes `n` tokens as [`take`](Self::take) does, for a caller that has the key's fingerprint already.
    #[expect(clippy::inline_always, reason = "as `check`")]
    #[inline(always)]
    pub(super) fn take_hashed(&self, fingerprint: Fingerprint, key: &K, n: u32) -> TakeResult {
        match self.take_at_once(fingerprint, n) {
            Ok(taken) => taken,
            Err(found) => self.take_slow(fingerprint, key, n, found),
        }
    }

    /// Takes tokens on the fast path, if the key has a slot in the first tier.
    ///
    /// Otherwise the error has the key's slot and the slot's word for the slow path, if they were found.
    #[expect(clippy::inline_always, reason = "as `check`")]
    #[inline(always)]
    fn take_at_once(&self, fingerprint: Fingerprint, n: u32) -> Result<TakeResult, Option<(&Slot, SlotWord)>> {
        let found = self.table.look_for(fingerprint);
        if found.is_of_key
            && found.word.tier() == 0
            && let Some(taken) = self.table.take_fast(found.slot, found.word, Check { n }, &self.clock)
        {
            return Ok(taken);
        }
        Err(found.slot_and_word())
    }

    /// Takes tokens of a key that the fast path could not decide about.
    ///
    /// The fast path decides only about keys with a slot in the first tier, and [`Table::take_fast`] may leave the
    /// decision open.
    #[cold]
    pub(super) fn take_slow(
        &self,
        fingerprint: Fingerprint,
        key: &K,
        n: u32,
        found: Option<(&Slot, SlotWord)>,
    ) -> TakeResult {
        if let Some((slot, word)) = found
            && word.tier() > 0
            && let Some(taken) = self.table.take_in_tier(slot, word, Check { n }, &self.clock)
        {
            return taken;
        }
        let mut is_known = found.is_some();
        loop {
            if let Some(taken) = self.take_once(fingerprint, key, n, is_known) {
                return taken;
            }
            is_known = !is_known;
        }
    }

    #[inline(never)]
    fn take_once(&self, fingerprint: Fingerprint, key: &K, n: u32, is_known: bool) -> Option<TakeResult> {
        if is_known {
            return self.table.take(fingerprint, Check { n }, &self.clock);
        }
        let own = self.own_tier(fingerprint, key);
        self.table.first_sight(fingerprint, Check { n }, &self.clock, || self.tiers.of(fingerprint, own, &self.table))
    }

    /// Gives back `n` tokens that this key took, less what has been refilled since.
    pub(crate) fn roll_back(&self, key: &K, n: u32, receipt: Receipt) {
        self.table.roll_back(self.fingerprint(key), n, receipt, &self.clock);
    }

    /// Returns the quota of the tier that a key is in, or would be in if it got a slot.
    fn quota_of(&self, fingerprint: Fingerprint, key: &K) -> Quota {
        self.table.quota_of(fingerprint, || self.tiers.given_or(fingerprint, self.own_tier(fingerprint, key)))
    }

    /// Calls `look` with the line of the key's tier, the bucket's word and the present position.
    ///
    /// It changes nothing. `table` defines the terms.
    fn look_at<T>(&self, fingerprint: Fingerprint, key: &K, look: impl Fn(&A::Line, u64, u64) -> T) -> T {
        self.table.peek(
            fingerprint,
            &self.clock,
            || self.tiers.given_or(fingerprint, self.own_tier(fingerprint, key)),
            look,
        )
    }
}

impl<K: ?Sized, C: Clock, S, A: PerKey> KeyedLimiter<K, C, S, A> {
    /// Forgets all keys, and what they took.
    ///
    /// If other calls take tokens meanwhile, these may be forgotten or not.
    pub fn clear(&self) {
        self.table.clear();
        self.table.wake_all();
    }

    /// Counts the keys of each tier that have a slot, that owe tokens, and that have no token left.
    ///
    /// The first entry is that of tier 0, which has the limiter's own quota. The keys are counted one after another
    /// while calls change their buckets, so the counts do not describe a single moment. Keys without a slot are not
    /// counted.
    ///
    /// The census is for dashboards. It looks at every slot, and takes some 85 instructions for each key of the
    /// capacity. It takes no lock and changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::{KeyedLimiter, ManualClock, Quota};
    ///
    /// let limits = KeyedLimiter::<str>::builder(Quota::per_hour(2)).clock(ManualClock::new()).build()?;
    /// limits.check("alice")?;
    /// limits.check_n("bob", 2)?;
    /// let census = limits.census();
    /// let only = census[0];
    /// assert_eq!((only.keys(), only.owing(), only.exhausted()), (2, 2, 1));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn census(&self) -> impl Deref<Target = [TierCensus]> + use<K, C, S, A> {
        self.table.census(&self.clock)
    }

    /// Returns the quota of a tier; `None` if there is no such tier, or if quotas come with the calls.
    pub(crate) fn quota_in_table(&self, tier: usize) -> Option<Quota> {
        if A::BY_PLAN { None } else { Some(self.table.tier(tier)?.quota()) }
    }

    /// Returns the number of keys that the limiter was built for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns how many keys have a slot, whether they owe something or not.
    ///
    /// There are two slots for each key of the capacity, rounded up to whole sets of four.
    pub fn len(&self) -> usize {
        // The sum is at most the number of slots, so it fits. It can be off only if keys get or lose slots while the
        // locks are read one by one.
        self.table.sum(|counts| counts.keys) as usize
    }

    /// Returns whether no key has a slot.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many keys lost their slot while they owed something.
    pub fn evictions(&self) -> u64 {
        self.table.sum(|counts| counts.evictions)
    }

    /// Returns counts that show whether the table is too small for its keys.
    ///
    /// The counts are: how many shared buckets new keys looked at, and how many of these owed something. [`Crowding`]
    /// explains which share is too large.
    pub fn crowding(&self) -> Crowding {
        self.table.crowding()
    }

    /// Returns how many calls for keys without a slot were decided by a shared bucket.
    pub fn overflows(&self) -> u64 {
        self.table.sum(|counts| counts.overflows)
    }

    /// Returns how many calls were refused to keys without a slot.
    ///
    /// Such a call is refused if there is no slot for the key, or if the bucket with which the key would get a slot has
    /// too few tokens. Calls that a shared bucket decided are not counted here, but as [`overflows`](Self::overflows).
    pub fn refused_newcomers(&self) -> u64 {
        self.table.sum(|counts| counts.refused_newcomers)
    }
}

impl<K: ?Sized, C: fmt::Debug, S, A> fmt::Debug for KeyedLimiter<K, C, S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLimiter")
            .field("quota", &self.table.first_tier().quota())
            .field("capacity", &self.capacity)
            .field("when_full", &self.table.when_full)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
