//! The quotas of a keyed limiter, which of them is a key's, and how a key gets another.

use super::table::Fingerprint;
use super::{KeyedLimiter, KeyedLimiterError};
use crate::atomic::{AtomicU64, Backoff, const_unless_loom};
use crate::clock::Clock;
use crate::limit::KeyedAlgorithm;
use crate::quota::{LiveQuota, Measure, Quota, SetQuotaError};
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use crossbeam_utils::CachePadded;
#[cfg(feature = "alloc")]
use {crate::atomic::Guarded, alloc::boxed::Box, hashbrown::HashMap};

/// A quota, and what the keys without a slot share of it.
#[derive(Debug)]
pub(super) struct Tier {
    pub(super) quota: LiveQuota,
    /// The word of a bucket. Apart from the quota, which all checks read.
    pub(super) overflow: CachePadded<AtomicU64>,
}

impl Tier {
    const_unless_loom! {
        const fn new(quota: Quota, measure: Measure) -> Self {
            let overflow = CachePadded::new(AtomicU64::new(0));
            Self { quota: LiveQuota::new(quota, measure, 0), overflow }
        }
    }
}

/// Which tier a key belongs to.
#[cfg(feature = "alloc")]
pub(super) type TierOf<K> = Box<dyn Fn(&K) -> usize + Send + Sync>;

#[cfg_attr(
    feature = "alloc",
    expect(clippy::large_enum_variant, reason = "one tier is the rule, and is found without a pointer")
)]
pub(super) enum Tiers<K: ?Sized> {
    One(Tier, PhantomData<fn(&K)>),
    #[cfg(feature = "alloc")]
    Several(Several<K>),
}

#[cfg(feature = "alloc")]
pub(super) struct Several<K: ?Sized> {
    /// At least one.
    tiers: Box<[Tier]>,
    tier_of: TierOf<K>,
    /// The tiers of single keys, by their fingerprints.
    overrides: Guarded<HashMap<u64, usize>>,
}

impl<K: ?Sized> Tiers<K> {
    const_unless_loom! {
        pub(super) const fn one(quota: Quota, measure: Measure) -> Self {
            Self::One(Tier::new(quota, measure), PhantomData)
        }
    }

    #[cfg(feature = "alloc")]
    pub(super) fn several(quotas: impl Iterator<Item = Quota>, measure: Measure, tier_of: TierOf<K>) -> Self {
        let tiers = quotas.map(|quota| Tier::new(quota, measure)).collect();
        Self::Several(Several { tiers, tier_of, overrides: Guarded::new(HashMap::new()) })
    }

    /// The tier of this number, and the number; what is beyond the last is the last. Not asked for where there is one
    /// only.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "there is one tier only"))]
    #[inline]
    pub(super) fn at(&self, index: impl FnOnce() -> usize) -> (usize, &Tier) {
        match self {
            Self::One(tier, _) => (0, tier),
            #[cfg(feature = "alloc")]
            Self::Several(several) => {
                let index = index().min(several.tiers.len() - 1);
                (index, &several.tiers[index])
            }
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<&Tier> {
        match self {
            Self::One(tier, _) => (index == 0).then_some(tier),
            #[cfg(feature = "alloc")]
            Self::Several(several) => several.tiers.get(index),
        }
    }

    pub(super) fn first(&self) -> &Tier {
        self.at(|| 0).1
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Tier> {
        (0..).map_while(|index| self.get(index))
    }

    /// The tier of a key that was given none; asked without a lock, for who is asked may use the limiter.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "as `at`"))]
    pub(super) fn own(&self, key: &K) -> usize {
        match self {
            Self::One(..) => 0,
            #[cfg(feature = "alloc")]
            Self::Several(several) => (several.tier_of)(key).min(several.tiers.len() - 1),
        }
    }

    /// The tier of a key: that which it was given, or else its own.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "as `at`"))]
    pub(super) fn of(&self, fingerprint: Fingerprint, own: usize) -> usize {
        match self {
            Self::One(..) => 0,
            #[cfg(feature = "alloc")]
            Self::Several(several) => {
                several.overrides.read(|overrides| overrides.get(&fingerprint.get()).copied()).unwrap_or(own)
            }
        }
    }

    /// Gives a key a tier, or takes it away; there has to be such a tier.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "as `at`"))]
    pub(super) fn give(&self, fingerprint: Fingerprint, tier: Option<usize>) -> Result<(), KeyedLimiterError> {
        match (tier, self) {
            (Some(tier), _) if self.get(tier).is_none() => return Err(KeyedLimiterError::Tier(tier)),
            (_, Self::One(..)) => {}
            #[cfg(feature = "alloc")]
            (Some(tier), Self::Several(several)) => {
                several.overrides.write(|overrides| overrides.insert(fingerprint.get(), tier));
            }
            #[cfg(feature = "alloc")]
            (None, Self::Several(several)) => {
                several.overrides.write(|overrides| overrides.remove(&fingerprint.get()));
            }
        }
        Ok(())
    }
}

impl<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm> KeyedLimiter<K, C, S, A> {
    /// Makes this key belong to a tier, whatever it would else. What is missing from its bucket takes as long to be
    /// refilled as before. Remembered until the limiter is dropped or [`clear_tier`](Self::clear_tier) is called, in
    /// memory of its own: for few keys.
    ///
    /// # Errors
    ///
    /// [`KeyedLimiterError::Tier`](super::KeyedLimiterError::Tier) if there is no such tier.
    pub fn set_tier(&self, key: &K, tier: usize) -> Result<(), KeyedLimiterError> {
        let fingerprint = self.fingerprint(key);
        self.locks.of(fingerprint).write(|_| {
            self.tiers.give(fingerprint, Some(tier))?;
            self.move_to(fingerprint, tier);
            Ok(())
        })
    }

    /// Makes this key belong to the tier again that it would without [`set_tier`](Self::set_tier).
    pub fn clear_tier(&self, key: &K) {
        let (fingerprint, own) = (self.fingerprint(key), self.tiers.own(key));
        self.locks.of(fingerprint).write(|_| {
            if self.tiers.give(fingerprint, None).is_ok() {
                self.move_to(fingerprint, own);
            }
        });
    }
}

impl<K: ?Sized, C: Clock, S, A: KeyedAlgorithm> KeyedLimiter<K, C, S, A> {
    /// Called with the key's lock held, so that no first sight comes between with the tier of before.
    fn move_to(&self, fingerprint: Fingerprint, tier: usize) {
        let backoff = Backoff::new();
        while let Some((slot, now)) = self.slot_of(fingerprint) {
            let (_, new) = self.tiers.at(|| tier);
            let Some((old, at, word)) = self.look(now) else { continue };
            let (epoch, line) = new.quota.read(&self.clock);
            let wait = A::resets_in(&old, word, at, &self.clock);
            let moved = now.in_tier(tier).at_level(A::owing(&line, line.position(self.clock.now()), wait));
            if new.quota.is_current(epoch) && slot.replace(now, moved) {
                return;
            }
            backoff.spin();
        }
    }

    /// The quota of each key; of tiers, the first.
    pub fn quota(&self) -> Quota {
        self.tiers.first().quota.quota()
    }

    /// Puts another quota in force for each key, as [`RateLimiter::set_quota`](crate::RateLimiter::set_quota) does; of tiers, for the first.
    ///
    /// # Errors
    ///
    /// [`SetQuotaError`], and the quota stays.
    pub fn set_quota(&self, quota: Quota) -> Result<(), SetQuotaError> {
        Self::set(self.tiers.first(), quota, &self.clock)
    }

    fn set(tier: &Tier, quota: Quota, clock: &C) -> Result<(), SetQuotaError> {
        if !is_kept_by::<A>(quota) {
            return Err(SetQuotaError::LimitTooLarge { limit: quota.limit(), most: A::LARGEST_LIMIT });
        }
        tier.quota.set(quota, clock)
    }

    /// The quota of a tier, if there is one.
    pub fn tier_quota(&self, tier: usize) -> Option<Quota> {
        Some(self.tiers.get(tier)?.quota.quota())
    }

    /// As [`set_quota`](Self::set_quota) for one of the tiers; `None` if there is no such tier.
    ///
    /// # Errors
    ///
    /// [`SetQuotaError`], and the quota stays.
    pub fn set_tier_quota(&self, tier: usize, quota: Quota) -> Option<Result<(), SetQuotaError>> {
        Some(Self::set(self.tiers.get(tier)?, quota, &self.clock))
    }
}

/// Whether a level has room for what is counted under this quota.
pub(super) fn is_kept_by<A: KeyedAlgorithm>(quota: Quota) -> bool {
    quota.is_unlimited() || quota.limit() <= A::LARGEST_LIMIT
}
