//! Limits on the calls in flight.

use crate::catalogue::{
    CONCURRENCY_BASELINE, CONCURRENCY_EVICTIONS, CONCURRENCY_IN_FLIGHT, CONCURRENCY_KEYS, CONCURRENCY_KEYS_CAPACITY,
    CONCURRENCY_KEYS_FULL, CONCURRENCY_LIMIT, CONCURRENCY_QUEUED, CONCURRENCY_SERVICE_TIME, CONCURRENCY_WAITS,
};
use crate::{Readings, Source};
use damper_core::concurrency::{
    AdaptiveLimit, Admission, Bulkhead, BulkheadStatus, Criticality, KeyedAdaptiveLimit, KeyedBulkhead, LimitRule,
};
use damper_core::time::Clock;
use std::time::Duration;

fn record_status(readings: &Readings<'_>, status: BulkheadStatus) {
    readings.record(&CONCURRENCY_LIMIT, f64::from(status.limit()));
    readings.record(&CONCURRENCY_IN_FLIGHT, f64::from(status.in_flight()));
    readings.record(&CONCURRENCY_QUEUED, f64::from(status.queued()));
}

/// Records the latency of an unloaded service, once it is known.
fn record_baseline(readings: &Readings<'_>, baseline: Option<Duration>) {
    if let Some(baseline) = baseline {
        readings.record(&CONCURRENCY_BASELINE, baseline.as_secs_f64());
    }
}

impl<C: Clock> Source for Bulkhead<C> {
    fn read(&self, readings: &Readings<'_>) {
        record_status(readings, self.status());
        readings.record_number(&CONCURRENCY_WAITS, self.total_queued());
    }
}

impl<R: LimitRule, C: Clock> Source for AdaptiveLimit<R, C> {
    fn read(&self, readings: &Readings<'_>) {
        record_status(readings, self.status());
        readings.record_number(&CONCURRENCY_WAITS, self.total_queued());
        record_baseline(readings, self.baseline());
    }
}

/// The calls queued have the label `class`, from 0 for the most important.
impl<R: LimitRule, C: Clock> Source for Admission<R, C> {
    fn read(&self, readings: &Readings<'_>) {
        readings.record(&CONCURRENCY_LIMIT, f64::from(self.limit()));
        readings.record(&CONCURRENCY_IN_FLIGHT, f64::from(self.in_flight()));
        for criticality in Criticality::ALL {
            let of_class = readings.with("class", criticality.class().to_string());
            of_class.record(&CONCURRENCY_QUEUED, f64::from(self.queued_of(criticality)));
        }
        readings.record_number(&CONCURRENCY_WAITS, self.total_queued());
        record_baseline(readings, self.baseline());
        if let Some(median) = self.median_service_time() {
            readings.record(&CONCURRENCY_SERVICE_TIME, median.as_secs_f64());
        }
    }
}

/// Records the limits of all keys together.
fn record_keyed(
    readings: &Readings<'_>,
    statuses: impl Iterator<Item = BulkheadStatus>,
    capacity: usize,
    evictions: u64,
) {
    let (mut keys, mut full, mut in_flight, mut queued) = (0, 0, 0, 0);
    for status in statuses {
        keys += 1;
        full += u64::from(status.in_flight() >= status.limit());
        in_flight += u64::from(status.in_flight());
        queued += u64::from(status.queued());
    }
    readings.record_number(&CONCURRENCY_KEYS, keys);
    readings.record_number(&CONCURRENCY_KEYS_FULL, full);
    readings.record_number(&CONCURRENCY_IN_FLIGHT, in_flight);
    readings.record_number(&CONCURRENCY_QUEUED, queued);
    readings.record_number(&CONCURRENCY_KEYS_CAPACITY, capacity as u64);
    readings.record_number(&CONCURRENCY_EVICTIONS, evictions);
}

impl<K, C: Clock + Clone, S> Source for KeyedBulkhead<K, C, S> {
    fn read(&self, readings: &Readings<'_>) {
        record_keyed(readings, self.statuses(), self.capacity(), self.evictions());
    }
}

impl<K, R: LimitRule, C: Clock + Clone, S> Source for KeyedAdaptiveLimit<K, R, C, S> {
    fn read(&self, readings: &Readings<'_>) {
        record_keyed(readings, self.statuses(), self.capacity(), self.evictions());
    }
}
