//! Counters of a limiter's work.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A counter for rare events.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        // ORDERING: Relaxed here and in `get`. The count publishes nothing.
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

const STRIPES: usize = 8;

/// The number of threads that have counted so far.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The stripe of this thread.
    // ORDERING: Relaxed. The number publishes nothing.
    static STRIPE: usize = THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES;
}

/// A counter in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(Counter);

/// A counter for events of many threads at a time.
///
/// Most threads add to cache lines of their own.
#[derive(Debug, Default)]
pub(crate) struct StripedCounter([Stripe; STRIPES]);

impl StripedCounter {
    pub(crate) fn add(&self, n: u64) {
        // A thread that is ending has no stripe any more.
        let stripe = STRIPE.try_with(|stripe| *stripe).unwrap_or(0);
        self.0[stripe % STRIPES].0.add(n);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.iter().map(|stripe| stripe.0.get()).sum()
    }
}

/// The counters of a limiter.
///
/// A check that a lease allows writes none of them. Its tokens are counted when the lease is reported.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) tokens_by_lease: Counter,
    /// Only a flood of denials makes many threads count at full speed.
    pub(crate) denied_locally: StripedCounter,
    pub(crate) allowed_by_server: Counter,
    pub(crate) denied_by_server: Counter,
    pub(crate) allowed_by_policy: Counter,
    pub(crate) denied_by_policy: Counter,
    pub(crate) grants: Counter,
    pub(crate) tokens_granted: Counter,
    pub(crate) losses: Counter,
}

#[cfg(test)]
mod tests {
    use super::StripedCounter;
    use std::thread;

    #[test]
    fn counts_of_all_threads_add_up() {
        let counter = StripedCounter::default();
        thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| (0..100).for_each(|_| counter.add(3)));
            }
        });
        assert_eq!(counter.get(), 12 * 100 * 3);
    }
}
