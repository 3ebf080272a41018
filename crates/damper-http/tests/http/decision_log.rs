//! Decisions of layers in a log.

use damper::decision_log::{Decision, DecisionLog};
use damper::http::{ByHeader, ByKey, Head, Headers, Limit, NoWait, PeerAddress, PerClient, RateLimitLayer};
use damper::{ClientAddress, KeyedLimiter, ManualClock, Quota, RateLimiter};
use http::{HeaderName, Request, Response};
use http_body_util::Empty;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tower::{Service, service_fn};

type EmptyResponse = Response<Empty<bytes::Bytes>>;

type Log = Arc<DecisionLog<ManualClock>>;

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

fn from(client: u8, path: &str) -> Request<()> {
    let mut request = Request::get(path).header(KEY, client.to_string()).body(()).unwrap();
    request.extensions_mut().insert(PeerAddress(([192, 0, 2, client], 5_000).into()));
    request
}

fn log() -> Log {
    Arc::new(DecisionLog::with_clock(64, ManualClock::new()))
}

/// A quota of so many requests in an hour, of which none come back within a test.
fn burst(tokens: u32) -> Quota {
    Quota::per_hour(1).burst(tokens)
}

/// Sends four requests of one client and two of another, and returns the logged decisions.
///
/// Asserts that the answers and headers are those of the layer without the log, and are the logged ones.
fn decisions<L: Limit<Future = NoWait> + Clone, M: Limit<Future = NoWait> + Clone>(
    alone: RateLimitLayer<L>,
    logged: RateLimitLayer<M>,
    log: &Log,
) -> Vec<Decision> {
    let (alone, logged) = (alone.headers(Headers::OnAllResponses), logged.headers(Headers::OnAllResponses));
    let is_exempt = |head: &Head<'_>| head.uri.path() == "/healthz";
    let mut logged = logged.exempt(is_exempt).layer(service_fn(answer));
    let mut alone = alone.layer(service_fn(answer));
    let mut statuses = Vec::new();
    for client in [1, 2, 1, 1, 2, 1] {
        let (one, other) =
            (call(&mut alone, from(client, "/")).unwrap(), call(&mut logged, from(client, "/")).unwrap());
        assert_eq!((one.status(), one.headers()), (other.status(), other.headers()));
        statuses.push(other.status().is_success());
    }
    call(&mut logged, from(1, "/healthz")).unwrap();
    let decisions: Vec<Decision> = log.reader().collect();
    let answers = decisions.iter().map(|decision| decision.is_allowed);
    assert_eq!(answers.collect::<Vec<_>>(), statuses);
    assert!(decisions.iter().all(|decision| decision.cost == 1));
    decisions
}

fn keys_by_client(decisions: &[Decision]) {
    let keys: Vec<u64> = decisions.iter().map(|decision| decision.key).collect();
    let [a, b, ..] = keys[..] else { panic!("six decisions") };
    assert!(a != b && keys == [a, b, a, a, b, a], "{keys:?}");
}

#[test]
fn each_form_of_the_layer_logs_its_decisions() {
    let log_of_clients = log();
    let per_client = || RateLimitLayer::per_client(burst(2));
    keys_by_client(&decisions(per_client(), per_client().decision_log(Arc::clone(&log_of_clients)), &log_of_clients));

    let log_of_header = log();
    let by_header = || RateLimitLayer::by_header(KEY, burst(2));
    keys_by_client(&decisions(by_header(), by_header().decision_log(Arc::clone(&log_of_header)), &log_of_header));

    let log_of_key = log();
    let key = |head: &Head<'_>| head.headers.get(KEY).cloned();
    let by_key = || ByKey::new(key, Arc::new(KeyedLimiter::builder(burst(2)).build().unwrap()));
    let logged = RateLimitLayer::new(by_key()).decision_log(Arc::clone(&log_of_key));
    keys_by_client(&decisions(RateLimitLayer::new(by_key()), logged, &log_of_key));

    let log_of_all = log();
    let global = || RateLimitLayer::global(burst(3));
    let decisions = decisions(global(), global().decision_log(Arc::clone(&log_of_all)), &log_of_all);
    assert!(decisions.iter().all(|decision| decision.key == 0));
}

/// A request that a prefix refuses is logged as refused, by the key of its client.
#[test]
fn refusal_by_a_prefix_is_logged() {
    let log = log();
    let layer = || RateLimitLayer::per_client(burst(9)).prefix_v4(24, burst(4));
    keys_by_client(&decisions(layer(), layer().decision_log(Arc::clone(&log)), &log));
    assert_eq!(log.written(), 6);
}

#[test]
fn candidate_stays_beside_a_limit_that_logs() {
    let log = log();
    let layer = RateLimitLayer::global(burst(3)).shadow(burst(1)).decision_log(Arc::clone(&log));
    let mut service = layer.layer(service_fn(answer));
    for _ in 0..3 {
        call(&mut service, from(1, "/")).unwrap();
    }
    assert_eq!(layer.shadow_report().unwrap().only_by_candidate, 2);
    assert_eq!(log.written(), 3);
}

/// Limiters of another clock and with another hasher than those that layers build.
#[test]
fn limiters_of_the_caller_can_be_logged() {
    static LOG: DecisionLog = DecisionLog::new(8);
    let clock = Arc::new(ManualClock::new());
    let limiter = Arc::new(RateLimiter::with_clock(burst(3), Arc::clone(&clock)));
    let clients = KeyedLimiter::<ClientAddress>::builder(burst(3)).clock(Arc::clone(&clock)).build().unwrap();
    let values = KeyedLimiter::<[u8]>::builder(burst(3)).clock(clock).build().unwrap();
    let request = || from(1, "/");
    call(&mut RateLimitLayer::new(limiter).decision_log(&LOG).layer(service_fn(answer)), request()).unwrap();
    let clients = RateLimitLayer::new(PerClient::new(Arc::new(clients))).decision_log(&LOG);
    call(&mut clients.layer(service_fn(answer)), request()).unwrap();
    let values = RateLimitLayer::new(ByHeader::new(KEY, Arc::new(values))).decision_log(&LOG);
    call(&mut values.layer(service_fn(answer)), request()).unwrap();
    assert_eq!(LOG.written(), 3);
}
