//! The census of a limiter's keys: how many have a slot, owe tokens or have none left.

use super::table::MOST_TIERS;
use core::ops::Deref;

/// The census of a tier: how many keys have a slot, owe tokens, or have no token left.
///
/// A key has a slot while the table stores a bucket for it alone. Only keys with a slot are counted. They are counted
/// one after another while calls change their buckets, so the numbers do not describe a single moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TierCensus {
    keys: usize,
    owing: usize,
    exhausted: usize,
}

impl TierCensus {
    /// Adds one key to the counts.
    pub(super) fn count(&mut self, is_owing: bool, is_exhausted: bool) {
        self.keys += 1;
        self.owing += usize::from(is_owing);
        self.exhausted += usize::from(is_exhausted);
    }

    /// Returns how many keys of the tier have a slot.
    #[must_use]
    pub const fn keys(&self) -> usize {
        self.keys
    }

    /// Returns how many keys of the tier have taken tokens that are not refilled yet.
    #[must_use]
    pub const fn owing(&self) -> usize {
        self.owing
    }

    /// Returns how many keys of the tier have no token left.
    ///
    /// A [`check`](super::KeyedLimiter::check) would refuse these keys.
    #[must_use]
    pub const fn exhausted(&self) -> usize {
        self.exhausted
    }
}

/// The census of each tier of a [`KeyedLimiter`](super::KeyedLimiter), in an array, which needs no allocation.
#[derive(Debug)]
pub(super) struct KeyCensus {
    counts: [TierCensus; MOST_TIERS],
    tiers: usize,
}

impl KeyCensus {
    pub(super) fn of_tiers(tiers: usize) -> Self {
        Self { counts: [TierCensus::default(); MOST_TIERS], tiers: tiers.min(MOST_TIERS) }
    }

    /// Adds one key to the counts of its tier.
    pub(super) fn count(&mut self, tier: usize, is_owing: bool, is_exhausted: bool) {
        // A tier may have been added since the census began. The keys of that tier count in the last tier that the
        // census knows.
        self.counts[tier.min(self.tiers.saturating_sub(1))].count(is_owing, is_exhausted);
    }
}

/// Gives access to the census of each tier, by the tier's number. Tier 0 has the limiter's own quota.
impl Deref for KeyCensus {
    type Target = [TierCensus];

    fn deref(&self) -> &[TierCensus] {
        &self.counts[..self.tiers]
    }
}
