//! Candidates beside the limits of layers: no answer and no header depends on them.
#![cfg(all(feature = "metrics", feature = "tokio", feature = "tower", feature = "tracing"))]

mod models {
    pub(crate) mod tokio_clock;
}

use damper::http::{
    ByHeader, ByKey, Head, Headers, Limit, LimitByQuota, PeerAddress, PerClient, RateLimitLayer, ShadowCandidate,
};
use damper::shadow::ShadowReport;
use damper::{ClientAddress, KeyedLimiter, ManualClock, Quota, RateLimiter, SlidingLog};
use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::Empty;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use models::tokio_clock::TokioClock;
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
fn only_by_candidate<L: Limit + Clone>(
    alone: RateLimitLayer<L>,
    same: RateLimitLayer<L>,
    candidate: impl ShadowCandidate<L>,
) -> u64 {
    let shadowed = same.headers(Headers::OnAllResponsesWithX).shadow(candidate);
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
    assert_eq!(only_by_candidate(by_header(), by_header(), burst(3)), 2 * (8 - 3));
    let per_client = || RateLimitLayer::per_client(burst(8)).capacity(64).unwrap();
    assert_eq!(only_by_candidate(per_client(), per_client(), burst(3)), 2 * (8 - 3));
    let global = || RateLimitLayer::global(burst(8));
    assert_eq!(only_by_candidate(global(), global(), burst(3)), 8 - 3);

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
    assert_eq!(only_by_candidate(layer(), layer(), burst(9)), 0);
    assert_eq!(only_by_candidate(layer(), layer(), burst(3)), 10 - 6);
}

#[test]
fn any_limit_that_decides_at_once_can_be_the_candidate() {
    let clock = Arc::new(ManualClock::new());
    let log = RateLimiter::with_algorithm(SlidingLog::new(burst(1)).unwrap(), Arc::clone(&clock));
    let layer = || RateLimitLayer::new(Arc::new(RateLimiter::with_clock(burst(8), Arc::new(ManualClock::new()))));
    assert_eq!(only_by_candidate(layer(), layer(), log), 7);
    let keyed =
        |tokens| Arc::new(KeyedLimiter::<[u8]>::builder(burst(tokens)).clock(Arc::clone(&clock)).build().unwrap());
    let layer = || RateLimitLayer::new(ByHeader::new(KEY, keyed(8)));
    assert_eq!(only_by_candidate(layer(), layer(), ByHeader::new(KEY, keyed(3))), 10);
    assert_eq!(
        only_by_candidate(
            layer(),
            layer(),
            ByKey::new(|_: &Head<'_>| (), Arc::new(KeyedLimiter::builder(burst(3)).build().unwrap()))
        ),
        13
    );
}

#[test]
fn candidate_has_the_capacity_of_the_limit_in_force() {
    let limits = |capacity| {
        PerClient::new(Arc::new(KeyedLimiter::<ClientAddress>::builder(burst(8)).capacity(capacity).build().unwrap()))
    };
    for capacity in [1, 100, 100_000] {
        assert_eq!(limits(capacity).of_quota(burst(3)).keyed()[0].capacity, capacity);
    }
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
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        // The one in force allows 3 of 6, the candidate 1 of each client.
        let layer = RateLimitLayer::global(burst(3)).named("api").unwrap();
        let each = PerClient::new(Arc::new(KeyedLimiter::builder(burst(1)).build().unwrap()));
        let mut service = layer.shadow(each).layer(service_fn(answer));
        for client in [1, 1, 1, 1, 1, 2] {
            call(&mut service, from(client)).unwrap();
        }
    });
    let mut counts: Vec<_> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .filter_map(|(key, _, _, value)| {
            let labels: Vec<_> = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            match value {
                DebugValue::Counter(0) => None,
                value => Some(format!("{}{{{}}} {value:?}", key.key().name(), labels.join(","))),
            }
        })
        .collect();
    counts.sort();
    assert_eq!(
        counts,
        [
            "damper_allowed_total{limit=api} Counter(3)",
            "damper_refused_total{limit=api} Counter(3)",
            "damper_shadow_allowed_total{limit=api,in_force=refused} Counter(1)",
            "damper_shadow_refused_total{limit=api,in_force=allowed} Counter(2)",
            "damper_shadow_refused_total{limit=api,in_force=refused} Counter(2)",
        ]
    );
}
