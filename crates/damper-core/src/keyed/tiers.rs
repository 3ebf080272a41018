//! Which tier each key is in.

use super::table::{Fingerprint, MOST_TIERS, Table};
use crate::quota::SetQuotaError;
use core::fmt;
use core::marker::PhantomData;
#[cfg(feature = "alloc")]
use {crate::sync::Guarded, alloc::boxed::Box, hashbrown::HashMap};

/// The function with which a limiter is built, by which a key belongs to a tier.
#[cfg(feature = "alloc")]
pub(super) type TierOf<K> = Box<dyn Fn(&K) -> usize + Send + Sync>;

/// Which tier each key is in.
pub(super) enum TierChoice<K: ?Sized> {
    One(PhantomData<fn(&K)>),
    #[cfg(feature = "alloc")]
    Several {
        tier_of: TierOf<K>,
        overrides: Given,
    },
}

/// The tier of a key that was given none, as the function returned it.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnTier {
    #[cfg(feature = "alloc")]
    tier: usize,
    /// [`Table::retiers`] of the key before the function was asked.
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
    /// Asks the function.
    #[inline(never)]
    fn asked<K: ?Sized, A>(tier_of: &TierOf<K>, fingerprint: Fingerprint, key: &K, table: &Table<A>) -> Self {
        // Before the function: an answer that is older than a `retier` is then known by its count.
        let retiers = table.retiers(fingerprint);
        let tier = tier_of(key);
        Self { tier: tier.min(table.tiers() - 1), retiers }
    }

    /// As [`or_given`](Self::or_given); `None` if the function has to be asked again.
    #[inline(never)]
    fn unless_given<A>(self, given: &Given, fingerprint: Fingerprint, table: &Table<A>) -> Option<usize> {
        let is_current = table.retiers(fingerprint) == self.retiers;
        is_current.then(|| self.or_given(given, fingerprint))
    }

    /// The tier that the key was given, or else this one.
    fn or_given(self, given: &Given, fingerprint: Fingerprint) -> usize {
        given.read(|given| given.get(&fingerprint.get()).copied()).unwrap_or(self.tier)
    }
}

/// The tiers that single keys were given, by their fingerprints.
#[cfg(feature = "alloc")]
type Given = Guarded<HashMap<u64, usize>>;

impl<K: ?Sized> TierChoice<K> {
    #[cfg(feature = "alloc")]
    pub(super) fn new(tier_of: TierOf<K>) -> Self {
        Self::Several { tier_of, overrides: Guarded::new(HashMap::new()) }
    }

    /// Whether keys can be in different tiers.
    #[cfg(feature = "alloc")]
    pub(super) fn has_several(&self) -> bool {
        matches!(self, Self::Several { .. })
    }

    /// The tier of a key that was given none, in this table.
    ///
    /// Called without a lock, because the function may use the limiter.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "there is one tier only"))]
    #[inline]
    pub(super) fn own<A>(&self, fingerprint: Fingerprint, key: &K, table: &Table<A>) -> OwnTier {
        match self {
            Self::One(_) => OwnTier::ONLY,
            #[cfg(feature = "alloc")]
            Self::Several { tier_of, .. } => OwnTier::asked(tier_of, fingerprint, key, table),
        }
    }

    /// Counts that a key's tier is asked for again: a call that has an older answer then asks again, too.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "as `own`"))]
    pub(super) fn count_retier<A>(&self, fingerprint: Fingerprint, table: &Table<A>) {
        match self {
            Self::One(_) => {}
            #[cfg(feature = "alloc")]
            Self::Several { .. } => table.count_retier(fingerprint),
        }
    }

    /// The tier of a key: the one that it was given, or else its own.
    ///
    /// `None` if the function has to be asked again. Called with the key's lock held: a `retier` that had the lock before has
    /// counted, and one that has it later moves the key.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "as `own`"))]
    #[inline]
    pub(super) fn of<A>(&self, fingerprint: Fingerprint, own: OwnTier, table: &Table<A>) -> Option<usize> {
        match self {
            Self::One(_) => Some(0),
            #[cfg(feature = "alloc")]
            Self::Several { overrides, .. } => own.unless_given(overrides, fingerprint, table),
        }
    }

    /// The tier that a key was given, or else its own.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "as `own`"))]
    pub(super) fn given_or(&self, fingerprint: Fingerprint, own: OwnTier) -> usize {
        match self {
            Self::One(_) => 0,
            #[cfg(feature = "alloc")]
            Self::Several { overrides, .. } => own.or_given(overrides, fingerprint),
        }
    }

    /// Gives a key a tier, which has to exist; `None` makes the key belong to its own again.
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

/// Why a tier of a [`KeyedLimiter`](super::KeyedLimiter) was not changed, or not given to a key.
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
        /// Why.
        error: SetQuotaError,
    },
    /// There are as many tiers as there can be, which is 15.
    TooMany,
    /// The limiter has one quota for all keys: it was built without [`tiers`](crate::keyed::KeyedLimiterBuilder::tiers).
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
