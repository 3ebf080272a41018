//! Names of OpenTelemetry for metrics and spans, by the proposals of today.
//!
//! There is no convention yet. [semantic-conventions#2355](https://github.com/open-telemetry/semantic-conventions/issues/2355) proposes attributes
//! for breakers, limiters, retries and timeouts, and [#3361](https://github.com/open-telemetry/semantic-conventions/issues/3361) asks for those of
//! limits. These are the names that #2355 has, in its spelling. Names that it lacks begin with `damper.`. When there is a convention, the names
//! change here, so they are not part of the promise of semver.
//!
//! | of damper | attribute |
//! |---|---|
//! | the name of a limit, also on Redis | `ratelimiter.name`, and on spans `ratelimiter.result`: `allowed`, `refused` or `error` |
//! | the name of a breaker | `circuitbreaker.name`, and `circuitbreaker.state` |
//! | the name of a deadline | `timeout.name`, and on spans `timeout.occured` and `timeout.duration`, in seconds |
//! | the name of retries | `retry.name`, and `retry.result` for the reason why a retry was not made; on spans of HTTP `retry.attempt` and `http.request.resend_count` |
//! | the name of a limit on calls in flight, a throttle, a pacer, a hedge ... | `damper.concurrency.name` and so on, and on spans `damper.concurrency.result` |
//! | other labels, such as `tier` and `cause` | `damper.tier`, `damper.cause` |
//!
//! A metric such as `damper_deadline_exceeded_total` is `damper.deadline.exceeded`. Its unit is not part of the name.
//!
//! # Examples
//!
//! The metrics of damper in a meter of OpenTelemetry, by any recorder that feeds one:
//!
//! ```
//! use damper_core::{Quota, RateLimiter};
//! use damper_metrics::{Exporter, OtelNames};
//! use metrics_opentelemetry::{OpenTelemetryMetrics, OpenTelemetryRecorder};
//! use opentelemetry::metrics::MeterProvider;
//! use opentelemetry_sdk::metrics::SdkMeterProvider;
//!
//! static LOGINS: RateLimiter = RateLimiter::new(Quota::per_minute(30).burst(5));
//!
//! // With a reader that exports by OTLP in a real program.
//! let provider = SdkMeterProvider::builder().build();
//! let recorder = OpenTelemetryRecorder::new(OpenTelemetryMetrics::new(provider.meter("app")));
//! metrics::set_global_recorder(OtelNames::new(recorder))?;
//!
//! // At an interval, such as that of the reader.
//! Exporter::new().register("logins", &LOGINS).record();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Metadata, Recorder, SharedString, Unit};

/// The attribute that says how a deadline ended a call, as #2355 spells it.
pub const TIMEOUT_OCCURRED: &str = "timeout.occured";

/// The attribute with the time that a call was given, in seconds.
pub const TIMEOUT_DURATION: &str = "timeout.duration";

/// The attribute with the number of the last attempt of a call, from 2 on.
pub const RETRY_ATTEMPT: &str = "retry.attempt";

/// The attribute with the state of a breaker.
pub const BREAKER_STATE: &str = "circuitbreaker.state";

/// The event of a span for a state change of a breaker.
pub const BREAKER_STATE_CHANGE: &str = "circuitbreaker.state_change";

/// Returns the start of the attributes of a group of metrics, such as `limit` or `breaker`.
#[must_use]
pub fn namespace(group: &str) -> String {
    match group {
        "limit" | "redis" => "ratelimiter".into(),
        "breaker" => "circuitbreaker".into(),
        "deadline" => "timeout".into(),
        "retry" => "retry".into(),
        other => format!("damper.{other}"),
    }
}

/// Returns the attribute for a label of the metrics of a group.
#[must_use]
pub fn attribute(group: &str, label: &str) -> String {
    match (group, label) {
        ("breaker", "state") => BREAKER_STATE.into(),
        ("breaker", "from" | "to") => format!("{BREAKER_STATE}.{label}"),
        ("retry", "reason") => "retry.result".into(),
        _ if is_name(label) => format!("{}.name", namespace(group)),
        _ => format!("damper.{label}"),
    }
}

/// Returns whether a label holds the name of a source: it is the first of a metric's labels.
fn is_name(label: &str) -> bool {
    crate::catalogue::ALL.iter().any(|metric| metric.labels().first() == Some(&label))
}

/// Returns the name of a metric of damper, without its unit; `None` for another metric.
#[must_use]
pub fn metric_name(name: &str) -> Option<String> {
    let (group, rest) = split(name)?;
    let rest = rest.strip_suffix("_total").unwrap_or(rest);
    let rest = rest.strip_suffix("_seconds").unwrap_or(rest);
    Some(format!("damper.{group}.{rest}"))
}

/// Returns the group of a metric of damper, and what is left of its name.
fn split(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("damper_")?.split_once('_')
}

/// A recorder that gives damper's metrics the names of OpenTelemetry.
///
/// It passes them to another recorder. /// Metrics of other crates pass as they are. A metric is renamed once, when it is registered.
#[derive(Clone, Copy, Debug)]
pub struct OtelNames<R> {
    recorder: R,
}

impl<R> OtelNames<R> {
    /// Wraps the recorder that the renamed metrics go to.
    #[must_use]
    pub const fn new(recorder: R) -> Self {
        Self { recorder }
    }
}

fn renamed_name(name: KeyName) -> KeyName {
    metric_name(name.as_str()).map_or(name, KeyName::from)
}

fn renamed(key: &Key) -> Key {
    let Some(((group, _), name)) = split(key.name()).zip(metric_name(key.name())) else { return key.clone() };
    let rename =
        |label: &Label| Label::new(attribute(group, label.key()), SharedString::from(label.value().to_owned()));
    Key::from_parts(name, key.labels().map(rename).collect::<Vec<_>>())
}

impl<R: Recorder> Recorder for OtelNames<R> {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.recorder.describe_counter(renamed_name(name), unit, help);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.recorder.describe_gauge(renamed_name(name), unit, help);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.recorder.describe_histogram(renamed_name(name), unit, help);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.recorder.register_counter(&renamed(key), metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.recorder.register_gauge(&renamed(key), metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        self.recorder.register_histogram(&renamed(key), metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use std::collections::HashSet;

    #[test]
    fn each_metric_has_a_name_of_its_own() {
        let names: HashSet<_> = catalogue::ALL.iter().filter_map(|metric| metric_name(metric.name())).collect();
        assert_eq!(names.len(), catalogue::ALL.len());
    }

    #[test]
    fn labels_of_a_metric_stay_distinct() {
        for metric in catalogue::ALL {
            let (group, _) = split(metric.name()).unwrap();
            let attributes: HashSet<_> = metric.labels().iter().map(|label| attribute(group, label)).collect();
            assert_eq!(attributes.len(), metric.labels().len(), "{}", metric.name());
        }
    }

    #[test]
    fn names_are_those_of_the_proposal() {
        assert_eq!(attribute("limit", "limit"), "ratelimiter.name");
        assert_eq!(attribute("breaker", "breaker"), "circuitbreaker.name");
        assert_eq!(attribute("breaker", "state"), "circuitbreaker.state");
        assert_eq!(attribute("retry", "retry"), "retry.name");
        assert_eq!(attribute("deadline", "deadline"), "timeout.name");
        assert_eq!(attribute("concurrency", "limit"), "damper.concurrency.name");
        assert_eq!(metric_name("damper_deadline_exceeded_total").as_deref(), Some("damper.deadline.exceeded"));
        assert_eq!(metric_name("damper_pacing_sleep_seconds").as_deref(), Some("damper.pacing.sleep"));
        assert_eq!(metric_name("http_requests_total"), None);
    }
}
