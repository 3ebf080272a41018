//! The quotas of a keyed limiter and of its tiers, which can change while it is used.

use super::KeyedLimiter;
use super::table::{MOST_TIERS, is_kept_by};
use super::tiers::TierError;
use crate::limit::KeyedAlgorithm;
use crate::quota::{LiveQuota, Quota, QuotaChange, SetQuotaError};
use crate::time::Clock;

impl<K: ?Sized, C: Clock, S, A: KeyedAlgorithm> KeyedLimiter<K, C, S, A> {
    /// Returns the quota of each key; if there are tiers, the quota of tier 0.
    pub fn quota(&self) -> Quota {
        self.table.first_tier().quota()
    }

    /// Puts another quota in force for each key; if there are tiers, for the keys of tier 0.
    ///
    /// It works as [`RateLimiter::set_quota`](crate::RateLimiter::set_quota) does.
    ///
    /// # Errors
    ///
    /// [`SetQuotaError`] if the quota is refused. The old quota then stays in force.
    pub fn set_quota(&self, quota: Quota) -> Result<(), SetQuotaError> {
        drop(self.change(self.table.first_tier(), quota)?.publish::<A::Line>(&self.clock));
        self.table.wake_all();
        Ok(())
    }

    /// Prepares a change of a quota.
    ///
    /// It returns an error if a key's slot has too few bits to count up to the new limit, or if `live` refuses the
    /// change.
    fn change<'a>(&self, live: &'a LiveQuota, quota: Quota) -> Result<QuotaChange<'a>, SetQuotaError> {
        if !is_kept_by::<A>(quota) {
            return Err(SetQuotaError::LimitTooLarge { limit: quota.limit(), most: A::LARGEST_LIMIT });
        }
        live.prepare::<A::Line>(quota, &self.clock)
    }

    pub(super) fn live_quota(&self, tier: usize) -> Result<&LiveQuota, TierError> {
        self.table.tier(tier).ok_or_else(|| TierError::Missing { tier, tiers: self.table.tiers() })
    }

    /// Returns how many tiers there are: 1, unless the limiter was built with more or got more since.
    pub fn tiers(&self) -> usize {
        self.table.tiers()
    }

    /// Returns the quota of a tier; `None` if there is no such tier.
    pub fn tier_quota(&self, tier: usize) -> Option<Quota> {
        self.quota_in_table(tier)
    }

    /// Puts another quota in force for a tier, as [`set_quota`](Self::set_quota) does.
    ///
    /// # Errors
    ///
    /// [`TierError`] if there is no such tier, or the quota is refused. The old quota then stays in force.
    pub fn set_tier_quota(&self, tier: usize, quota: Quota) -> Result<(), TierError> {
        self.set_tier_quotas([(tier, quota)])
    }

    /// Puts the quotas of several tiers in force: all of them, or none.
    ///
    /// All quotas are checked before the first of them changes, and no other thread can change one of them in between.
    /// The quotas then change one after another, which takes less than a microsecond. A key is in one tier only, so a
    /// call sees either the old quota of that tier or the new one. If a tier is named twice, its last quota counts.
    ///
    /// # Errors
    ///
    /// [`TierError`] if a tier does not exist, or if a quota is refused. All old quotas then stay in force.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::{KeyedLimiter, ManualClock, Quota};
    ///
    /// let paying = |user: &str| usize::from(user.starts_with("paying:"));
    /// let limits = KeyedLimiter::<str>::builder(Quota::per_second(1))
    ///     .tiers([Quota::per_second(10)], paying)
    ///     .clock(ManualClock::new())
    ///     .build()?;
    /// limits.set_tier_quotas([(0, Quota::per_second(2)), (1, Quota::per_second(20))])?;
    /// assert_eq!(limits.tier_quota(1), Some(Quota::per_second(20)));
    ///
    /// let error = limits.set_tier_quotas([(0, Quota::per_second(3)), (2, Quota::per_second(30))]).unwrap_err();
    /// assert_eq!(error.to_string(), "tier 2 does not exist, there are 2");
    /// assert_eq!(limits.quota(), Quota::per_second(2), "none has changed");
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_tier_quotas(&self, quotas: impl IntoIterator<Item = (usize, Quota)>) -> Result<(), TierError> {
        let mut wanted = [None; MOST_TIERS];
        // `change` claims a quota, so that other changes of it fail. The caller's iterator may itself change quotas, so
        // it runs before the first claim.
        for (tier, quota) in quotas {
            wanted[tier.min(MOST_TIERS - 1)] = Some((self.live_quota(tier)?, quota));
        }
        let mut changes = [const { None }; MOST_TIERS];
        for ((tier, wanted), change) in wanted.into_iter().enumerate().zip(&mut changes) {
            if let Some((live, quota)) = wanted {
                *change = Some(self.change(live, quota).map_err(|error| TierError::Quota { tier, error })?);
            }
        }
        for change in changes.into_iter().flatten() {
            drop(change.publish::<A::Line>(&self.clock));
        }
        self.table.wake_all();
        Ok(())
    }

    /// Adds a tier while the limiter is used, and returns its number.
    ///
    /// There are at most 15 tiers. A key gets into the new tier by [`set_tier`](Self::set_tier), or if the builder's
    /// [function](crate::keyed::KeyedLimiterBuilder::tiers) returns the tier's number. (Until the tier is added, a
    /// number that high means the last tier.) A key that has a slot stays in its tier until [`retier`](Self::retier) is
    /// called.
    ///
    /// A tier takes 8 bytes for every 32 [shared words](crate::keyed::KeyedLimiterBuilder::shared_buckets). By default
    /// that is about half a byte for each key of the capacity.
    ///
    /// # Errors
    ///
    /// - [`TierError::TooMany`] if there are 15 tiers already.
    /// - [`TierError::OneQuota`] if the limiter was built without tiers.
    /// - [`TierError::Quota`] if the limit is larger than the algorithm can count.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::{KeyedLimiter, ManualClock, Quota};
    ///
    /// let limits = KeyedLimiter::<str>::builder(Quota::per_second(1)).tiers([], |_| 0).clock(ManualClock::new()).build()?;
    /// let partners = limits.add_tier(Quota::per_second(50))?;
    /// limits.set_tier("alice", partners)?;
    /// assert!(limits.check_n("alice", 50).is_ok());
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "alloc")]
    pub fn add_tier(&self, quota: Quota) -> Result<usize, TierError> {
        if !self.tiers.has_several() {
            return Err(TierError::OneQuota);
        }
        if !is_kept_by::<A>(quota) {
            let error = SetQuotaError::LimitTooLarge { limit: quota.limit(), most: A::LARGEST_LIMIT };
            return Err(TierError::Quota { tier: self.table.tiers(), error });
        }
        self.table.add_tier(quota).ok_or(TierError::TooMany)
    }
}
