//! Metrics under the names of OpenTelemetry, read from an exporter of OpenTelemetry in memory.

use damper_core::{BreakerConfig, CircuitBreaker, Quota, RateLimiter};
use damper_metrics::{Exporter, OtelNames};
use metrics_opentelemetry::{OpenTelemetryMetrics, OpenTelemetryRecorder};
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics, ScopeMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};

#[test]
fn a_meter_gets_the_metrics_under_their_names() {
    static LOGINS: RateLimiter = RateLimiter::new(Quota::per_minute(30).burst(5));
    static PAYMENTS: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT);

    let memory = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_reader(PeriodicReader::builder(memory.clone()).build()).build();
    let recorder = OtelNames::new(OpenTelemetryRecorder::new(OpenTelemetryMetrics::new(provider.meter("app"))));
    metrics::with_local_recorder(&recorder, || {
        metrics::counter!("other_requests_total", "method" => "GET").increment(1);
        Exporter::new().register("logins", &LOGINS).register("payments", &PAYMENTS).record();
    });
    provider.force_flush().unwrap();

    let mut points = Vec::new();
    let finished = memory.get_finished_metrics().unwrap();
    for metric in finished.iter().flat_map(ResourceMetrics::scope_metrics).flat_map(ScopeMetrics::metrics) {
        let AggregatedMetrics::F64(MetricData::Gauge(gauge)) = metric.data() else { continue };
        for point in gauge.data_points() {
            let mut attributes: Vec<_> =
                point.attributes().map(|attribute| format!("{}={}", attribute.key, attribute.value)).collect();
            attributes.sort();
            points.push(format!("{} {} {}", metric.name(), attributes.join(","), point.value()));
        }
    }
    for expected in [
        "damper.limit.burst_tokens ratelimiter.name=logins 5",
        "damper.limit.remaining_tokens ratelimiter.name=logins 5",
        "damper.breaker.state circuitbreaker.name=payments,circuitbreaker.state=closed 1",
    ] {
        assert!(points.iter().any(|point| point == expected), "{expected} is not among {points:#?}");
    }
    let is_other = |point: &String| point.contains("damper_");
    assert!(!points.iter().any(is_other), "{points:#?}");
}
