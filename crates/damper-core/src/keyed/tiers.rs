//! The quotas of a keyed limiter, which of them is a key's, and how a key gets another.

use super::table::Fingerprint;
use super::{KeyedLimiter, KeyedLimiterError};
use crate::limit::KeyedAlgorithm;
use crate::quota::{Line, LineStart, LiveQuota, Quota, SetQuotaError};
use crate::sync::{Backoff, const_unless_loom};
use crate::time::Clock;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
#[cfg(feature = "alloc")]
use {
    crate::sync::{AtomicU64, Guarded, Ordering},
    alloc::boxed::Box,
    hashbrown::HashMap,
};

/// Which tier a key belongs to.
#[cfg(feature = "alloc")]
pub(super) type TierOf<K> = Box<dyn Fn(&K) -> usize + Send + Sync>;

pub(super) enum Tiers<K: ?Sized> {
    One(LiveQuota, PhantomData<fn(&K)>),
    #[cfg(feature = "alloc")]
    Several(Several<K>),
}

#[cfg(feature = "alloc")]
pub(super) struct Several<K: ?Sized> {
    /// At least one.
    tiers: Box<[LiveQuota]>,
    tier_of: TierOf<K>,
    /// The deepest debt that a key ever brought along to each tier, in its tokens (or windows).
    deepest_moved: Box<[AtomicU64]>,
    /// The tiers of single keys, by their fingerprints.
    overrides: Guarded<HashMap<u64, usize>>,
}

impl<K: ?Sized> Tiers<K> {
    const_unless_loom! {
        pub(super) const fn one(quota: Quota, start: LineStart) -> Self {
            Self::One(LiveQuota::new(quota, start), PhantomData)
        }
    }

    #[cfg(feature = "alloc")]
    pub(super) fn several(quotas: impl Iterator<Item = Quota>, start: LineStart, tier_of: TierOf<K>) -> Self {
        let tiers: Box<[_]> = quotas.map(|quota| LiveQuota::new(quota, start)).collect();
        let deepest_moved = tiers.iter().map(|_| AtomicU64::new(0)).collect();
        Self::Several(Several { tiers, tier_of, deepest_moved, overrides: Guarded::new(HashMap::new()) })
    }

    /// The tier of this number, and the number; what is beyond the last is the last. Not asked for where there is one
    /// only.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "there is one tier only"))]
    #[inline]
    pub(super) fn at(&self, index: impl FnOnce() -> usize) -> (usize, &LiveQuota) {
        match self {
            Self::One(quota, _) => (0, quota),
            #[cfg(feature = "alloc")]
            Self::Several(several) => {
                let index = index().min(several.tiers.len() - 1);
                (index, &several.tiers[index])
            }
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<&LiveQuota> {
        match self {
            Self::One(quota, _) => (index == 0).then_some(quota),
            #[cfg(feature = "alloc")]
            Self::Several(several) => several.tiers.get(index),
        }
    }

    pub(super) fn first(&self) -> &LiveQuota {
        self.at(|| 0).1
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::One(..) => 1,
            #[cfg(feature = "alloc")]
            Self::Several(several) => several.tiers.len(),
        }
    }

    /// The deepest debt that a key ever brought along to a tier. Asked after the word was read of the key that is looked at.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "there is one tier only"))]
    #[inline]
    fn deepest_moved(&self, tier: usize) -> u64 {
        match self {
            Self::One(..) => 0,
            // ORDERING: Relaxed. A thread that read the word of a key that was moved sees at least what `expect_debt_of` left
            // for that: the Acquire of the word pairs with the Release with which `move_to` wrote it.
            // loom-tests: keyed::a_debt_survives_a_move_beside_a_check.
            #[cfg(feature = "alloc")]
            Self::Several(several) => several.deepest_moved[tier].load(Ordering::Relaxed),
        }
    }

    /// Remembers that a key brings along so deep a debt to a tier.
    #[cfg_attr(
        not(feature = "alloc"),
        expect(unused_variables, clippy::unused_self, reason = "there is one tier only")
    )]
    fn expect_debt_of(&self, tier: usize, debt: u64) {
        #[cfg(feature = "alloc")]
        if let Self::Several(several) = self {
            // ORDERING: Relaxed: the Release of the word that is written next publishes it.
            let deepest = &several.deepest_moved[tier];
            let mut now = deepest.load(Ordering::Relaxed);
            while let Err(newer) = deepest.compare_exchange(now, now.max(debt), Ordering::Relaxed, Ordering::Relaxed) {
                now = newer;
            }
        }
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
    /// Moves this key to a tier, whatever its own would be.
    ///
    /// What is missing from its bucket takes as long to be refilled as before, also where that is longer than the deepest debt
    /// of the new tier. Where one of the two tiers refills nothing, as many tokens are missing as before. A stay in an unlimited
    /// tier forgives everything. (No debt is kept that lasts longer than a quarter of the circle of positions: 52 days of
    /// nanoseconds, or less where a quota was made much faster.)
    ///
    /// The tier is remembered until the limiter is dropped or [`clear_tier`](Self::clear_tier) is called, in memory of its own:
    /// for few keys.
    ///
    /// # Errors
    ///
    /// [`KeyedLimiterError::Tier`](super::KeyedLimiterError::Tier) if there is no such tier.
    pub fn set_tier(&self, key: &K, tier: usize) -> Result<(), KeyedLimiterError> {
        let fingerprint = self.fingerprint(key);
        self.lock_of(fingerprint).write(|_| {
            self.tiers.give(fingerprint, Some(tier))?;
            self.move_to(fingerprint, tier);
            Ok(())
        })
    }

    /// Makes this key belong to the tier again that it would without [`set_tier`](Self::set_tier).
    pub fn clear_tier(&self, key: &K) {
        let (fingerprint, own) = (self.fingerprint(key), self.tiers.own(key));
        self.lock_of(fingerprint).write(|_| {
            if self.tiers.give(fingerprint, None).is_ok() {
                self.move_to(fingerprint, own);
            }
        });
    }
}

impl<K: ?Sized, C: Clock, S, A: KeyedAlgorithm> KeyedLimiter<K, C, S, A> {
    /// The quota of a tier, with its epoch and its line, as [`LiveQuota::read`] has them.
    #[inline]
    pub(super) fn read_tier(&self, index: usize) -> (&LiveQuota, (usize, A::Line)) {
        let (_, quota) = self.tiers.at(|| index);
        let (epoch, line) = quota.read(&self.clock);
        (quota, (epoch, self.expecting_moved(index, line)))
    }

    /// A tier's line, on which no debt that a key brought along is taken for one of before a clock stepped back.
    #[inline]
    pub(super) fn expecting_moved(&self, tier: usize, line: A::Line) -> A::Line {
        line.expecting_debt_of(self.tiers.deepest_moved(tier))
    }

    /// Called with the key's lock held, so that no first sight comes between with the tier of before.
    fn move_to(&self, fingerprint: Fingerprint, tier: usize) {
        let backoff = Backoff::new();
        while let Some((slot, now)) = self.slot_of(fingerprint) {
            if now.tier() == tier {
                return;
            }
            let Some((old, at, word)) = self.look(now) else { continue };
            let owed = A::owed(&old, word, at, &self.clock);
            let (new, (epoch, mut line)) = self.read_tier(tier);
            self.tiers.expect_debt_of(tier, A::reach(&line, owed));
            let at = line.reading(self.clock.now());
            let moved = now.in_tier(tier).at_level(A::owing(&line, at, owed));
            if new.is_current(epoch) && slot.replace(now, moved) {
                return;
            }
            backoff.spin();
        }
    }

    /// The quota of each key; of tiers, the first.
    pub fn quota(&self) -> Quota {
        self.tiers.first().quota()
    }

    /// Puts another quota in force for each key, as [`RateLimiter::set_quota`](crate::RateLimiter::set_quota) does; of tiers, for the first.
    ///
    /// # Errors
    ///
    /// [`SetQuotaError`], and the quota stays.
    pub fn set_quota(&self, quota: Quota) -> Result<(), SetQuotaError> {
        Self::set(self.tiers.first(), quota, &self.clock)
    }

    fn set(live: &LiveQuota, quota: Quota, clock: &C) -> Result<(), SetQuotaError> {
        if !is_kept_by::<A>(quota) {
            return Err(SetQuotaError::LimitTooLarge { limit: quota.limit(), most: A::LARGEST_LIMIT });
        }
        live.set::<A::Line>(quota, clock)
    }

    /// The quota of a tier, if there is one.
    pub fn tier_quota(&self, tier: usize) -> Option<Quota> {
        Some(self.tiers.get(tier)?.quota())
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
