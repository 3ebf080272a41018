//! Attributes of spans that layers set, read from an exporter of OpenTelemetry in memory.

use bytes::Bytes;
use damper::concurrency::Bulkhead;
use damper::http::{CircuitBreakerLayer, ConcurrencyLayer, DeadlineLayer, PerHost, RateLimitLayer, RetryLayer};
use damper::{BreakerConfig, CircuitBreaker, Quota, RateLimiter, Retry, TokenBucket};
use http::{Request, Response, StatusCode};
use http_body_util::Empty;
use opentelemetry::trace::{FutureExt, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, Value};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{pending, ready};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tower::{Service, ServiceExt, service_fn};

type EmptyResponse = Response<Empty<Bytes>>;

/// Makes a call within a span, and returns the span as it was exported.
async fn span_of<B, S: Service<Request<B>>>(service: &mut S, request: Request<B>) -> SpanData {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let context = Context::current_with_span(provider.tracer("tests").start("request"));
    // The end of a call belongs to its span too.
    drop(async { service.ready().await.ok().unwrap().call(request).await }.with_context(context.clone()).await);
    context.span().end();
    exporter.get_finished_spans().unwrap().remove(0)
}

/// Returns the attributes of a span by their keys.
fn attributes(span: &SpanData) -> BTreeMap<&str, Value> {
    let known = span.attributes.len();
    let by_key: BTreeMap<_, _> =
        span.attributes.iter().map(|attribute| (attribute.key.as_str(), attribute.value.clone())).collect();
    assert_eq!(by_key.len(), known, "each attribute is there once");
    by_key
}

fn texts<const N: usize>(expected: [(&'static str, &'static str); N]) -> BTreeMap<&'static str, Value> {
    expected.into_iter().map(|(key, value)| (key, Value::from(value))).collect()
}

async fn answer(_: Request<()>) -> Result<EmptyResponse, Infallible> {
    Ok(Response::new(Empty::new()))
}

#[tokio::test]
async fn span_says_which_limit_allowed_or_refused() {
    static ONE: RateLimiter = RateLimiter::new(Quota::per_hour(1));
    let mut server = RateLimitLayer::new(&ONE).named("logins").unwrap().layer(service_fn(answer));
    let allowed = span_of(&mut server, Request::new(())).await;
    assert_eq!(attributes(&allowed), texts([("ratelimiter.name", "logins"), ("ratelimiter.result", "allowed")]));

    let refused = span_of(&mut server, Request::new(())).await;
    let mut attributes = attributes(&refused);
    let Some(Value::F64(wait)) = attributes.remove("damper.retry_after") else { panic!("{attributes:?}") };
    assert!((3_000.0..=3_600.0).contains(&wait), "{wait}");
    assert_eq!(attributes, texts([("ratelimiter.name", "logins"), ("ratelimiter.result", "refused")]));
}

/// The refusal by a candidate does not look like a refusal of the request.
#[tokio::test]
async fn span_has_only_the_result_of_a_candidate() {
    let one = || Arc::new(RateLimiter::<TokenBucket>::new(Quota::per_hour(1)));
    let candidate = RateLimitLayer::new(one()).shadow(Arc::new(RateLimiter::<TokenBucket>::new(Quota::per_second(0))));
    let mut server = candidate.named("logins").unwrap().layer(service_fn(answer));
    let of_candidate = [("damper.shadow.name", "logins"), ("damper.shadow.result", "refused")];
    for result in ["allowed", "refused"] {
        let span = span_of(&mut server, Request::new(())).await;
        let mut attributes = attributes(&span);
        assert_eq!(attributes.remove("damper.retry_after").is_some(), result == "refused");
        let mut expected = texts([("ratelimiter.name", "logins"), ("ratelimiter.result", result)]);
        expected.extend(texts(of_candidate));
        assert_eq!(attributes, expected);
    }

    let mut marking = RateLimitLayer::new(one()).named("logins").unwrap().marking().layer(service_fn(answer));
    span_of(&mut marking, Request::new(())).await;
    let marked = span_of(&mut marking, Request::new(())).await;
    let attributes = attributes(&marked);
    assert!(of_candidate.iter().all(|(key, value)| attributes[key] == Value::from(*value)), "{attributes:?}");
    assert!(!attributes.contains_key("damper.retry_after"), "{attributes:?}");
}

#[tokio::test]
async fn span_has_the_cause_of_a_full_bulkhead() {
    static NONE: Bulkhead = Bulkhead::new(0);
    let mut server = ConcurrencyLayer::new(&NONE).named("reports").layer(service_fn(answer));
    let refused = span_of(&mut server, Request::new(())).await;
    let expected =
        [("damper.cause", "no_slot"), ("damper.concurrency.name", "reports"), ("damper.concurrency.result", "refused")];
    assert_eq!(attributes(&refused), texts(expected));
}

#[tokio::test]
async fn span_has_the_state_of_the_breaker_and_its_change() {
    static UPSTREAM: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT);
    let failing = service_fn(async |_: Request<()>| {
        let mut response = EmptyResponse::new(Empty::new());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        Ok::<_, Infallible>(response)
    });
    let mut client = CircuitBreakerLayer::new(&UPSTREAM).named("payments").layer(failing);
    let first = span_of(&mut client, Request::new(())).await;
    assert_eq!(attributes(&first), texts([("circuitbreaker.name", "payments"), ("circuitbreaker.state", "closed")]));

    UPSTREAM.force_open();
    let refused = span_of(&mut client, Request::new(())).await;
    assert_eq!(attributes(&refused)["circuitbreaker.state"], Value::from("open"));
}

#[tokio::test]
async fn change_of_a_hosts_breaker_is_an_event() {
    let config = BreakerConfig::builder().failure_threshold(1).build().unwrap();
    let failing = service_fn(async |_: Request<()>| Err::<EmptyResponse, _>(io::Error::other("reset")));
    let mut client =
        CircuitBreakerLayer::new(PerHost::builder(config).named("payments").build().unwrap()).layer(failing);
    let span = span_of(&mut client, Request::get("http://payments.example/").body(()).unwrap()).await;
    let event = &span.events[0];
    assert_eq!(event.name, "circuitbreaker.state_change");
    let said: BTreeMap<_, _> = event.attributes.iter().map(|said| (said.key.as_str(), said.value.clone())).collect();
    let expected = [
        ("circuitbreaker.name", "payments"),
        ("circuitbreaker.state.from", "closed"),
        ("circuitbreaker.state.to", "open"),
        ("damper.cause", "consecutive failures"),
        ("damper.host", "payments.example:80"),
    ];
    assert_eq!(said, texts(expected));
}

#[tokio::test(start_paused = true)]
async fn span_says_that_a_deadline_passed() {
    let slow = service_fn(async |_: Request<()>| pending::<Result<EmptyResponse, Infallible>>().await);
    let mut server = DeadlineLayer::new(Duration::from_millis(1_500)).named("api").layer(slow);
    let span = span_of(&mut server, Request::new(())).await;
    let attributes = attributes(&span);
    assert_eq!(attributes["timeout.name"], Value::from("api"));
    assert_eq!(attributes["timeout.occured"], Value::from(true));
    assert_eq!(attributes["timeout.duration"], Value::from(1.5));
    assert_eq!(attributes["damper.stage"], Value::from("response"));
}

#[tokio::test(start_paused = true)]
async fn span_has_the_number_of_the_last_attempt() {
    let calls = AtomicUsize::new(0);
    let failing = service_fn(|_: Request<Empty<Bytes>>| {
        let status =
            if calls.fetch_add(1, Ordering::Relaxed) < 2 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        ready(Ok::<_, Infallible>(Response::builder().status(status).body(Empty::<Bytes>::new()).unwrap()))
    });
    let mut client = RetryLayer::new(Retry::new(5)).layer(failing);
    let span = span_of(&mut client, Request::new(Empty::new())).await;
    let attributes = attributes(&span);
    assert_eq!(attributes["retry.attempt"], Value::from(3));
    assert_eq!(attributes["http.request.resend_count"], Value::from(2));
}

/// A layer that decides without a span sets nothing, and fails at nothing.
#[tokio::test]
async fn no_span_is_needed() {
    static ALL: RateLimiter = RateLimiter::new(Quota::per_second(100));
    let mut server = RateLimitLayer::new(&ALL).layer(service_fn(answer));
    assert_eq!(server.ready().await.unwrap().call(Request::new(())).await.unwrap().status(), StatusCode::OK);
}
