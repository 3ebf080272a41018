//! How a keyed limiter is built.

use super::error::MAX_CAPACITY;
use super::locks::Locks;
use super::policy::WhenFull;
use super::slot::MOST_TIERS;
use super::table::Table;
use super::tiers::{TierOf, Tiers};
use super::{DefaultHasher, KeyedLimiter, KeyedLimiterError};
use crate::clock::{Clock, DefaultClock};
use crate::quota::Quota;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::hash::BuildHasher;
#[cfg(feature = "std")]
use {crate::clock::Monotonic, std::hash::RandomState};

/// The keys that a limiter is built for unless told otherwise.
const DEFAULT_CAPACITY: usize = 8_192;

/// How many locks there are for first sights.
const LOCKS: usize = 64;

#[cfg(feature = "std")]
impl<K: ?Sized> KeyedLimiter<K> {
    /// Starts a limiter of this quota for each key, on the default clock.
    pub fn builder(quota: Quota) -> KeyedLimiterBuilder<K> {
        KeyedLimiterBuilder::new(quota, Monotonic, RandomState::new())
    }
}

/// Builds a [`KeyedLimiter`].
#[must_use]
pub struct KeyedLimiterBuilder<K: ?Sized, C = DefaultClock, S = DefaultHasher> {
    quota: Quota,
    /// The others, and which of all a key has.
    tiers: Option<(Vec<Quota>, TierOf<K>)>,
    capacity: usize,
    when_full: WhenFull,
    clock: C,
    hasher: S,
}

impl<K: ?Sized, C, S> KeyedLimiterBuilder<K, C, S> {
    /// Starts a limiter of this quota for each key, on a clock and with a hasher of your own: for where there is no `std`.
    ///
    /// # Examples
    ///
    /// ```
    /// use damper::ManualClock;
    /// use damper::Quota;
    /// use damper::keyed::{KeyedLimiterBuilder, Seed};
    ///
    /// let limits = KeyedLimiterBuilder::<str, _, _>::new(Quota::per_second(5), ManualClock::new(), Seed::new(1, 2)).build()?;
    /// assert!(limits.check("node 7").is_ok());
    /// # Ok::<(), damper::KeyedLimiterError>(())
    /// ```
    pub fn new(quota: Quota, clock: C, hasher: S) -> Self {
        let (tiers, capacity, when_full) = (None, DEFAULT_CAPACITY, WhenFull::default());
        Self { quota, tiers, capacity, when_full, clock, hasher }
    }

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
    #[cfg_attr(feature = "std", doc = "```")]
    #[cfg_attr(not(feature = "std"), doc = "```text")]
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
        self,
        quotas: impl IntoIterator<Item = Quota>,
        tier_of: impl Fn(&K) -> usize + Send + Sync + 'static,
    ) -> Self {
        Self { tiers: Some((quotas.into_iter().collect(), Box::new(tier_of))), ..self }
    }

    /// Sets the clock. Default: [`Monotonic`](crate::clock::Monotonic).
    pub fn clock<D: Clock>(self, clock: D) -> KeyedLimiterBuilder<K, D, S> {
        let Self { quota, tiers, capacity, when_full, hasher, .. } = self;
        KeyedLimiterBuilder { quota, tiers, capacity, when_full, clock, hasher }
    }

    /// Sets the hasher, which decides who can choose keys that collide. Default: std's, seeded at random.
    pub fn hasher<T: BuildHasher>(self, hasher: T) -> KeyedLimiterBuilder<K, C, T> {
        let Self { quota, tiers, capacity, when_full, clock, .. } = self;
        KeyedLimiterBuilder { quota, tiers, capacity, when_full, clock, hasher }
    }

    /// Allocates the table.
    ///
    /// # Errors
    ///
    /// [`KeyedLimiterError`], which names the setting that is out of its range.
    pub fn build(self) -> Result<KeyedLimiter<K, C, S>, KeyedLimiterError> {
        let Self { quota, tiers, capacity, when_full, clock, hasher } = self;
        if !(1..=MAX_CAPACITY).contains(&capacity) {
            return Err(KeyedLimiterError::Capacity(capacity));
        }
        let tiers = match tiers {
            None => Tiers::one(quota),
            Some((others, _)) if others.len() >= MOST_TIERS => return Err(KeyedLimiterError::Tiers(others.len() + 1)),
            Some((others, tier_of)) => Tiers::several(quota, &others, tier_of),
        };
        let (table, locks) = (Table::new(capacity), Locks::new(LOCKS));
        Ok(KeyedLimiter { tiers, table, locks, when_full, capacity, clock, hasher })
    }
}

impl<K: ?Sized, C: fmt::Debug, S> fmt::Debug for KeyedLimiterBuilder<K, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLimiterBuilder")
            .field("quota", &self.quota)
            .field("tiers", &self.tiers.as_ref().map(|(quotas, _)| quotas))
            .field("capacity", &self.capacity)
            .field("when_full", &self.when_full)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
