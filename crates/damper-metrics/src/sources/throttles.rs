//! Throttles and pacers.

use crate::catalogue::{
    PACING_NEXT_SLEEP, THROTTLE_EVICTIONS, THROTTLE_KEYS, THROTTLE_KEYS_CAPACITY, THROTTLE_RECENT_ACCEPTED,
    THROTTLE_RECENT_CALLS, THROTTLE_REFUSED_RATIO,
};
use crate::{Readings, Source};
use damper_core::throttle::{AdaptiveThrottle, KeyedThrottle, Pacer, Strategy, ThrottleStatus};
use damper_core::time::Clock;
use std::hash::{BuildHasher, Hash};

/// The statuses of throttles, taken together.
#[derive(Default)]
struct Statuses {
    calls: u64,
    accepted: u64,
    refused_ratio: f64,
}

impl Statuses {
    fn add(&mut self, status: &ThrottleStatus) {
        self.calls += status.requests();
        self.accepted += status.accepted();
        self.refused_ratio = self.refused_ratio.max(status.share_refused());
    }

    fn record(&self, readings: &Readings<'_>) {
        readings.record_number(&THROTTLE_RECENT_CALLS, self.calls);
        readings.record_number(&THROTTLE_RECENT_ACCEPTED, self.accepted);
        readings.record(&THROTTLE_REFUSED_RATIO, self.refused_ratio);
    }
}

impl<C: Clock> Source for AdaptiveThrottle<C> {
    fn read(&self, readings: &Readings<'_>) {
        let mut statuses = Statuses::default();
        statuses.add(&self.status());
        statuses.record(readings);
    }
}

/// The throttles of all keys together, and their store.
impl<K: Hash + Eq, C: Clock + Clone, S: BuildHasher> Source for KeyedThrottle<K, C, S> {
    fn read(&self, readings: &Readings<'_>) {
        let store = self.store();
        let mut statuses = Statuses::default();
        store.for_each(|throttle| statuses.add(&throttle.status()));
        statuses.record(readings);
        readings.record_number(&THROTTLE_KEYS, store.len() as u64);
        readings.record_number(&THROTTLE_KEYS_CAPACITY, store.capacity() as u64);
        readings.record_number(&THROTTLE_EVICTIONS, store.evictions());
    }
}

impl<S: Strategy, C: Clock> Source for Pacer<S, C> {
    fn read(&self, readings: &Readings<'_>) {
        readings.record(&PACING_NEXT_SLEEP, self.peek().as_secs_f64());
    }
}
