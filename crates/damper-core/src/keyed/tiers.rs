//! Which tier each key is in.

use super::table::{Fingerprint, MOST_TIERS};
use crate::quota::SetQuotaError;
use core::fmt;
use core::marker::PhantomData;
#[cfg(feature = "alloc")]
use {
    crate::sync::{AtomicU32, Guarded, Ordering},
    alloc::boxed::Box,
    hashbrown::HashMap,
};

/// The function with which a limiter is built, by which a key belongs to a tier.
#[cfg(feature = "alloc")]
pub(super) type TierOf<K> = Box<dyn Fn(&K) -> usize + Send + Sync>;

/// Which tier each key is in.
pub(super) enum TierChoice<K: ?Sized> {
    One(PhantomData<fn(&K)>),
    #[cfg(feature = "alloc")]
    Several {
        tier_of: TierOf<K>,
        /// The tiers that single keys were given, by their fingerprints.
        overrides: Guarded<HashMap<u64, usize>>,
        /// How often the answers of `tier_of` were given up; wraps.
        outdated: AtomicU32,
    },
}

/// The tier of a key that was given none, as the function returned it.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnTier {
    #[cfg(feature = "alloc")]
    tier: usize,
    /// How often answers had been given up before the function was asked.
    #[cfg(feature = "alloc")]
    outdated: u32,
}

impl OwnTier {
    /// The only tier there is.
    const ONLY: Self = Self {
        #[cfg(feature = "alloc")]
        tier: 0,
        #[cfg(feature = "alloc")]
        outdated: 0,
    };
}

impl<K: ?Sized> TierChoice<K> {
    #[cfg(feature = "alloc")]
    pub(super) fn new(tier_of: TierOf<K>) -> Self {
        Self::Several { tier_of, overrides: Guarded::new(HashMap::new()), outdated: AtomicU32::new(0) }
    }

    /// Whether keys can be in different tiers.
    #[cfg(feature = "alloc")]
    pub(super) fn has_several(&self) -> bool {
        matches!(self, Self::Several { .. })
    }

    /// The tier of a key that was given none, where there are `tiers` of them.
    ///
    /// Called without a lock, because the function may use the limiter.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "there is one tier only"))]
    pub(super) fn own(&self, key: &K, tiers: impl FnOnce() -> usize) -> OwnTier {
        match self {
            Self::One(_) => OwnTier::ONLY,
            #[cfg(feature = "alloc")]
            Self::Several { tier_of, outdated, .. } => {
                // ORDERING: Acquire pairs with the Release in `outdate`: a thread that sees the count has the function see what
                // the caller of `retier` wrote before. loom-tests: keyed::retier_reaches_a_key_that_is_just_seen.
                let outdated = outdated.load(Ordering::Acquire);
                let tier = tier_of(key);
                OwnTier { tier: tier.min(tiers() - 1), outdated }
            }
        }
    }

    /// Gives up the answers of the function so far: a call that holds one asks again.
    pub(super) fn outdate(&self) {
        match self {
            Self::One(_) => {}
            #[cfg(feature = "alloc")]
            // ORDERING: Release, as in `own`.
            Self::Several { outdated, .. } => _ = outdated.fetch_add(1, Ordering::Release),
        }
    }

    /// The tier of a key: the one that it was given, or else its own.
    ///
    /// `None` if the function has to be asked again. Called with the key's lock held.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "as `own`"))]
    pub(super) fn of(&self, fingerprint: Fingerprint, own: OwnTier) -> Option<usize> {
        match self {
            Self::One(_) => Some(0),
            #[cfg(feature = "alloc")]
            Self::Several { outdated, .. } => {
                // ORDERING: Relaxed: the key's lock orders it. A `retier` that took the lock before has counted, and one that
                // takes it later moves the key. loom-tests: keyed::retier_reaches_a_key_that_is_just_seen.
                let is_asked_since = outdated.load(Ordering::Relaxed) == own.outdated;
                is_asked_since.then(|| self.given_or(fingerprint, own))
            }
        }
    }

    /// The tier that a key was given, or else its own.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "as `own`"))]
    pub(super) fn given_or(&self, fingerprint: Fingerprint, own: OwnTier) -> usize {
        match self {
            Self::One(_) => 0,
            #[cfg(feature = "alloc")]
            Self::Several { overrides, .. } => {
                overrides.read(|overrides| overrides.get(&fingerprint.get()).copied()).unwrap_or(own.tier)
            }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

impl core::error::Error for TierError {}
