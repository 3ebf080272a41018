//! How a keyed limiter is built.

use super::KeyedLimiter;
use super::keyed_limiter::{Counts, Tier, TierOf};
use super::policy::WhenFull;
use super::slot::MOST_TIERS;
use super::table::Table;
use crate::atomic::{AtomicU64, Lock};
use crate::clock::{Clock, DefaultClock, Monotonic};
use crate::quota::{LiveQuota, Measure, Quota};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::hash::BuildHasher;
use core::marker::PhantomData;
use crossbeam_utils::CachePadded;
use hashbrown::HashMap;
use parking_lot::RwLock;
use std::hash::RandomState;

/// The keys that a limiter is built for unless told otherwise.
const DEFAULT_CAPACITY: usize = 8_192;

/// The most keys that a limiter can be built for: 8 GiB of slots.
const MAX_CAPACITY: usize = 1 << 28;

/// How many locks there are for first sights.
const LOCKS: usize = 64;

impl<K: ?Sized> KeyedLimiter<K> {
    /// Starts a limiter of this quota for each key, on the default clock.
    pub fn builder(quota: Quota) -> KeyedLimiterBuilder<K> {
        KeyedLimiterBuilder {
            quotas: vec![quota],
            tier_of: None,
            capacity: DEFAULT_CAPACITY,
            when_full: WhenFull::default(),
            clock: Monotonic,
            hasher: RandomState::new(),
            keys: PhantomData,
        }
    }
}

/// Builds a [`KeyedLimiter`].
#[must_use]
pub struct KeyedLimiterBuilder<K: ?Sized, C = DefaultClock, S = RandomState> {
    quotas: Vec<Quota>,
    tier_of: Option<TierOf<K>>,
    capacity: usize,
    when_full: WhenFull,
    clock: C,
    hasher: S,
    keys: PhantomData<fn(&K)>,
}

impl<K: ?Sized, C, S> KeyedLimiterBuilder<K, C, S> {
    /// Sets for how many busy keys the table is sized; 1 to 2^28. Default: 8192.
    ///
    /// Takes 32 bytes a key, and 8 KiB.
    pub fn capacity(self, keys: usize) -> Self {
        Self { capacity: keys, ..self }
    }

    /// Sets what becomes of a key for which there is no slot. Default: [`WhenFull::SharedOverflow`].
    pub fn when_full(self, when_full: WhenFull) -> Self {
        Self { when_full, ..self }
    }

    /// Adds quotas to that of the builder, which is the tier 0, and says to which tier a key belongs: asked when the key is first seen, and again when
    /// it was forgotten. At most 16 in all; what is beyond the last is the last.
    ///
    /// # Examples
    ///
    /// ```
    /// use damper::{KeyedLimiter, ManualClock, Quota};
    ///
    /// let paying = |user: &str| usize::from(user.starts_with("paying:"));
    /// let limits = KeyedLimiter::<str>::builder(Quota::per_second(1))
    ///     .tiers([Quota::per_second(10)], paying)
    ///     .clock(ManualClock::new())
    ///     .build()?;
    /// assert!(limits.check_n("paying:alice", 10).is_ok());
    /// assert!(limits.check_n("bob", 2).is_err());
    /// limits.set_tier("bob", 1)?;
    /// assert!(limits.check_n("bob", 2).is_ok());
    /// # Ok::<(), damper::KeyedLimiterError>(())
    /// ```
    pub fn tiers(
        mut self,
        quotas: impl IntoIterator<Item = Quota>,
        tier_of: impl Fn(&K) -> usize + Send + Sync + 'static,
    ) -> Self {
        self.quotas.truncate(1);
        self.quotas.extend(quotas);
        self.tier_of = Some(Box::new(tier_of));
        self
    }

    /// Sets the clock. Default: [`Monotonic`].
    pub fn clock<D: Clock>(self, clock: D) -> KeyedLimiterBuilder<K, D, S> {
        let Self { quotas, tier_of, capacity, when_full, hasher, keys, .. } = self;
        KeyedLimiterBuilder { quotas, tier_of, capacity, when_full, clock, hasher, keys }
    }

    /// Sets the hasher, which decides who can choose keys that collide. Default: std's, seeded at random.
    pub fn hasher<T: BuildHasher>(self, hasher: T) -> KeyedLimiterBuilder<K, C, T> {
        let Self { quotas, tier_of, capacity, when_full, clock, keys, .. } = self;
        KeyedLimiterBuilder { quotas, tier_of, capacity, when_full, clock, hasher, keys }
    }

    /// Allocates the table.
    ///
    /// # Errors
    ///
    /// [`KeyedLimiterError`], which names the setting that is out of its range.
    pub fn build(self) -> Result<KeyedLimiter<K, C, S>, KeyedLimiterError> {
        let Self { quotas, tier_of, capacity, when_full, clock, hasher, keys } = self;
        if !(1..=MAX_CAPACITY).contains(&capacity) {
            return Err(KeyedLimiterError::Capacity(capacity));
        }
        if quotas.len() > MOST_TIERS {
            return Err(KeyedLimiterError::Tiers(quotas.len()));
        }
        let tier = |quota| Tier { quota: LiveQuota::new(quota, Measure::Levels, 0), overflow: AtomicU64::new(0) };
        let zero = || AtomicU64::new(0);
        Ok(KeyedLimiter {
            tiers: quotas.into_iter().map(tier).collect(),
            table: Table::new(capacity),
            locks: (0..LOCKS).map(|_| CachePadded::new(Lock::new())).collect(),
            when_full,
            tier_of,
            overrides: RwLock::new(HashMap::new()),
            counts: Counts { keys: zero(), evictions: zero(), overflows: zero(), refused_newcomers: zero() },
            capacity,
            clock,
            hasher,
            keys,
        })
    }
}

impl<K: ?Sized, C: fmt::Debug, S> fmt::Debug for KeyedLimiterBuilder<K, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLimiterBuilder")
            .field("quotas", &self.quotas)
            .field("capacity", &self.capacity)
            .field("when_full", &self.when_full)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// Which setting of a [`KeyedLimiter`] was refused, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyedLimiterError {
    /// `capacity` is not in 1..=2^28.
    Capacity(usize),
    /// There are more than 16 tiers.
    Tiers(usize),
    /// There is no such tier.
    Tier(usize),
}

impl fmt::Display for KeyedLimiterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capacity(keys) => write!(f, "capacity is {keys}, it must be 1 to {MAX_CAPACITY}"),
            Self::Tiers(tiers) => write!(f, "there are {tiers} tiers, there must be 1 to {MOST_TIERS}"),
            Self::Tier(tier) => write!(f, "there is no tier {tier}, they are counted from 0"),
        }
    }
}

impl core::error::Error for KeyedLimiterError {}
