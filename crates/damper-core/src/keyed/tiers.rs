//! Which tier each key is in.

use super::table::Fingerprint;
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
        tiers: usize,
        tier_of: TierOf<K>,
        /// The tiers that single keys were given, by their fingerprints.
        overrides: Guarded<HashMap<u64, usize>>,
    },
}

impl<K: ?Sized> TierChoice<K> {
    #[cfg(feature = "alloc")]
    pub(super) fn new(tiers: usize, tier_of: TierOf<K>) -> Self {
        Self::Several { tiers, tier_of, overrides: Guarded::new(HashMap::new()) }
    }

    /// The tier of a key that was given none.
    ///
    /// Called without a lock, because the function may use the limiter.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "there is one tier only"))]
    pub(super) fn own(&self, key: &K) -> usize {
        match self {
            Self::One(_) => 0,
            #[cfg(feature = "alloc")]
            Self::Several { tiers, tier_of, .. } => tier_of(key).min(tiers - 1),
        }
    }

    /// The tier of a key: the one that it was given, or else its own.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "as `own`"))]
    pub(super) fn of(&self, fingerprint: Fingerprint, own: usize) -> usize {
        match self {
            Self::One(_) => 0,
            #[cfg(feature = "alloc")]
            Self::Several { overrides, .. } => {
                overrides.read(|overrides| overrides.get(&fingerprint.get()).copied()).unwrap_or(own)
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
    /// The quota was refused; the one before stays.
    Quota(SetQuotaError),
}

impl fmt::Display for TierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { tier, tiers: 1 } => write!(f, "tier {tier} does not exist, there is 1"),
            Self::Missing { tier, tiers } => write!(f, "tier {tier} does not exist, there are {tiers}"),
            Self::Quota(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for TierError {}

impl From<SetQuotaError> for TierError {
    fn from(error: SetQuotaError) -> Self {
        Self::Quota(error)
    }
}
