//! The section and the gauge that `in_damper.patch` gives the gate.

use damper::config::{Settings, Sources};
use damper::gate::{AnswerOf, Ask, Gate, Never, Refusal};
use damper::http::ConcurrencyLayer;
use damper::metrics::{Exporter, Readings, Source, catalogue};
use damper::tower::GateLayer;
use damper_opening_hours::{Closed, OpeningHours, OpeningHoursError};
use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tower::{Layer, Service, ServiceExt, service_fn};

const NOON: Duration = Duration::from_secs(12 * 3600);

/// Builds the gate that settings describe.
fn gate<F: Fn() -> Duration>(settings: &Settings, time_of_day: F) -> Result<OpeningHours<F>, OpeningHoursError> {
    let hours = &settings.server.http.opening_hours;
    OpeningHours::new(hours.opens(), hours.closes(), time_of_day)
}

fn load(text: &str) -> Result<Settings, String> {
    Sources::new().toml("app.toml", text).load().map_err(|error| error.to_string())
}

#[test]
fn section_describes_the_gate() {
    let settings = load("[server.http.opening_hours]\nopens = 13\ncloses = 2").unwrap();
    let closed = gate(&settings, || NOON).unwrap().refusal().unwrap();
    assert_eq!(closed.retry_after(), Some(Duration::from_secs(3600)));
    let (grpc, http) = (&settings.server.grpc.opening_hours, &settings.server.http.opening_hours);
    assert_eq!((http.opens(), http.closes(), grpc.opens(), grpc.closes()), (13, 2, 0, 24));
}

#[test]
fn gate_without_settings_is_always_open() {
    for hour in 0..24 {
        assert!(gate(&Settings::default(), || Duration::from_secs(hour * 3600)).unwrap().ask("a call").is_pass());
    }
}

/// The settings accept the hours that the gate accepts, and no others.
#[test]
fn mistakes_in_the_section_are_found_with_their_places() {
    let error = |keys: &str| load(&format!("[server.http.opening_hours]\n{keys}")).unwrap_err();
    let path = "server.http.opening_hours";
    assert_eq!(
        error("opens = 24"),
        format!("app.toml:2:1: {path}.opens is 24, it must be a whole number from 0 to 23")
    );
    assert_eq!(
        error("closes = 0"),
        format!("app.toml:2:1: {path}.closes is 0, it must be a whole number from 1 to 24")
    );
    assert_eq!(
        error("opens = 8\ncloses = 8"),
        format!(
            "app.toml:2:1: {path}: opens and closes must differ; opens is 8 (app.toml:2:1), closes is 8 (app.toml:3:1)"
        )
    );
    assert_eq!(error("open = 8"), format!("app.toml:2:1: {path}.open is no known key, did you mean {path}.opens?"));
    for (opens, closes) in (0..=25).flat_map(|opens| (0..=25).map(move |closes| (opens, closes))) {
        let text = format!("server.http.opening_hours = {{ opens = {opens}, closes = {closes} }}");
        assert_eq!(load(&text).is_ok(), OpeningHours::new(opens, closes, || NOON).is_ok(), "{text}");
    }
}

/// The gate, with a count of the calls that it refused.
#[derive(Clone)]
struct Counted<F>(OpeningHours<F>, Arc<AtomicU64>);

impl<F: Fn() -> Duration> Gate for Counted<F> {
    type Permit = ();
    type Refusal = Closed;
    type Wait = Never<(), Closed>;

    fn refusal(&self) -> Option<Closed> {
        self.0.refusal()
    }

    fn refused_unasked(&self, _: &Closed) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

impl<F: Fn() -> Duration, Q: ?Sized> Ask<Q> for Counted<F> {
    fn ask(&self, call: &Q) -> AnswerOf<Self> {
        let answer = self.0.ask(call);
        self.1.fetch_add(u64::from(!answer.is_pass()), Ordering::Relaxed);
        answer
    }
}

impl<F> Source for Counted<F> {
    fn read(&self, readings: &Readings<'_>) {
        readings.record_number(&catalogue::OPENING_HOURS_REFUSED, self.1.load(Ordering::Relaxed));
    }
}

/// The layer is a source by its gate, as with damper's own gates.
#[tokio::test]
async fn refusals_are_exported_by_their_metric() {
    let gate = Counted(OpeningHours::new(8, 20, || Duration::ZERO).unwrap(), Arc::default());
    let mut service = GateLayer::new(gate.clone()).layer(service_fn(|()| ready(Ok::<_, Infallible>(()))));
    for _ in 0..2 {
        // The service knows before the call that the gate is closed.
        assert!(service.ready().await.unwrap().call(()).await.is_err());
    }
    assert!(!gate.ask("a call").is_pass());
    let layer = ConcurrencyLayer::new(gate).named("shop");
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || Exporter::new().layer(layer).record());
    let mut exported = snapshotter.snapshot().into_vec();
    let (key, _, help, value) = exported.pop().unwrap();
    assert_eq!((key.kind(), key.key().name()), (MetricKind::Counter, "damper_opening_hours_refused_total"));
    assert_eq!(value, DebugValue::Counter(3));
    assert_eq!(help.as_deref(), Some("Calls that were refused because of the hour."));
    let labels: Vec<_> = key.key().labels().map(|label| (label.key(), label.value())).collect();
    assert_eq!(labels, [("gate", "shop"), ("side", "server")]);
    assert!(exported.is_empty());
}
