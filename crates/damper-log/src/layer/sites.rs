//! The limits of all call sites, in bounded memory.

use super::key_text::{HashText, key_text, write_key};
use super::report::Report;
use super::site::Site;
use alloc::sync::Arc;
use core::fmt;
use core::hash::{BuildHasher, Hasher};
use core::ptr;
use core::time::Duration;
use damper_core::Clock;
use damper_core::deadline::Deadline;
use damper_core::internal::Tally;
use damper_core::limit::{RateLimiter, TokenBucket};
use damper_core::quota::Quota;
use damper_core::store::BoundedStore;
use damper_core::time::Seed;
use std::sync::OnceLock;
use tracing::Event;
use tracing::callsite::Identifier;
use tracing::dispatcher::WeakDispatch;

/// A call site, and the hash of the text that tells its events apart; 0 without such a text.
///
/// Two texts of one call site share a limit if their hashes are equal, by a chance of 1 in 2^64.
type SiteKey = (Identifier, u64);

/// The limits of a layer, which its [`LogReports`](super::LogReports) share.
pub(super) struct Sites<C: Clock> {
    store: BoundedStore<SiteKey, Site<C>>,
    quota: Quota,
    key_field: Option<&'static str>,
    seed: Seed,
    clock: C,
    /// Passed when the layer was built, and so measures the time since then.
    stopwatch: Deadline<C>,
    /// Lets one event in each interval report.
    sweeps: RateLimiter<TokenBucket, C>,
    evicted: Arc<Tally>,
    /// The subscriber that has the layer.
    pub(super) dispatch: OnceLock<WeakDispatch>,
}

impl<C: Clock + Clone + 'static> Sites<C> {
    pub(super) fn new(
        store: BoundedStore<SiteKey, Site<C>>,
        quota: Quota,
        key_field: Option<&'static str>,
        report_quota: Quota,
        clock: C,
    ) -> Self {
        Self {
            store: store.keep_if(Site::is_pending),
            quota,
            key_field,
            seed: Seed::random(),
            stopwatch: Deadline::with_clock(Duration::ZERO, clock.clone()),
            sweeps: RateLimiter::with_clock(report_quota, clock.clone()),
            clock,
            evicted: Arc::new(Tally::new()),
            dispatch: OnceLock::new(),
        }
    }

    /// Returns whether an event passes, and counts it if not.
    pub(super) fn is_passing(&self, event: &Event<'_>) -> bool {
        let metadata = event.metadata();
        let mut hash = HashText(self.seed.build_hasher());
        write_key(event, self.key_field, &mut hash);
        let site = self.store.get_or_insert_with(&(metadata.callsite(), hash.0.finish()), || {
            let key = key_text(event, self.key_field);
            Site::new(self.quota, self.clock.clone(), metadata, key, Arc::clone(&self.evicted))
        });
        // As milliseconds wrap after 49 days, the lowest bits are all that is needed.
        site.is_passing(|| self.stopwatch.elapsed().as_millis() as u32)
    }
}

impl<C: Clock> Sites<C> {
    /// Returns a number that no other layer has at the same time: its address.
    pub(super) fn number(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Returns whether it is time to report. One caller in each interval gets true.
    pub(super) fn is_report_due(&self) -> bool {
        self.sweeps.check().is_ok()
    }

    /// Takes all that was suppressed since the last reports, and calls `write` with each report.
    pub(super) fn take_reports(&self, mut write: impl FnMut(Report<'_>)) {
        self.store.for_each(|site| {
            if let Some(report) = site.take_report() {
                write(report);
            }
        });
        if let Some(report) = Report::of_evicted(self.evicted.take()) {
            write(report);
        }
    }
}

impl<C: Clock> fmt::Debug for Sites<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sites")
            .field("quota", &self.quota)
            .field("key_field", &self.key_field)
            .field("len", &self.store.len())
            .field("capacity", &self.store.capacity())
            .finish_non_exhaustive()
    }
}
