//! The settings of a limited layer.

use super::sites::Sites;
use super::{LimitedLayer, LogReports};
use alloc::sync::Arc;
use core::time::Duration;
use damper_core::quota::Quota;
use damper_core::store::BoundedStore;
use damper_core::time::DefaultClock;
use damper_core::{Clock, OutOfRange};

/// The settings of a [`LimitedLayer`].
///
/// # Examples
///
/// One limit for each call site and peer:
///
/// ```
/// # extern crate damper_log as logs;
/// use logs::{LimitedLayer, Quota};
/// use tracing_subscriber::{fmt, prelude::*, registry};
///
/// let (layer, _reports) = LimitedLayer::builder(Quota::per_minute(6).burst(3))
///     .per_value_of("peer")
///     .capacity(10_000)
///     .build(fmt::layer())?;
/// registry().with(layer).init();
///
/// tracing::warn!(peer = "192.0.2.7", "connection reset");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[cfg(feature = "layer")]
pub struct LimitedLayerBuilder<C = DefaultClock> {
    quota: Quota,
    key_field: Option<&'static str>,
    capacity: usize,
    report_every: Duration,
    clock: C,
}

impl LimitedLayerBuilder {
    pub(super) fn new(quota: Quota) -> Self {
        Self {
            quota,
            key_field: None,
            capacity: 1_024,
            report_every: Duration::from_secs(10),
            clock: DefaultClock::default(),
        }
    }
}

impl<C> LimitedLayerBuilder<C> {
    /// Gives each value of this field a limit of its own, at each call site.
    ///
    /// Default: one limit per call site. The value is the text that the event shows of it. Events without the field share a limit.
    /// Values are told apart by a hash of their whole text. Reports show its first 128 bytes, and no more is kept.
    #[must_use]
    pub fn per_value_of(self, field: &'static str) -> Self {
        Self { key_field: Some(field), ..self }
    }

    /// Sets the most limits that there can be at the same time. Default: 1,024.
    ///
    /// If there are more call sites and values, a limit that was not used lately makes room, and comes back full. One with
    /// events that are not reported yet goes last. If it goes, its count is reported as that of evicted call sites.
    #[must_use]
    pub fn capacity(self, limits: usize) -> Self {
        Self { capacity: limits, ..self }
    }

    /// Sets the least time between reports. Default: 10 s.
    #[must_use]
    pub fn report_every(self, interval: Duration) -> Self {
        Self { report_every: interval, ..self }
    }

    /// Sets the clock of the limits and of the reports. Default: the [default clock](DefaultClock).
    #[must_use]
    pub fn clock<D: Clock + Clone>(self, clock: D) -> LimitedLayerBuilder<D> {
        let Self { quota, key_field, capacity, report_every, clock: _ } = self;
        LimitedLayerBuilder { quota, key_field, capacity, report_every, clock }
    }
}

impl<C: Clock + Clone + 'static> LimitedLayerBuilder<C> {
    /// Creates a layer that limits what `inner` gets, and a handle that makes it report.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the capacity is not 1 to 2^28 (on targets of 32 bits 2^24, or fewer), or if the least time between
    /// reports is not that of a [`Quota::every`].
    pub fn build<L>(self, inner: L) -> Result<(LimitedLayer<L, C>, LogReports<C>), OutOfRange> {
        let store = BoundedStore::new(self.capacity)?;
        let reports = Quota::every(self.report_every)?;
        let sites = Arc::new(Sites::new(store, self.quota, self.key_field, reports, self.clock));
        Ok((LimitedLayer::new(inner, Arc::clone(&sites)), LogReports::new(sites)))
    }
}
