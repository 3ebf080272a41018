//! Limiters, alone and per key, and stores of any value.

use crate::catalogue::{
    LIMIT_EVICTIONS, LIMIT_KEYS, LIMIT_KEYS_CAPACITY, LIMIT_KEYS_EXHAUSTED, LIMIT_KEYS_OWING, LIMIT_OVERFLOWS,
    LIMIT_PAUSE, LIMIT_REFUSED_NEWCOMERS, LIMIT_SHARED_WORDS_BUSY, LIMIT_SHARED_WORDS_SEEN, STORE_CAPACITY,
    STORE_ENTRIES, STORE_EVICTIONS, STORE_KEPT_EVICTIONS,
};
use crate::{Readings, Source};
use damper_core::internal::{TableAlgorithm, quota_in_table};
use damper_core::keyed::{KeyedLimiter, QuotaTree, TierCensus};
use damper_core::limit::{Algorithm, LimitSet, Limiter, Limits, Pausable, RateLimiter, Striped, Usage};
use damper_core::store::BoundedStore;
use damper_core::time::{Clock, FixedFrequency};
use damper_core::word32::RateLimiter32;

impl<A: Algorithm, C: Clock> Source for RateLimiter<A, C> {
    fn read(&self, readings: &Readings<'_>) {
        readings.record_usage(self.usage());
    }
}

impl<C: Clock> Source for Striped<C> {
    fn read(&self, readings: &Readings<'_>) {
        readings.record_usage(self.usage());
    }
}

impl<C: FixedFrequency> Source for RateLimiter32<C> {
    fn read(&self, readings: &Readings<'_>) {
        readings.record_usage(self.usage());
    }
}

/// A limiter that was chosen at run time.
impl Source for dyn Limiter + Send + Sync {
    fn read(&self, readings: &Readings<'_>) {
        readings.record_usage(self.usage());
    }
}

/// Each limit of the set, with its index in the label `part`.
impl<L: Limits<Usages: IntoIterator<Item = Usage>>, C: Clock, P> Source for LimitSet<L, C, P> {
    fn read(&self, readings: &Readings<'_>) {
        for (index, usage) in self.peek().into_iter().enumerate() {
            readings.with("part", index.to_string()).record_usage(usage);
        }
    }
}

/// As the limiter inside, and how long it is paused.
impl<L: Limiter, C: Clock> Source for Pausable<L, C> {
    fn read(&self, readings: &Readings<'_>) {
        readings.record_usage(self.usage());
        readings.record(&LIMIT_PAUSE, self.pause_left().as_secs_f64());
    }
}

/// The keys and the quota of each tier, with the label `tier`, and the events of the table.
///
/// A limiter by plan has keys without tiers, and only a call knows its quota. It shows the keys and those that owe something.
impl<K: ?Sized, C: Clock, S, A: TableAlgorithm> Source for KeyedLimiter<K, C, S, A> {
    fn read(&self, readings: &Readings<'_>) {
        let census = self.census();
        if A::BY_PLAN {
            let sum = |count: fn(&TierCensus) -> usize| census.iter().map(count).sum::<usize>() as u64;
            readings.record_number(&LIMIT_KEYS, sum(TierCensus::keys));
            readings.record_number(&LIMIT_KEYS_OWING, sum(TierCensus::owing));
        } else {
            for (tier, census) in census.iter().enumerate() {
                let of_tier = readings.of_tier(tier);
                of_tier.record_number(&LIMIT_KEYS, census.keys() as u64);
                of_tier.record_number(&LIMIT_KEYS_OWING, census.owing() as u64);
                of_tier.record_number(&LIMIT_KEYS_EXHAUSTED, census.exhausted() as u64);
                if let Some(quota) = quota_in_table(self, tier) {
                    of_tier.record_quota(quota, if A::BY_WINDOWS { quota.limit() } else { quota.burst_size() });
                }
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

/// The keys of each level, with the label `level`, and the events of its table.
impl<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C, S> Source for QuotaTree<K, LEVELS, DIMENSIONS, C, S> {
    fn read(&self, readings: &Readings<'_>) {
        let (keys, capacities, evictions) = (self.keys(), self.capacities(), self.evictions());
        let (overflows, crowding, refused) = (self.overflows(), self.crowding(), self.refused_newcomers());
        for (level, name) in self.levels().into_iter().enumerate() {
            let of_level = readings.with("level", name);
            of_level.record_number(&LIMIT_KEYS, keys[level] as u64);
            of_level.record_number(&LIMIT_KEYS_CAPACITY, capacities[level] as u64);
            of_level.record_number(&LIMIT_EVICTIONS, evictions[level]);
            of_level.record_number(&LIMIT_OVERFLOWS, overflows[level]);
            of_level.record_number(&LIMIT_SHARED_WORDS_SEEN, crowding[level].looked());
            of_level.record_number(&LIMIT_SHARED_WORDS_BUSY, crowding[level].busy());
            of_level.record_number(&LIMIT_REFUSED_NEWCOMERS, refused[level]);
        }
    }
}

impl<K, V, S> Source for BoundedStore<K, V, S> {
    fn read(&self, readings: &Readings<'_>) {
        readings.record_number(&STORE_ENTRIES, self.len() as u64);
        readings.record_number(&STORE_CAPACITY, self.capacity() as u64);
        readings.record_number(&STORE_EVICTIONS, self.evictions());
        readings.record_number(&STORE_KEPT_EVICTIONS, self.kept_evictions());
    }
}
