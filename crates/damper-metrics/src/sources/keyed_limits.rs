//! Limits per key.

use crate::catalogue::{
    LIMIT_EVICTIONS, LIMIT_KEYS, LIMIT_KEYS_CAPACITY, LIMIT_KEYS_EXHAUSTED, LIMIT_KEYS_OWING, LIMIT_OVERFLOWS,
    LIMIT_REFUSED_NEWCOMERS, LIMIT_SHARED_WORDS_BUSY, LIMIT_SHARED_WORDS_SEEN,
};
use crate::{Readings, Source};
use damper_core::keyed::KeyedLimiter;
use damper_core::limit::KeyedAlgorithm;
use damper_core::time::Clock;

/// The keys and the quota of each tier, with the label `tier`, and the events of the table.
impl<K: ?Sized, C: Clock, S, A: KeyedAlgorithm> Source for KeyedLimiter<K, C, S, A> {
    fn read(&self, readings: &Readings<'_>) {
        for (tier, census) in self.census().tiers().iter().enumerate() {
            let of_tier = readings.of_tier(tier);
            of_tier.record_number(&LIMIT_KEYS, census.keys() as u64);
            of_tier.record_number(&LIMIT_KEYS_OWING, census.owing() as u64);
            of_tier.record_number(&LIMIT_KEYS_EXHAUSTED, census.exhausted() as u64);
            if let Some(quota) = self.tier_quota(tier) {
                of_tier.record_quota(quota, if A::BY_WINDOWS { quota.limit() } else { quota.burst_size() });
            }
        }
        readings.record_number(&LIMIT_KEYS_CAPACITY, self.capacity() as u64);
        readings.record_number(&LIMIT_EVICTIONS, self.evictions());
        readings.record_number(&LIMIT_OVERFLOWS, self.overflows());
        let crowding = self.crowding();
        readings.record_number(&LIMIT_SHARED_WORDS_SEEN, crowding.looked());
        readings.record_number(&LIMIT_SHARED_WORDS_BUSY, crowding.busy());
        readings.record_number(&LIMIT_REFUSED_NEWCOMERS, self.refused_newcomers());
    }
}
