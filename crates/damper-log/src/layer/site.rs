//! The limit of a call site, or of a call site and a value.

use super::report::Report;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use damper_core::Clock;
use damper_core::internal::Tally;
use damper_core::limit::{RateLimiter, TokenBucket};
use damper_core::quota::Quota;
use tracing::Metadata;

/// One limit, and what it suppressed since the last report.
pub(super) struct Site<C: Clock> {
    limiter: RateLimiter<TokenBucket, C>,
    suppressed: Tally,
    /// When the first of these events was suppressed, in milliseconds since the layer was built.
    ///
    /// The times wrap after 49 days. Threads that race may leave times that are a little off, but the count is exact.
    first: AtomicU32,
    /// When the last of them was suppressed.
    last: AtomicU32,
    metadata: &'static Metadata<'static>,
    key: String,
    /// Takes over the count if this site is dropped before it is reported.
    evicted: Arc<Tally>,
}

impl<C: Clock> Site<C> {
    pub(super) fn new(
        quota: Quota,
        clock: C,
        metadata: &'static Metadata<'static>,
        key: String,
        evicted: Arc<Tally>,
    ) -> Self {
        Self {
            limiter: RateLimiter::with_clock(quota, clock),
            suppressed: Tally::new(),
            first: AtomicU32::new(0),
            last: AtomicU32::new(0),
            metadata,
            key,
            evicted,
        }
    }

    /// Returns whether an event passes, and counts it if not.
    ///
    /// `now` returns the milliseconds since the layer was built.
    pub(super) fn is_passing(&self, now: impl FnOnce() -> u32) -> bool {
        if self.limiter.check().is_ok() {
            return true;
        }
        let now = now();
        // ORDERING: Relaxed, here and in `report`: times of a text, through which nothing is published.
        if !self.is_pending() {
            self.first.store(now, Ordering::Relaxed);
        }
        self.last.store(now, Ordering::Relaxed);
        self.suppressed.add();
        false
    }

    /// Returns whether events were suppressed that are not reported yet.
    pub(super) fn is_pending(&self) -> bool {
        self.suppressed.count() > 0
    }

    /// Takes what was suppressed since the last report. `None` if nothing was.
    pub(super) fn take_report(&self) -> Option<Report<'_>> {
        let millis = self.last.load(Ordering::Relaxed).wrapping_sub(self.first.load(Ordering::Relaxed));
        // The difference is negative if another thread has just begun to count.
        let elapsed = Duration::from_millis(u64::try_from(millis.cast_signed()).unwrap_or(0));
        Report::new(self.suppressed.take(), elapsed, self.metadata, &self.key)
    }
}

impl<C: Clock> Drop for Site<C> {
    fn drop(&mut self) {
        self.evicted.add_many(self.suppressed.take());
    }
}
