//! The tier of each key, which decides its quota, and the moves of keys between tiers.

use super::KeyedLimiter;
use super::table::{Fingerprint, MOST_TIERS, Table};
use crate::limit::KeyedAlgorithm;
use crate::quota::SetQuotaError;
use crate::time::Clock;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
#[cfg(feature = "alloc")]
use {crate::sync::Guarded, alloc::boxed::Box, hashbrown::HashMap};

/// The function, given to the builder, that returns the tier of a key.
#[cfg(feature = "alloc")]
pub(super) type TierOf<K> = Box<dyn Fn(&K) -> usize + Send + Sync>;

/// The rule that decides which tier each key is in.
pub(super) enum TierChoice<K: ?Sized> {
    One(PhantomData<fn(&K)>),
    #[cfg(feature = "alloc")]
    Several {
        tier_of: TierOf<K>,
        overrides: TierOverrides,
    },
}

/// The tier that the builder's function returned for a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnTier {
    #[cfg(feature = "alloc")]
    tier: usize,
    /// The key's count of [`Table::retiers`], read before the function was asked.
    #[cfg(feature = "alloc")]
    retiers: u32,
}

impl OwnTier {
    /// The only tier there is.
    const ONLY: Self = Self {
        #[cfg(feature = "alloc")]
        tier: 0,
        #[cfg(feature = "alloc")]
        retiers: 0,
    };
}

#[cfg(feature = "alloc")]
impl OwnTier {
    /// Asks the function for the tier of a key.
    #[inline(never)]
    fn asked<K: ?Sized, A>(tier_of: &TierOf<K>, fingerprint: Fingerprint, key: &K, table: &Table<A>) -> Self {
        // The count is read before the function is asked. If a `retier` comes after that, the count has changed, and
        // shows that this answer may be out of date.
        let retiers = table.retiers(fingerprint);
        let tier = tier_of(key);
        Self { tier: tier.min(table.tiers() - 1), retiers }
    }

    /// Returns what [`or_given`](Self::or_given) does; `None` if the function has to be asked again.
    #[inline(never)]
    fn unless_given<A>(self, overrides: &TierOverrides, fingerprint: Fingerprint, table: &Table<A>) -> Option<usize> {
        let is_current = table.retiers(fingerprint) == self.retiers;
        is_current.then(|| self.or_given(overrides, fingerprint))
    }

    /// Returns the tier that `set_tier` gave the key, or else this one.
    fn or_given(self, overrides: &TierOverrides, fingerprint: Fingerprint) -> usize {
        overrides.read(|overrides| overrides.get(&fingerprint.get()).copied()).unwrap_or(self.tier)
    }
}

/// The tiers that `set_tier` gave to single keys, by the fingerprints of the keys.
#[cfg(feature = "alloc")]
type TierOverrides = Guarded<HashMap<u64, usize>>;

impl<K: ?Sized> TierChoice<K> {
    #[cfg(feature = "alloc")]
    pub(super) fn new(tier_of: TierOf<K>) -> Self {
        Self::Several { tier_of, overrides: Guarded::new(HashMap::new()) }
    }

    /// Returns whether keys can be in different tiers.
    #[cfg(feature = "alloc")]
    pub(super) fn has_several(&self) -> bool {
        matches!(self, Self::Several { .. })
    }

    /// Asks the builder's function for the tier of a key; without a function there is only one tier.
    ///
    /// It is called without a lock, because the function may use the limiter.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "there is one tier only"))]
    #[inline]
    pub(super) fn own<A>(&self, fingerprint: Fingerprint, key: &K, table: &Table<A>) -> OwnTier {
        match self {
            Self::One(_) => OwnTier::ONLY,
            #[cfg(feature = "alloc")]
            Self::Several { tier_of, .. } => OwnTier::asked(tier_of, fingerprint, key, table),
        }
    }

    /// Counts a `retier` of a key, so that a call with an older answer asks the function again.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "as `own`"))]
    pub(super) fn count_retier<A>(&self, fingerprint: Fingerprint, table: &Table<A>) {
        match self {
            Self::One(_) => {}
            #[cfg(feature = "alloc")]
            Self::Several { .. } => table.count_retier(fingerprint),
        }
    }

    /// Returns the tier of a key: the one that `set_tier` gave it, or else `own`.
    ///
    /// It returns `None` if the function has to be asked again. The caller holds the key's lock. A `retier` that held
    /// the lock earlier has changed the count, so this method returns `None`. A `retier` that gets the lock later moves
    /// the key.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "as `own`"))]
    #[inline]
    pub(super) fn of<A>(&self, fingerprint: Fingerprint, own: OwnTier, table: &Table<A>) -> Option<usize> {
        match self {
            Self::One(_) => Some(0),
            #[cfg(feature = "alloc")]
            Self::Several { overrides, .. } => own.unless_given(overrides, fingerprint, table),
        }
    }

    /// Returns the tier that `set_tier` gave a key, or else `own`, even if that is out of date.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "as `own`"))]
    pub(super) fn given_or(&self, fingerprint: Fingerprint, own: OwnTier) -> usize {
        match self {
            Self::One(_) => 0,
            #[cfg(feature = "alloc")]
            Self::Several { overrides, .. } => own.or_given(overrides, fingerprint),
        }
    }

    /// Records the tier that `set_tier` gives a key, which must exist; `None` removes the record.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "as `own`"))]
    pub(super) fn set(&self, fingerprint: Fingerprint, tier: Option<usize>) {
        match self {
            Self::One(_) => {}
            #[cfg(feature = "alloc")]
            Self::Several { overrides, .. } => {
                overrides.write(|overrides| match tier {
                    Some(tier) => overrides.insert(fingerprint.get(), tier),
                    None => overrides.remove(&fingerprint.get()),
                });
            }
        }
    }
}

impl<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm> KeyedLimiter<K, C, S, A> {
    /// Returns the number of the tier that this key is in, or would be in with a slot; 0 is the first.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::{KeyedLimiter, Quota};
    ///
    /// let limits = KeyedLimiter::<str>::builder(Quota::per_second(1))
    ///     .tiers([Quota::per_second(100)], |user: &str| usize::from(user == "alice"))
    ///     .build()?;
    /// assert_eq!((limits.tier_of("alice"), limits.tier_of("bob")), (1, 0));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tier_of(&self, key: &K) -> usize {
        let fingerprint = self.fingerprint(key);
        self.table.tier_of(fingerprint, || self.tiers.given_or(fingerprint, self.own_tier(fingerprint, key)))
    }

    /// Moves this key to a tier, in place of the one it has.
    ///
    /// Its bucket takes as long to be full as before, even if the new tier's quota allows no debt that deep. (In the
    /// new tier it also owes what it may have spent there without a slot.) If one of the two tiers refills nothing, as
    /// many tokens are missing as before. A stay in an unlimited tier forgives everything. (With a clock of nanoseconds
    /// a debt lasts at most 52 days, or less if a quota was made much faster: longer debts are cut.)
    ///
    /// The tier is remembered until the limiter is dropped or [`clear_tier`](Self::clear_tier) is called. It takes
    /// memory of its own, so use this for few keys.
    ///
    /// # Errors
    ///
    /// [`TierError::Missing`](super::TierError::Missing) if there is no such tier.
    pub fn set_tier(&self, key: &K, tier: usize) -> Result<(), TierError> {
        self.live_quota(tier)?;
        let fingerprint = self.fingerprint(key);
        self.table.move_to(fingerprint, &self.clock, || {
            self.tiers.set(fingerprint, Some(tier));
            Some(tier)
        });
        Ok(())
    }

    /// Makes this key belong again to the tier that it would be in without [`set_tier`](Self::set_tier).
    ///
    /// The [function](crate::keyed::KeyedLimiterBuilder::tiers) is asked again, as by [`retier`](Self::retier).
    pub fn clear_tier(&self, key: &K) {
        self.move_to_own_tier(key, |fingerprint| self.tiers.set(fingerprint, None));
    }

    /// Asks again which tier this key belongs to, and moves it there.
    ///
    /// Call it when the answer of the [function](crate::keyed::KeyedLimiterBuilder::tiers) has changed: a user has
    /// another plan, or there is [one more tier](Self::add_tier). The key's debt moves along as
    /// [`set_tier`](Self::set_tier) says. A key that `set_tier` gave a tier stays there. A key without a slot has
    /// nothing to move: the function is asked when the key is next seen.
    ///
    /// The function sees everything that the caller wrote before, even if another thread sees the key for the first
    /// time just then. (A wait that [`acquire`](Self::acquire) began earlier for a key without a slot still goes by the
    /// earlier answer.)
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::{KeyedLimiter, ManualClock, Quota};
    /// use std::collections::HashMap;
    /// use std::sync::{Arc, RwLock};
    ///
    /// let plans = Arc::new(RwLock::new(HashMap::from([("bob", 0)])));
    /// let tier_of = {
    ///     let plans = Arc::clone(&plans);
    ///     move |user: &str| plans.read().unwrap().get(user).copied().unwrap_or(0)
    /// };
    /// let limits = KeyedLimiter::<str>::builder(Quota::per_second(1))
    ///     .tiers([Quota::per_second(10)], tier_of)
    ///     .clock(ManualClock::new())
    ///     .build()?;
    /// assert!(limits.check_n("bob", 1).is_ok());
    ///
    /// plans.write().unwrap().insert("bob", 1);
    /// limits.retier("bob");
    /// assert_eq!(limits.peek("bob").limit(), 10);
    /// assert_eq!(limits.peek("bob").used(), 10, "his token comes back in a second, as before");
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retier(&self, key: &K) {
        self.move_to_own_tier(key, |_| ());
    }

    /// Moves a key to the tier that the function returns now, unless `set_tier` gave it one.
    ///
    /// `prepare` runs with the key's lock held, perhaps several times.
    fn move_to_own_tier(&self, key: &K, prepare: impl Fn(Fingerprint)) {
        let fingerprint = self.fingerprint(key);
        self.tiers.count_retier(fingerprint, &self.table);
        loop {
            let own = self.own_tier(fingerprint, key);
            let is_moved = self.table.move_to(fingerprint, &self.clock, || {
                prepare(fingerprint);
                self.tiers.of(fingerprint, own, &self.table)
            });
            if is_moved {
                return;
            }
        }
    }

    /// Returns the tier that the builder's function gives a key, or the only tier that there is.
    ///
    /// A tier that `set_tier` gave the key does not count here.
    pub(super) fn own_tier(&self, fingerprint: Fingerprint, key: &K) -> OwnTier {
        self.tiers.own(fingerprint, key, &self.table)
    }
}

/// The reason why a tier of a [`KeyedLimiter`](super::KeyedLimiter) was not added, changed or given to a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TierError {
    /// There is no such tier.
    Missing {
        /// The tier that was asked for, counted from 0.
        tier: usize,
        /// How many tiers there are.
        tiers: usize,
    },
    /// The quota was refused. Every quota stays as it was.
    Quota {
        /// The tier whose quota was to change, counted from 0.
        tier: usize,
        /// The reason of the refusal.
        error: SetQuotaError,
    },
    /// There are as many tiers as there can be, which is 15.
    TooMany,
    /// The limiter has one quota for all keys.
    ///
    /// It was built without [`tiers`](crate::keyed::KeyedLimiterBuilder::tiers).
    OneQuota,
}

impl fmt::Display for TierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { tier, tiers: 1 } => write!(f, "tier {tier} does not exist, there is 1"),
            Self::Missing { tier, tiers } => write!(f, "tier {tier} does not exist, there are {tiers}"),
            Self::Quota { tier, error } => write!(f, "tier {tier}: {error}"),
            Self::TooMany => write!(f, "there are {MOST_TIERS} tiers, which is the maximum"),
            Self::OneQuota => f.write_str("the limiter has one quota for all keys, it was built without tiers"),
        }
    }
}

crate::internal::debug_by_display!(TierError);

impl core::error::Error for TierError {}
