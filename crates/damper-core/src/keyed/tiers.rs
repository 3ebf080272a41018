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
    /// The count that [`Table::retiers`] returned before the function was called.
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

/// The tier of a key, for callers that have the key's fingerprint only.
///
/// It cannot call the builder's function again, because that needs the key itself.
#[derive(Clone, Copy)]
pub(super) enum RememberedTier<'a> {
    One(PhantomData<&'a ()>),
    #[cfg(feature = "alloc")]
    Several {
        own: OwnTier,
        overrides: &'a TierOverrides,
    },
}

impl RememberedTier<'_> {
    /// Returns what [`TierChoice::of`] returns. The caller holds the key's lock.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "there is one tier only"))]
    pub(super) fn of<A>(self, fingerprint: Fingerprint, table: &Table<A>) -> Option<usize> {
        match self {
            Self::One(_) => Some(0),
            #[cfg(feature = "alloc")]
            Self::Several { own, overrides } => own.unless_retiered(overrides, fingerprint, table),
        }
    }
}

#[cfg(feature = "alloc")]
impl OwnTier {
    /// Calls the builder's function, which returns the tier of a key.
    #[inline(never)]
    fn asked<K: ?Sized, A>(tier_of: &TierOf<K>, fingerprint: Fingerprint, key: &K, table: &Table<A>) -> Self {
        // The count is read before the function is called. If a `retier` comes later, it changes the count. The changed
        // count then shows that this answer may be out of date.
        let retiers = table.retiers(fingerprint);
        let tier = tier_of(key);
        Self { tier: tier.min(table.tiers() - 1), retiers }
    }

    /// Returns the tier that `set_tier` gave the key, or else the tier that the function returned.
    ///
    /// Returns `None` if a `retier` came since the function was called, which a key with a given tier does not follow.
    #[inline(never)]
    fn unless_retiered<A>(
        self,
        overrides: &TierOverrides,
        fingerprint: Fingerprint,
        table: &Table<A>,
    ) -> Option<usize> {
        let is_current = table.retiers(fingerprint) == self.retiers;
        given(overrides, fingerprint).or(is_current.then_some(self.tier))
    }
}

/// Returns the tier that `set_tier` gave a key.
#[cfg(feature = "alloc")]
fn given(overrides: &TierOverrides, fingerprint: Fingerprint) -> Option<usize> {
    overrides.read(|overrides| overrides.get(&fingerprint.get()).copied())
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

    /// Calls the builder's function for the tier of a key. Without such a function there is only one tier.
    ///
    /// The caller holds no lock, because the function may use the limiter.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "there is one tier only"))]
    #[inline]
    pub(super) fn own<A>(&self, fingerprint: Fingerprint, key: &K, table: &Table<A>) -> OwnTier {
        match self {
            Self::One(_) => OwnTier::ONLY,
            #[cfg(feature = "alloc")]
            Self::Several { tier_of, .. } => OwnTier::asked(tier_of, fingerprint, key, table),
        }
    }

    /// Counts a `retier` of a key.
    ///
    /// A call with an older answer of the function then calls the function again.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "as `own`"))]
    pub(super) fn count_retier<A>(&self, fingerprint: Fingerprint, table: &Table<A>) {
        match self {
            Self::One(_) => {}
            #[cfg(feature = "alloc")]
            Self::Several { .. } => table.count_retier(fingerprint),
        }
    }

    /// Returns the tier of a key: the tier that `set_tier` gave the key, or else `own`.
    ///
    /// It returns `None` if a `retier` came since the function returned `own`. The caller then calls the function
    /// again.
    ///
    /// The caller holds the key's lock. So no `retier` is missed: one that held the lock earlier has changed the count
    /// that is compared here, and one that gets the lock later moves the key.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "as `own`"))]
    #[inline]
    pub(super) fn of<A>(&self, fingerprint: Fingerprint, own: OwnTier, table: &Table<A>) -> Option<usize> {
        match self {
            Self::One(_) => Some(0),
            #[cfg(feature = "alloc")]
            Self::Several { overrides, .. } => own.unless_retiered(overrides, fingerprint, table),
        }
    }

    /// Returns the tier that `set_tier` gave a key, or else `own`.
    ///
    /// Unlike [`of`](Self::of), it does not check whether [`retier`](KeyedLimiter::retier) was called since the
    /// builder's function returned `own`. So `own` may be out of date.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "as `own`"))]
    pub(super) fn given_or(&self, fingerprint: Fingerprint, own: OwnTier) -> usize {
        match self {
            Self::One(_) => 0,
            #[cfg(feature = "alloc")]
            Self::Several { overrides, .. } => given(overrides, fingerprint).unwrap_or(own.tier),
        }
    }

    /// Returns the tier of a key whose function returned `own`, for callers that do not keep the key.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "as `own`"))]
    pub(super) fn remembered(&self, own: OwnTier) -> RememberedTier<'_> {
        match self {
            Self::One(_) => RememberedTier::One(PhantomData),
            #[cfg(feature = "alloc")]
            Self::Several { overrides, .. } => RememberedTier::Several { own, overrides },
        }
    }

    /// Records that `set_tier` gives a key this tier, which must exist. `None` removes the key's record.
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
    /// Returns the number of the tier that this key is in, or would be in if it had a slot; 0 is the first.
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

    /// Moves this key to a tier, and keeps it there.
    ///
    /// The key's debt moves along:
    ///
    /// - The bucket takes as long to be full as before, even if the new tier's quota allows no debt that deep.
    /// - If one of the two tiers refills nothing, as many tokens are missing as before.
    /// - A stay in an unlimited tier forgives all debt.
    /// - If the key may have spent in the new tier earlier, while it had no slot, that debt is added.
    /// - With a clock of nanoseconds, debts of more than 52 days may be cut. The bound is lower if a quota was made
    ///   much faster.
    ///
    /// The tier of this key is remembered until [`clear_tier`](Self::clear_tier) is called or the limiter is dropped.
    /// That takes memory for each such key, so use this method for few keys.
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

    /// Forgets the tier that [`set_tier`](Self::set_tier) gave this key, and moves the key to its own tier.
    ///
    /// The builder's [function](crate::keyed::KeyedLimiterBuilder::tiers) is called for that tier, as by
    /// [`retier`](Self::retier).
    pub fn clear_tier(&self, key: &K) {
        self.move_to_own_tier(key, |fingerprint| self.tiers.set(fingerprint, None));
    }

    /// Calls the builder's function for the tier of this key, and moves the key there.
    ///
    /// Call it when the answer of the [function](crate::keyed::KeyedLimiterBuilder::tiers) has changed: for example, a
    /// user has another plan, or there is [one more tier](Self::add_tier). The key's debt moves along, as
    /// [`set_tier`](Self::set_tier) describes. If `set_tier` gave the key a tier, the key stays there. A key without a
    /// slot has nothing to move, and the next check of the key calls the function again.
    ///
    /// The function sees everything that the caller wrote before `retier`. When `retier` has returned, no call uses an
    /// older answer, even if another thread checks the key for the first time just then. (There is one exception. If
    /// [`acquire`](Self::acquire) was called earlier for a key without a slot, that wait still uses the older answer.)
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
    /// It ignores a tier that `set_tier` gave the key.
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
        /// The reason why it was refused.
        error: SetQuotaError,
    },
    /// There are already 15 tiers, the largest number.
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
