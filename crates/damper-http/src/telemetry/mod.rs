//! Counts, logs and attributes of spans.
//!
//! They go to the facades `metrics`, `tracing` and `opentelemetry`, each behind a feature.
//!
//! Without these nothing is recorded. Names of metrics are those of damper-metrics; the docs of [`http`](super) list the events of logs.
#![cfg_attr(not(all(feature = "metrics", feature = "tracing")), allow(unused_variables, clippy::unused_self))]

// | file | idea |
// |---|---|
// | `kind` | the kinds of layers, and the counters of each |
// | `refusal_details` | `RefusalDetails`: the details of a refusal |
// | `observe` | `Observe`: the seam between gates and their layers |
// | this one | `Telemetry`: counts and logs the events of a layer |
// | `completion` | what is judged by the wrong protocol |
// | `span_attributes` | the attributes of OpenTelemetry on the current span |
// | `log_sampler` | which of many similar events are logged |

mod completion;
mod kind;
#[cfg(feature = "tracing")]
mod log_sampler;
mod observe;
mod refusal_details;
#[cfg(feature = "opentelemetry")]
mod span_attributes;

pub(super) use completion::log_grpc_judged_by_http;
pub use kind::{Event, Kind};
pub(crate) use observe::Observe;
pub use refusal_details::{DeadlineStage, RefusalDetails};

use crate::Head;
use crate::limit::{self, Limit, Limited};
use alloc::string::String;
#[cfg(any(feature = "metrics", feature = "tracing"))]
use alloc::{borrow::ToOwned, sync::Arc};
use core::fmt;
#[cfg(feature = "tracing")]
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use damper_core::breaker::{CircuitOpen, State, StateChange};
use damper_core::deadline::DeadlineExceeded;
use damper_core::gate::Refusal;
#[cfg(feature = "tracing")]
use log_sampler::{LogSampler, Sample, millis};
#[cfg(feature = "opentelemetry")]
use span_attributes::SpanAttributes;
#[cfg(feature = "opentelemetry")]
pub(crate) use span_attributes::set_attempts;
#[cfg(feature = "metrics")]
use {
    alloc::vec::Vec,
    damper_metrics::catalogue::PACING_SLEEP,
    damper_metrics::{Metric, Readings},
    metrics::{Counter, Label, counter, histogram},
    std::sync::OnceLock,
};

/// Counts and logs the events of a layer, under its name. Clones share the counters.
///
/// Without the features `metrics` and `tracing` it is empty and does nothing.
#[derive(Clone, Debug)]
pub struct Telemetry {
    #[cfg(any(feature = "metrics", feature = "tracing"))]
    layer: Arc<Layer>,
}

#[cfg(any(feature = "metrics", feature = "tracing"))]
#[derive(Debug)]
struct Layer {
    kind: Kind,
    name: String,
    /// The counters without further labels, by their events.
    ///
    /// Each is looked up at its first use, because until then no recorder may be installed.
    #[cfg(feature = "metrics")]
    counters: [OnceLock<Counter>; Event::COUNT],
    #[cfg(feature = "opentelemetry")]
    attributes: SpanAttributes,
    #[cfg(feature = "tracing")]
    refusals: LogSampler,
    /// Rejections and errors.
    #[cfg(feature = "tracing")]
    others: LogSampler,
    /// The events that all have the same cause, of which only the powers of two are logged.
    #[cfg(feature = "tracing")]
    repeated: AtomicU64,
}

impl Telemetry {
    /// Creates the telemetry of the layer of this kind and name.
    #[must_use]
    pub fn new(kind: Kind, name: &str) -> Self {
        Self {
            #[cfg(any(feature = "metrics", feature = "tracing"))]
            layer: Arc::new(Layer {
                kind,
                name: name.to_owned(),
                #[cfg(feature = "metrics")]
                counters: [const { OnceLock::new() }; Event::COUNT],
                #[cfg(feature = "opentelemetry")]
                attributes: SpanAttributes::new(kind, name),
                #[cfg(feature = "tracing")]
                refusals: LogSampler::default(),
                #[cfg(feature = "tracing")]
                others: LogSampler::default(),
                #[cfg(feature = "tracing")]
                repeated: AtomicU64::new(0),
            }),
        }
    }

    /// Returns the name of the layer.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn name(&self) -> &str {
        &self.layer.name
    }

    /// Returns these readings with the side of the layer as a label.
    #[cfg(feature = "metrics")]
    pub(crate) fn of_side<'a>(&self, readings: &Readings<'a>) -> Readings<'a> {
        self.layer.kind.side().map_or_else(|| readings.clone(), |side| readings.with("side", side))
    }

    /// Counts an event.
    #[inline]
    pub fn count(&self, event: Event) {
        #[cfg(feature = "opentelemetry")]
        if event == Event::Allowed {
            self.layer.attributes.decided("allowed");
        }
        #[cfg(feature = "metrics")]
        self.layer.counters[event as usize].get_or_init(|| self.layer.counter(event, Vec::new())).increment(1);
    }

    /// Records a call that sleeps before it is made.
    pub fn record_slept(&self, sleep: Duration) {
        self.count(Event::Allowed);
        #[cfg(feature = "metrics")]
        histogram!(PACING_SLEEP.name(), self.layer.labels(&PACING_SLEEP, Vec::new())).record(sleep);
    }

    /// Records the answer of a breaker. A call that passes is a probe if the `state` is half-open.
    #[inline]
    pub(crate) fn record_call<T>(&self, permit: &Result<T, CircuitOpen>, state: impl FnOnce() -> State) {
        match permit {
            Ok(_) => {
                self.count(Event::Allowed);
                #[cfg(feature = "metrics")]
                let state = state();
                #[cfg(feature = "metrics")]
                if state == State::HalfOpen {
                    self.count(Event::Probe);
                }
                #[cfg(feature = "opentelemetry")]
                self.layer.attributes.in_state(state);
            }
            Err(open) => self.record_open(open),
        }
    }

    /// Records the refusal of a breaker.
    #[cold]
    pub(crate) fn record_open(&self, open: &CircuitOpen) {
        self.record_refused(open, || RefusalDetails { retry_after: open.retry_after(), ..RefusalDetails::default() });
    }

    /// Logs a state change of the breaker of a host.
    pub(crate) fn record_change(&self, host: &str, change: StateChange) {
        #[cfg(feature = "opentelemetry")]
        span_attributes::add_change(&self.layer.name, host, change);
        #[cfg(feature = "tracing")]
        {
            let (name, from, to, why) = (&self.layer.name, change.from(), change.to(), change.cause());
            tracing::info!(target: "damper", breaker = name, host, %from, %to, %why, "circuit changed its state");
        }
    }

    /// Records the refusal of a limit, with the key of the request.
    #[cold]
    pub(crate) fn record_limited(&self, limit: &(impl Limit + ?Sized), head: &Head<'_>, limited: &Limited) {
        self.record_refused_key(limited, || RefusalDetails::by_limit(limit, head, limited), || limit.key(head));
    }

    /// Records that a candidate would have refused a request, beside a limit that gave the answer `in_force`.
    #[cold]
    pub(crate) fn record_candidate(
        &self,
        candidate: &(impl Limit + ?Sized),
        head: &Head<'_>,
        limited: &Limited,
        in_force: &'static str,
    ) {
        let refused =
            || RefusalDetails { in_force: Some(in_force), ..RefusalDetails::by_limit(candidate, head, limited) };
        self.record_refused_key(limited, refused, || candidate.key(head));
    }

    /// Records that a deadline ended a call at this stage.
    #[cold]
    pub fn record_exceeded(&self, stage: DeadlineStage, exceeded: &DeadlineExceeded) {
        self.record_refused(exceeded, || RefusalDetails::by_deadline(stage, exceeded));
    }

    /// Records a refusal.
    #[cold]
    pub fn record_refused<'a>(&self, message: &dyn fmt::Display, refused: impl Fn() -> RefusalDetails<'a>) {
        self.record_refused_key(message, refused, || None);
    }

    /// Records a refusal to a key. Its text is made only if it may be logged.
    #[cold]
    pub fn record_refused_key<'a>(
        &self,
        message: &dyn fmt::Display,
        refused: impl Fn() -> RefusalDetails<'a>,
        key: impl FnOnce() -> Option<String>,
    ) {
        #[cfg(feature = "opentelemetry")]
        self.layer.attributes.refused(&refused());
        #[cfg(feature = "metrics")]
        if Event::Refused.metric(self.layer.kind).is_some() {
            match refused().labels() {
                labels if labels.is_empty() => self.count(Event::Refused),
                labels => self.layer.counter(Event::Refused, labels).increment(1),
            }
        }
        #[cfg(feature = "tracing")]
        if tracing::enabled!(target: "damper", tracing::Level::DEBUG)
            && let Some(sample) = self.layer.refusals.sample_key(key)
        {
            self.layer.log_refused(&refused(), &sample, message);
        }
    }

    /// Records an attempt that the server's limit rejected, and the sleep before the next one.
    ///
    /// Without a next one there is no sleep.
    #[cold]
    pub fn record_rejected(&self, sleep: Option<Duration>) {
        self.count(Event::Rejected);
        #[cfg(feature = "tracing")]
        if tracing::enabled!(target: "damper", tracing::Level::DEBUG)
            && let Some(Sample { suppressed, .. }) = self.layer.others.sample()
        {
            let (name, sleep_ms) = (&self.layer.name, sleep.map(millis));
            tracing::debug!(target: "damper", pacing = name, sleep_ms, suppressed, "rejected by the server's limit");
        }
    }

    /// Records that a limit could not decide on a request.
    #[cold]
    pub(crate) fn record_undecided(&self, failed: &limit::Refusal) {
        #[cfg(feature = "opentelemetry")]
        self.layer.attributes.decided("error");
        #[cfg(feature = "metrics")]
        {
            let cause = if is_peer_missing(failed) { "missing_peer" } else { "other" };
            self.layer.counter(Event::Undecided, Vec::from([Label::new("cause", cause)])).increment(1);
        }
        #[cfg(feature = "tracing")]
        {
            let (name, source) = (&self.layer.name, core::error::Error::source(failed));
            if is_peer_missing(failed) {
                // All of them have the same cause: the server's configuration.
                if let Some(requests) = self.layer.power_of_two() {
                    tracing::error!(target: "damper", limit = name, error = source, requests, "{failed}");
                }
            } else if let Some(Sample { suppressed, .. }) = self.layer.others.sample() {
                tracing::error!(target: "damper", limit = name, error = source, suppressed, "{failed}");
            }
        }
    }

    /// Records that a request was served whose deadline had passed on arrival, because the clocks differ.
    #[cold]
    pub fn record_skewed(&self) {
        self.count(Event::Skewed);
        #[cfg(feature = "tracing")]
        // All of them have the same cause: a clock that is wrong.
        if let Some(requests) = self.layer.power_of_two() {
            let name = &self.layer.name;
            tracing::warn!(target: "damper", deadline = name, requests, "deadlines are served that had passed on arrival: clocks differ");
        }
    }
}

impl<N: Refusal> Observe<N> for Telemetry {
    #[inline]
    fn allowed(&self) {
        self.count(Event::Allowed);
    }

    #[cold]
    fn refused(&self, head: &Head<'_>, refusal: &N) {
        #[cfg(any(feature = "metrics", feature = "tracing"))]
        self.record_refused(refusal, || RefusalDetails::by_gate(self.layer.kind, head, refusal));
    }
}

#[cfg(any(feature = "metrics", feature = "tracing"))]
impl Layer {
    /// Returns the labels of a metric: the name and, if it has one, the side of the layer, and others.
    #[cfg(feature = "metrics")]
    fn labels(&self, metric: &Metric, others: Vec<Label>) -> Vec<Label> {
        let name = Label::new(self.kind.label(), self.name.clone());
        let side = self.kind.side().filter(|_| metric.labels().contains(&"side")).map(|side| Label::new("side", side));
        core::iter::once(name).chain(side).chain(others).collect()
    }

    /// Looks up the counter of an event with these labels. One that the layer only logs counts nothing.
    #[cfg(feature = "metrics")]
    #[cold]
    fn counter(&self, event: Event, others: Vec<Label>) -> Counter {
        event
            .metric(self.kind)
            .map_or_else(Counter::noop, |metric| counter!(metric.name(), self.labels(&metric, others)))
    }

    /// Logs a refusal.
    #[cfg(feature = "tracing")]
    fn log_refused(&self, refused: &RefusalDetails<'_>, sample: &Sample, message: &dyn fmt::Display) {
        let &RefusalDetails {
            method,
            path,
            tier,
            part,
            level,
            dimension,
            scope,
            cause,
            stage,
            in_force,
            share_refused,
            ..
        } = refused;
        let named = |label: &str| (self.kind.label() == label).then_some(&*self.name);
        tracing::debug!(
            target: "damper",
            limit = named("limit"),
            shadow = named("shadow"),
            breaker = named("breaker"),
            throttle = named("throttle"),
            pacing = named("pacing"),
            deadline = named("deadline"),
            side = self.kind.side(),
            stage,
            specified_ms = refused.specified.map(millis),
            elapsed_ms = refused.elapsed.map(millis),
            scope,
            in_force,
            method,
            path,
            function = refused.function.as_deref(),
            key = sample.key.as_deref().map(shortened),
            tier,
            prefix = refused.prefix.as_ref().map(tracing::field::display),
            part,
            level,
            dimension,
            plan = refused.plan.as_deref(),
            cause,
            share_refused,
            retry_after_ms = refused.retry_after.map(millis),
            quota = refused.quota.as_ref().map(tracing::field::display),
            suppressed = sample.suppressed,
            "{message}"
        );
    }

    /// Counts an event that always has the same cause. Returns its number if that is a power of two.
    #[cfg(feature = "tracing")]
    fn power_of_two(&self) -> Option<u64> {
        // ORDERING: Relaxed: a count, through which nothing is published.
        let events = self.repeated.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        events.is_power_of_two().then_some(events)
    }
}

/// The most of a key that is logged, in bytes.
#[cfg(feature = "tracing")]
const LONGEST_KEY: usize = 64;

/// Returns whether a limit could not decide for want of the peer's address.
#[cfg(any(feature = "metrics", feature = "tracing"))]
fn is_peer_missing(failed: &limit::Refusal) -> bool {
    matches!(failed, limit::Refusal::MissingPeer)
}

/// Returns the longest start of a key that is logged, in whole characters.
#[cfg(feature = "tracing")]
fn shortened(key: &str) -> &str {
    let mut end = key.len().min(LONGEST_KEY);
    // `str::floor_char_boundary` needs Rust 1.91.
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    &key[..end]
}
