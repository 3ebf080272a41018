//! Attributes of OpenTelemetry on the span that is current while a layer decides.
//!
//! That is the span of the request on a server, and the one around the call on a client. A subscriber of `tracing` makes its span current if it
//! has the layer of tracing-opentelemetry, from version 0.32 on. The names are those of [`damper_metrics::otel`]. If several layers of
//! a kind decide on one request, the last one counts,
//! and a refusal is always the last. (The SDK in Rust keeps them all.)

use super::{Kind, RefusalDetails};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::ToString;
use damper_core::breaker::{State, StateChange};
use damper_metrics::otel;
use opentelemetry::trace::{SpanRef, TraceContextExt};
use opentelemetry::{Context, Key, KeyValue, Value};

/// The attributes that a layer sets, made once.
#[derive(Debug)]
pub(super) struct SpanAttributes {
    name: KeyValue,
    /// Says how a layer decided, or in which state a breaker is.
    ///
    /// `None` for deadlines, which say it otherwise.
    result: Option<Key>,
    kind: Kind,
}

impl SpanAttributes {
    pub(super) fn new(kind: Kind, name: &str) -> Self {
        let group = group(kind);
        let name = KeyValue::new(otel::attribute(group, kind.label()), name.to_owned());
        let result = match kind {
            Kind::Breaker => Some(Key::new(otel::BREAKER_STATE)),
            Kind::ServerDeadline | Kind::ClientDeadline => None,
            _ => Some(Key::new(format!("{}.result", otel::namespace(group)))),
        };
        Self { name, result, kind }
    }

    /// Sets the name and the result of a decision: `allowed` or `error`. A breaker says its [state](Self::in_state).
    #[inline]
    pub(super) fn decided(&self, result: &'static str) {
        if self.kind != Kind::Breaker {
            on_span(|span| self.set(span, result));
        }
    }

    /// Sets the name and the result, and the details of a refusal.
    ///
    /// A candidate refuses nothing, so it sets no details.
    #[cold]
    pub(super) fn refused(&self, details: &RefusalDetails<'_>) {
        on_span(|span| {
            self.set(span, if self.kind == Kind::Breaker { "open" } else { "refused" });
            // The details would say that the request was refused.
            if self.kind == Kind::Candidate {
                return;
            }
            for label in details.labels() {
                span.set_attribute(KeyValue::new(otel::attribute("", label.key()), label.value().to_owned()));
            }
            if let Some(wait) = details.retry_after {
                span.set_attribute(KeyValue::new("damper.retry_after", wait.as_secs_f64()));
            }
            if details.stage.is_some() {
                span.set_attribute(KeyValue::new(otel::TIMEOUT_OCCURRED, true));
                let duration = details.specified.map(|specified| specified.as_secs_f64());
                span.set_attributes(duration.map(|seconds| KeyValue::new(otel::TIMEOUT_DURATION, seconds)));
            }
        });
    }

    /// Sets the name and the state of a breaker that let a call pass.
    #[inline]
    pub(super) fn in_state(&self, state: State) {
        on_span(|span| self.set(span, state.to_string()));
    }

    fn set(&self, span: &SpanRef<'_>, result: impl Into<Value>) {
        span.set_attribute(self.name.clone());
        span.set_attributes(self.result.clone().map(|key| KeyValue::new(key, result)));
    }
}

/// Sets how many attempts a call had whose last one has ended, if there were several.
///
/// `http.request.resend_count` is a stable convention of OpenTelemetry.
pub(crate) fn set_attempts(attempts: u32) {
    if attempts > 1 {
        on_span(|span| {
            span.set_attribute(KeyValue::new(otel::RETRY_ATTEMPT, i64::from(attempts)));
            span.set_attribute(KeyValue::new("http.request.resend_count", i64::from(attempts - 1)));
        });
    }
}

/// Adds a state change of a breaker to the span, as an event.
pub(super) fn add_change(name: &str, host: &str, change: StateChange) {
    on_span(|span| {
        let group = group(Kind::Breaker);
        let attributes = [
            (otel::attribute(group, "breaker"), name.to_owned()),
            (otel::attribute(group, "host"), host.to_owned()),
            (otel::attribute(group, "from"), change.from().to_string()),
            (otel::attribute(group, "to"), change.to().to_string()),
            (otel::attribute(group, "cause"), change.cause().to_string()),
        ];
        let attributes = attributes.map(|(key, value)| KeyValue::new(key, value)).into();
        span.add_event(otel::BREAKER_STATE_CHANGE, attributes);
    });
}

/// Runs `set` if there is a span that is recorded.
#[inline]
fn on_span(set: impl FnOnce(&SpanRef<'_>)) {
    Context::map_current(|context| {
        let span = context.span();
        if span.is_recording() {
            set(&span);
        }
    });
}

/// Returns the group of the metrics of a kind of layers.
const fn group(kind: Kind) -> &'static str {
    match kind {
        Kind::ServerConcurrency | Kind::ClientConcurrency => "concurrency",
        _ => kind.label(),
    }
}
