//! Requests that pass a limit or a breaker allocate nothing.
//!
//! The allocator of this binary counts for each thread, so other tests may run meanwhile.

use allocation_counter::measure;
use damper::http::{CircuitBreakerLayer, ConcurrencyLayer, Headers, PeerAddress, RateLimitLayer};
use damper::wire::TrustedProxies;
use damper::{BreakerConfig, CircuitBreaker, Deadline, Quota, RateLimiter};
use http::{Request, Response};
use http_body_util::Empty;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tower::Service;

type ServiceResult = Result<Response<Empty<bytes::Bytes>>, Infallible>;

fn respond(_: Request<()>) -> Ready<ServiceResult> {
    ready(Ok(Response::default()))
}

fn request() -> Request<()> {
    let mut request =
        Request::get("https://Api.example.com/path").header("x-forwarded-for", "192.0.2.7").body(()).unwrap();
    request.extensions_mut().insert(PeerAddress(([10, 0, 0, 1], 5_000).into()));
    request
}

fn request_with_a_deadline() -> Request<()> {
    let mut request = request();
    request.extensions_mut().insert(Deadline::after(Duration::from_secs(60)));
    request
}

/// Returns how many allocations ten calls make after the first.
fn allocations<S, B>(service: S) -> u64
where
    S: Service<Request<()>, Response = Response<B>, Error: std::fmt::Debug>,
{
    allocations_of(request, service)
}

/// Returns how many allocations ten calls with such requests make after the first.
fn allocations_of<S, B>(request: fn() -> Request<()>, mut service: S) -> u64
where
    S: Service<Request<()>, Response = Response<B>, Error: std::fmt::Debug>,
{
    let mut call = |request| {
        let polled = pin!(service.call(request)).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Ok(answer)) if answer.status() == 200));
    };
    call(request());
    let mut requests: Vec<_> = (0..10).map(|_| request()).collect();
    measure(|| requests.drain(..).for_each(&mut call)).count_total
}

#[test]
fn counting_allocator_sees_allocations() {
    assert_eq!(measure(|| drop(std::hint::black_box(Box::new(1)))).count_total, 1);
    assert!(
        allocations(
            RateLimitLayer::global(Quota::per_second(1_000))
                .headers(Headers::OnAllResponses)
                .layer(tower::service_fn(respond))
        ) > 0
    );
}

// CLAIM: all
#[test]
fn allowed_request_allocates_nothing() {
    static LIMIT: RateLimiter = RateLimiter::new(Quota::per_second(1_000));
    let quota = Quota::per_second(1_000);
    let respond = tower::service_fn(respond);
    assert_eq!(allocations(RateLimitLayer::new(&LIMIT).layer(respond)), 0);
    assert_eq!(allocations(RateLimitLayer::global(quota).layer(respond)), 0);
    let per_client = RateLimitLayer::per_client(quota).behind(TrustedProxies::new(["10.0.0.0/8"]).unwrap());
    let per_client = per_client.exempt(|head| head.uri.path() == "/healthz").on_limited(|_, _| ()).problem_json();
    assert_eq!(allocations(per_client.layer(respond)), 0);
    assert_eq!(allocations(RateLimitLayer::by(|head| head.version, quota).layer(respond)), 0);
    let name = http::HeaderName::from_static("x-forwarded-for");
    assert_eq!(allocations(RateLimitLayer::by_header(name, quota).layer(respond)), 0);
    assert_eq!(allocations(RateLimitLayer::global(quota).wait(Duration::MAX).layer(respond)), 0);
}

/// Servers clone the service for each call.
#[test]
fn cloned_service_allocates_nothing() {
    let service = RateLimitLayer::per_client(Quota::per_second(1_000)).layer(tower::service_fn(respond));
    assert_eq!(allocations(tower::service_fn(move |request| service.clone().call(request))), 0);
}

// CLAIM: all
#[test]
fn permitted_call_allocates_nothing() {
    static BREAKER: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT);
    let config = BreakerConfig::default();
    let respond = tower::service_fn(respond);
    assert_eq!(allocations(CircuitBreakerLayer::new(&BREAKER).layer(respond)), 0);
    assert_eq!(allocations(CircuitBreakerLayer::new(Arc::new(CircuitBreaker::default())).layer(respond)), 0);
    assert_eq!(allocations(CircuitBreakerLayer::single(config).layer(respond)), 0);
    assert_eq!(allocations(CircuitBreakerLayer::per_host(config).layer(respond)), 0);
    assert_eq!(allocations(CircuitBreakerLayer::per_host(config).when_body_ends().layer(respond)), 0);
}

/// A box holds all that is known of the time of a call, however much that is.
#[test]
fn call_with_a_deadline_allocates_one_box() {
    let breakers = CircuitBreakerLayer::per_host(BreakerConfig::default());
    let allocations = |service| allocations_of(request_with_a_deadline, service);
    assert_eq!(
        allocations(breakers.clone().min_budget(Duration::from_millis(50)).layer(tower::service_fn(respond))),
        10
    );
    assert_eq!(allocations(breakers.layer(tower::service_fn(respond))), 10, "measured too");
    let service = ConcurrencyLayer::bulkhead(8).layer(tower::service_fn(respond));
    assert_eq!(allocations_of(request_with_a_deadline, service), 10);
}

/// A call is moved on its way, so a gate must add little to it.
#[cfg(target_pointer_width = "64")]
#[test]
fn future_of_a_breaker_adds_five_words() {
    let mut service = CircuitBreakerLayer::single(BreakerConfig::default()).layer(tower::service_fn(respond));
    assert!(size_of_val(&service.call(request())) <= size_of::<Ready<ServiceResult>>() + 5 * size_of::<usize>());
}
