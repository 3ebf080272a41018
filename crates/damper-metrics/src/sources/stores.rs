//! Stores of any value.

use crate::catalogue::{STORE_CAPACITY, STORE_ENTRIES, STORE_EVICTIONS, STORE_KEPT_EVICTIONS};
use crate::{Readings, Source};
use damper_core::store::LruStore;

impl<K, V, S> Source for LruStore<K, V, S> {
    fn read(&self, readings: &Readings<'_>) {
        readings.record_number(&STORE_ENTRIES, self.len() as u64);
        readings.record_number(&STORE_CAPACITY, self.capacity() as u64);
        readings.record_number(&STORE_EVICTIONS, self.evictions());
        readings.record_number(&STORE_KEPT_EVICTIONS, self.kept_evictions());
    }
}
