//! Counts of a limiter's work.

use core::sync::atomic::{AtomicU64, Ordering};

/// A count that threads add to.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        // ORDERING: Relaxed here and in `get`. A count, which publishes nothing.
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counts of a limiter.
///
/// Checks that a lease allows write none of them: their tokens are counted when the lease is reported.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) tokens_by_lease: Counter,
    pub(crate) denied_locally: Counter,
    pub(crate) allowed_by_server: Counter,
    pub(crate) denied_by_server: Counter,
    pub(crate) allowed_by_policy: Counter,
    pub(crate) denied_by_policy: Counter,
    pub(crate) grants: Counter,
    pub(crate) tokens_granted: Counter,
    pub(crate) losses: Counter,
}
