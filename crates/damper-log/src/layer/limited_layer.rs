//! A layer that limits what another one gets.

use super::LimitedLayerBuilder;
use super::report::requested_layer;
use super::sites::Sites;
use alloc::sync::Arc;
use core::fmt;
use damper_core::Clock;
use damper_core::quota::Quota;
use damper_core::time::DefaultClock;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// A layer that passes events on to another layer, within a limit for each call site.
///
/// Each limit counts exactly what it suppresses. The count is reported to the inner layer by an event of the same level and of the
/// target `damper`:
///
/// ```text
/// WARN damper: suppressed 1204 events in 10 s suppressed=1204 elapsed_ms=10000 origin="app::disk" file="src/disk.rs" line=42
/// ```
///
/// Spans are not limited, and other layers of the subscriber get all events. A limit has room for as many call sites as its
/// [`capacity`](LimitedLayerBuilder::capacity). Records of the facade `log` that come by `tracing-log` are told apart by their
/// target and line.
///
/// # When it reports
///
/// The layer has no thread. The first event that reaches it ten seconds or more after the last reports, from whichever call site,
/// makes the reports of all limits that suppressed something. So a flood is reported every ten seconds while it lasts, however
/// many lines pass, and its last part when the program logs next after the flood has ended. If that may be never,
/// [`LogReports`](super::LogReports) makes reports on demand: [`tick`](super::LogReports::tick) from a timer of yours, and
/// [`flush`](super::LogReports::flush), also when it is dropped at the end of `main`.
///
/// # Filters
///
/// Put a filter around the limited layer, as in `layer.with_filter(filter)`, and not inside it. Then an event that the filter
/// rejects takes no token and is not counted.
///
/// # Layers that others look up
///
/// A layer inside is not found by [`Dispatch::downcast_ref`], because passing that on needs `unsafe` code. Some crates look their layer up in
/// this way, such as `tracing-opentelemetry` for the methods of `OpenTelemetrySpanExt`, which do nothing then. Put such a layer beside the
/// limited one.
///
/// # Locks
///
/// An event holds the lock of a part of the table shared, while it looks its limit up; see
/// [`BoundedStore`](damper_core::BoundedStore). The inner layer is called without a lock.
///
/// # Examples
///
/// ```
/// # extern crate damper_log as logs;
/// use logs::{LimitedLayer, Quota};
/// use tracing_subscriber::{filter::LevelFilter, fmt, prelude::*, registry};
///
/// let (layer, _reports) = LimitedLayer::builder(Quota::per_second(1).burst(10)).build(fmt::layer())?;
/// registry().with(layer.with_filter(LevelFilter::INFO)).init();
///
/// for attempt in 0..1_000 {
///     tracing::warn!(attempt, "disk full"); // 10 lines
/// }
/// // As `_reports` is dropped: WARN damper: suppressed 990 events suppressed=990 …
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "layer")]
pub struct LimitedLayer<L, C: Clock = DefaultClock> {
    inner: L,
    sites: Arc<Sites<C>>,
}

impl LimitedLayer<()> {
    /// Creates a builder of layers with a limit of this quota for each call site.
    #[must_use]
    pub fn builder(quota: Quota) -> LimitedLayerBuilder {
        LimitedLayerBuilder::new(quota)
    }
}

impl<L, C: Clock> LimitedLayer<L, C> {
    pub(super) const fn new(inner: L, sites: Arc<Sites<C>>) -> Self {
        Self { inner, sites }
    }

    fn report<S: Subscriber>(&self, context: &Context<'_, S>)
    where
        L: Layer<S>,
    {
        self.sites.take_reports(|report| report.with_event(|event| self.inner.on_event(event, context.clone())));
    }
}

impl<S: Subscriber, L: Layer<S>, C: Clock + Clone + Send + Sync + 'static> Layer<S> for LimitedLayer<L, C> {
    fn on_register_dispatch(&self, subscriber: &Dispatch) {
        // A layer belongs to one subscriber, so the value is set once.
        self.sites.dispatch.get_or_init(|| subscriber.downgrade());
        self.inner.on_register_dispatch(subscriber);
    }

    fn on_layer(&mut self, subscriber: &mut S) {
        self.inner.on_layer(subscriber);
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.inner.register_callsite(metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>, context: Context<'_, S>) -> bool {
        self.inner.enabled(metadata, context)
    }

    fn event_enabled(&self, event: &Event<'_>, context: Context<'_, S>) -> bool {
        // A request to report ends here: no layer gets it as an event.
        if requested_layer(event) == Some(self.sites.number() as u64) {
            self.report(&context);
            return false;
        }
        self.inner.event_enabled(event, context)
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if self.sites.is_report_due() {
            self.report(&context);
        }
        if self.sites.is_passing(event) {
            self.inner.on_event(event, context);
        }
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        self.inner.on_new_span(attributes, id, context);
    }

    fn on_record(&self, span: &Id, values: &Record<'_>, context: Context<'_, S>) {
        self.inner.on_record(span, values, context);
    }

    fn on_follows_from(&self, span: &Id, follows: &Id, context: Context<'_, S>) {
        self.inner.on_follows_from(span, follows, context);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        self.inner.on_enter(id, context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        self.inner.on_exit(id, context);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.inner.on_close(id, context);
    }

    fn on_id_change(&self, old: &Id, new: &Id, context: Context<'_, S>) {
        self.inner.on_id_change(old, new, context);
    }
}

impl<L: fmt::Debug, C: Clock> fmt::Debug for LimitedLayer<L, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedLayer").field("inner", &self.inner).field("sites", &self.sites).finish()
    }
}
