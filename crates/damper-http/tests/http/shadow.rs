//! Candidates beside the limits of layers: no answer and no header depends on them.

use crate::tokio_clock::TokioClock;
use damper::breaker::State;
use damper::concurrency::{Admission, LimitBounds};
use damper::http::{
    ByHeader, ByKey, CircuitBreakerLayer, ClientConcurrencyLayer, ConcurrencyLayer, Head, Headers, Limit, NoWait,
    PeerAddress, PerClient, PerHost, RateLimitLayer, Single,
};
use damper::metrics::Exporter;
use damper::shadow::{ShadowReport, Shadowed};
use damper::tower::GateLayer;
use damper::{BreakerConfig, Bulkhead, CircuitBreaker, KeyedLimiter, ManualClock, Quota, RateLimiter, SlidingLog};
use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::Empty;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::Instant;
use tower::{Service, service_fn};

type EmptyResponse = Response<Empty<bytes::Bytes>>;

const KEY: HeaderName = HeaderName::from_static("x-api-key");

fn answer(_: Request<()>) -> Ready<Result<EmptyResponse, Infallible>> {
    ready(Ok(Response::new(Empty::new())))
}

fn call<S: Service<Request<()>>>(service: &mut S, request: Request<()>) -> Result<S::Response, S::Error> {
    match pin!(service.call(request)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("it waits"),
    }
}

/// A request of one of two clients.
fn from(client: u8) -> Request<()> {
    let mut request = Request::get("/path").header(KEY, client.to_string()).body(()).unwrap();
    request.extensions_mut().insert(PeerAddress(([192, 0, 2, client], 5_000).into()));
    request
}

/// Makes 20 requests of two clients, and returns how many the candidate alone refused.
///
/// Asserts that the answers and headers of `alone` are the same.
fn only_by_candidate<L: Limit<Future = NoWait> + Clone>(alone: RateLimitLayer<L>, shadowed: RateLimitLayer<L>) -> u64 {
    let shadowed = shadowed.headers(Headers::OnAllResponsesWithX);
    let alone = alone.headers(Headers::OnAllResponsesWithX);
    assert_eq!(alone.shadow_report(), None);
    let (mut beside, mut without) = (shadowed.layer(service_fn(answer)), alone.layer(service_fn(answer)));
    for number in 0..20 {
        let client = number % 2;
        let (beside, without) = (call(&mut beside, from(client)).unwrap(), call(&mut without, from(client)).unwrap());
        assert_eq!(beside.status(), without.status(), "{number}");
        assert_eq!(beside.headers(), without.headers(), "{number}");
    }
    shadowed.shadow_report().unwrap().only_by_candidate
}

/// A quota of so many requests in an hour, of which none come back within a test.
fn burst(tokens: u32) -> Quota {
    Quota::per_hour(1).burst(tokens)
}

/// Each form of the layer allows 8 of 10 requests of each client, or 8 of 20; the candidate allows 3.
#[test]
fn quota_decides_beside_each_form_of_the_layer() {
    let by_header = || RateLimitLayer::by_header(KEY, burst(8));
    assert_eq!(only_by_candidate(by_header(), by_header().shadow(burst(3))), 2 * (8 - 3));
    let per_client = || RateLimitLayer::per_client(burst(8)).capacity(64).unwrap();
    assert_eq!(only_by_candidate(per_client(), per_client().shadow(burst(3))), 2 * (8 - 3));
    let global = || RateLimitLayer::global(burst(8));
    assert_eq!(only_by_candidate(global(), global().shadow(burst(3))), 8 - 3);

    let key = |head: &Head<'_>| head.headers.get(KEY).cloned();
    let layer = RateLimitLayer::by(key, burst(8)).shadow(burst(3));
    let mut service = layer.layer(service_fn(answer));
    let refused = (0..20).filter(|number| call(&mut service, from(number % 2)).unwrap().status() != StatusCode::OK);
    assert_eq!(refused.count(), 4);
    let mut report = ShadowReport::default();
    (report.by_both, report.only_by_candidate) = (4, 10);
    assert_eq!(layer.shadow_report(), Some(report));
}

#[test]
fn prefixes_keep_their_quotas_in_the_candidate() {
    let layer = || RateLimitLayer::per_client(burst(8)).prefix_v4(24, burst(10));
    // Without the prefix the candidate would allow all of the first ten.
    assert_eq!(only_by_candidate(layer(), layer().shadow(burst(9))), 0);
    assert_eq!(only_by_candidate(layer(), layer().shadow(burst(3))), 10 - 6);
}

#[test]
fn any_limit_that_decides_at_once_can_be_the_candidate() {
    let clock = Arc::new(ManualClock::new());
    let log = RateLimiter::with_algorithm(SlidingLog::new(burst(1)).unwrap(), Arc::clone(&clock));
    let layer = || RateLimitLayer::new(Arc::new(RateLimiter::with_clock(burst(8), Arc::new(ManualClock::new()))));
    assert_eq!(only_by_candidate(layer(), layer().shadow(log)), 7);
    let keyed =
        |tokens| Arc::new(KeyedLimiter::<[u8]>::builder(burst(tokens)).clock(Arc::clone(&clock)).build().unwrap());
    let layer = || RateLimitLayer::new(ByHeader::new(KEY, keyed(8)));
    assert_eq!(only_by_candidate(layer(), layer().shadow(ByHeader::new(KEY, keyed(3)))), 10);
    assert_eq!(
        only_by_candidate(
            layer(),
            layer().shadow(ByKey::new(|_: &Head<'_>| (), Arc::new(KeyedLimiter::builder(burst(3)).build().unwrap())))
        ),
        13
    );
}

#[test]
fn exempt_and_undecided_requests_are_not_compared() {
    let layer = RateLimitLayer::per_client(burst(0)).shadow(burst(3)).exempt(|head| head.uri.path() == "/healthz");
    let mut service = layer.layer(service_fn(answer));
    call(&mut service, Request::get("/healthz").body(()).unwrap()).unwrap();
    let failed = call(&mut service, Request::get("/").body(()).unwrap()).unwrap();
    assert_eq!(failed.status(), StatusCode::INTERNAL_SERVER_ERROR, "no peer");
    assert_eq!(layer.shadow_report(), Some(ShadowReport::default()));
}

/// Clones and services share the candidate, and a clone that was made before it was set has none.
#[test]
fn clones_share_the_candidate() {
    let earlier = RateLimitLayer::global(burst(8));
    let layer = earlier.clone().shadow(burst(3));
    let mut services = [layer.layer(service_fn(answer)), layer.clone().layer(service_fn(answer))];
    for service in &mut services {
        for _ in 0..2 {
            call(service, from(1)).unwrap();
        }
    }
    assert_eq!(layer.shadow_report().unwrap().only_by_candidate, 1);
    assert_eq!(earlier.shadow_report(), None);
}

/// Five requests come at once, and pass 100 ms apart. The candidate would have refused four of them.
#[tokio::test(start_paused = true)]
async fn candidate_decides_when_a_request_arrives() {
    let start = Instant::now();
    let limiter = |quota| RateLimiter::with_clock(quota, TokioClock(start));
    let layer = RateLimitLayer::new(Arc::new(limiter(Quota::per_second(10).burst(1)))).wait(Duration::from_secs(1));
    let layer = layer.shadow(limiter(Quota::per_second(10).burst(2)));
    let mut service = layer.layer(service_fn(answer));
    let calls: Vec<_> = (0..5).map(|_| tokio::spawn(service.call(from(1)))).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    assert_eq!(start.elapsed(), Duration::from_millis(400));
    assert_eq!(layer.shadow_report().unwrap().only_by_candidate, 3);
}

#[test]
fn metrics_of_the_candidate_have_names_of_their_own() {
    let counted = exported_by(|| {
        // The one in force allows 3 of 6, the candidate 1 of each client.
        let layer = RateLimitLayer::global(burst(3)).named("api").unwrap();
        let each = PerClient::new(Arc::new(KeyedLimiter::builder(burst(1)).build().unwrap()));
        let layer = layer.shadow(each);
        let mut service = layer.layer(service_fn(answer));
        for client in [1, 1, 1, 1, 1, 2] {
            call(&mut service, from(client)).unwrap();
        }
        Exporter::new().layer(layer).record();
    });
    let counted: Vec<_> = counted.iter().filter(|line| line.contains("_total")).collect();
    assert_eq!(
        counted,
        [
            "damper_limit_allowed_total{limit=api} 3",
            "damper_limit_refused_total{limit=api} 3",
            "damper_shadow_refusals_total{shadow=api,by=both} 2",
            "damper_shadow_refusals_total{shadow=api,by=candidate} 2",
            "damper_shadow_refusals_total{shadow=api,by=in_force} 1",
        ]
    );
}

/// Returns the metrics that are recorded while this runs, without zeros, in order.
fn exported_by(run: impl FnOnce()) -> Vec<String> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, run);
    let mut lines: Vec<_> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .filter_map(|(key, _, _, value)| {
            let value = match value {
                DebugValue::Counter(count) => count.to_string(),
                DebugValue::Gauge(level) => level.to_string(),
                DebugValue::Histogram(_) => return None,
            };
            let labels: Vec<_> = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            (value != "0").then(|| format!("{}{{{}}} {value}", key.key().name(), labels.join(",")))
        })
        .collect();
    lines.sort();
    lines
}

fn failing_after(failures: u32) -> BreakerConfig {
    BreakerConfig::builder().failure_threshold(failures).build().unwrap()
}

/// A request to a host that answers 503.
fn to(host: &str) -> Request<()> {
    Request::get(format!("http://{host}/")).body(()).unwrap()
}

fn unavailable(_: Request<()>) -> Ready<Result<EmptyResponse, Infallible>> {
    let mut response = Response::new(Empty::new());
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    ready(Ok(response))
}

#[test]
fn candidate_breakers_per_host_learn_from_the_calls_that_were_made() {
    let candidates = PerHost::builder(failing_after(2)).named("nervous").build().unwrap();
    let in_force = PerHost::builder(failing_after(4)).build().unwrap();
    let layer = CircuitBreakerLayer::new(in_force.clone()).shadow(candidates.clone());
    let mut client = layer.layer(service_fn(unavailable));
    let answers: Vec<bool> = (0..6).map(|_| call(&mut client, to("a.example")).is_ok()).collect();
    assert_eq!(answers, [true, true, true, true, false, false], "as the one in force says");
    assert_eq!(candidates.breaker("a.example:80").state(), State::Open);
    assert_eq!(candidates.breaker("b.example:80").state(), State::Closed);
    let mut report = ShadowReport::default();
    (report.only_by_candidate, report.by_both) = (2, 2);
    assert_eq!(layer.shadow_report(), report);
}

#[test]
fn candidate_with_a_pending_body_records_the_end_of_the_call() {
    let candidate = Single::builder(failing_after(1)).named("nervous").build();
    let layer = CircuitBreakerLayer::single(failing_after(9)).shadow(candidate.clone()).when_body_ends();
    let mut client = layer.layer(service_fn(unavailable));
    let response = call(&mut client, to("a.example")).unwrap();
    drop(response);
    assert_eq!(candidate.breaker().state(), State::Open);
}

/// A response that does not come until it is dropped.
fn pending(_: Request<()>) -> std::future::Pending<Result<EmptyResponse, Infallible>> {
    std::future::pending()
}

#[test]
fn candidate_limit_holds_a_slot_while_a_call_is_in_flight() {
    let candidate = Arc::new(Bulkhead::new(1));
    let layer = ConcurrencyLayer::bulkhead(2).shadow(Arc::clone(&candidate));
    let mut server = layer.layer(service_fn(pending));
    let mut calls: Vec<_> = (0..3).map(|_| Box::pin(server.call(from(1)))).collect();
    assert_eq!(candidate.in_flight(), 1);
    let polled = calls.iter_mut().map(|call| call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    assert_eq!(polled.collect::<Vec<_>>(), [false, false, true], "as the one in force says");
    let mut report = ShadowReport::default();
    (report.only_by_candidate, report.by_both) = (1, 1);
    assert_eq!(layer.shadow_report(), report);
    drop(calls);
    assert_eq!(candidate.in_flight(), 0);

    let client = ClientConcurrencyLayer::bulkhead(1).shadow(Arc::new(Bulkhead::new(2)));
    let mut service = client.layer(service_fn(pending));
    let _calls: Vec<_> = (0..3).map(|_| service.call(from(1))).collect();
    assert_eq!(client.shadow_report().only_in_force, 2, "a call that is refused in force holds no slot");
}

/// A candidate tries a limit where there is none yet.
#[test]
fn candidate_beside_an_absent_limit_holds_a_slot() {
    let candidate = Arc::new(Bulkhead::new(1));
    let layer = ConcurrencyLayer::new(None::<Arc<Bulkhead>>).shadow(Arc::clone(&candidate));
    let mut server = layer.layer(service_fn(pending));
    let calls: Vec<_> = (0..3).map(|_| server.call(from(1))).collect();
    assert_eq!(candidate.in_flight(), 1);
    assert_eq!(layer.shadow_report().only_by_candidate, 2);
    drop(calls);
    assert_eq!(candidate.in_flight(), 0);

    let layer = ConcurrencyLayer::new(None::<Arc<Bulkhead>>).shadow(Arc::clone(&candidate));
    let response = call(&mut layer.layer(service_fn(answer)), from(1)).unwrap();
    assert_eq!(candidate.in_flight(), 0, "the empty body has ended");
    drop(response);
}

#[test]
fn candidate_learns_of_the_same_calls() {
    let candidate = Arc::new(Admission::new(LimitBounds::DEFAULT));
    let layer = ConcurrencyLayer::admission(Admission::fixed(64)).shadow_admission(Arc::clone(&candidate));
    let mut server = layer.layer(service_fn(answer));
    for _ in 0..20 {
        drop(call(&mut server, from(1)).unwrap());
    }
    assert_eq!(candidate.in_flight(), 0);
    assert!(candidate.median_service_time().is_some(), "it has learned how long calls take");
    assert_eq!(layer.shadow_report(), ShadowReport::default());
}

#[tokio::test(start_paused = true)]
async fn candidate_gate_holds_a_slot_while_a_call_waits_in_force() {
    let (gate, candidate) = (Arc::new(Admission::fixed(1)), Arc::new(Admission::fixed(3)));
    let layer = ConcurrencyLayer::admission(Arc::clone(&gate)).shadow_admission(Arc::clone(&candidate));
    let service = service_fn(async |_: Request<()>| {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok::<_, Infallible>(EmptyResponse::new(Empty::new()))
    });
    let mut server = layer.layer(service);
    let calls: Vec<_> = (0..2).map(|_| tokio::spawn(server.call(from(1)))).collect();
    tokio::task::yield_now().await;
    assert_eq!((gate.in_flight(), gate.queued(), candidate.in_flight()), (1, 1, 2));
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    assert_eq!((gate.in_flight(), candidate.in_flight()), (0, 0));
    assert_eq!(layer.shadow_report(), ShadowReport::default());
}

#[test]
fn metrics_of_a_candidate_limit_are_recorded_on_demand() {
    let exported = exported_by(|| {
        let layer = ConcurrencyLayer::bulkhead(2).named("pool").shadow(Arc::new(Bulkhead::new(0)));
        call(&mut layer.layer(service_fn(answer)), from(1)).unwrap();
        Exporter::new().layer(layer).record();
    });
    let refusals = "damper_shadow_refusals_total{shadow=pool,side=server,by=candidate} 1";
    assert!(exported.iter().any(|line| line == refusals), "{exported:?}");
}

/// The layers for any request take limiters and breakers in shadow mode as they take others.
#[test]
fn layers_of_tower_take_candidates() {
    let limiter = |tokens| RateLimiter::with_clock(burst(tokens), ManualClock::new());
    let limiters = Arc::new(Shadowed::new(limiter(3), limiter(1)));
    let breaker = |failures| CircuitBreaker::with_clock(failing_after(failures), ManualClock::new());
    let breakers = Arc::new(Shadowed::new(breaker(3), breaker(1)));
    let failing = service_fn(|(): ()| ready(Err::<(), _>(std::fmt::Error)));
    let mut queries = tower::Layer::layer(&GateLayer::limit(Arc::clone(&limiters)), failing);
    let mut broken = tower::Layer::layer(&GateLayer::new(Arc::clone(&breakers)), failing);
    for _ in 0..4 {
        let mut context = Context::from_waker(Waker::noop());
        assert!(Service::<()>::poll_ready(&mut queries, &mut context).is_ready());
        assert!(Service::<()>::poll_ready(&mut broken, &mut context).is_ready());
        assert!(pin!(queries.call(())).poll(&mut context).is_ready());
        assert!(pin!(broken.call(())).poll(&mut context).is_ready());
    }
    let mut report = ShadowReport::default();
    (report.only_by_candidate, report.by_both) = (2, 1);
    assert_eq!(limiters.report(), report);
    // The open breaker in force refuses the fourth call before there is a request.
    report.by_both = 0;
    assert_eq!(breakers.report(), report);
}
