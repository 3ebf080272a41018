//! Hedges before HTTP clients: on tokio's paused time, and over real sockets.

use crate::tokio_clock::TokioClock;
use damper::breaker::State;
use damper::http::{CircuitBreakerLayer, HedgeLayer, Hosts, Idempotent, ReplayableBody, ResponseHead, RetryLayer};
use damper::retry::{Budget, Failure, GaveUp, Hedge, HedgeConfig, Jitter, RetryBudgetConfig};
use damper::{Backoff, BreakerConfig, CircuitBreaker, Deadline, Quota, RateLimiter, Retry};
use http::{HeaderName, Method, Request, Response, StatusCode};
use std::future::{pending, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tower::{Service, ServiceExt};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn clock() -> TokioClock {
    TokioClock(Instant::now())
}

fn hedge(config: HedgeConfig) -> Hedge<TokioClock> {
    Hedge::with_clock(config, clock())
}

/// A second attempt after 10 ms.
fn fixed(attempts: u32) -> Hedge<TokioClock> {
    hedge(HedgeConfig::builder().fixed_delay(10 * MILLISECOND).max_attempts(attempts).build().unwrap())
}

/// A value that is counted while it exists, such as an attempt in flight.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(alive))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// When a server responds: after this time, or never.
type Script = (Option<Duration>, io::Result<Response<()>>);

/// A server that follows a script: the response to each call by its number, starting at 1.
struct Server {
    script: Arc<dyn Fn(usize) -> Script + Send + Sync>,
    calls: Arc<AtomicUsize>,
    in_flight: Arc<AtomicUsize>,
    clones: Arc<AtomicUsize>,
    is_ready: bool,
}

impl Server {
    fn new(script: impl Fn(usize) -> Script + Send + Sync + 'static) -> Self {
        let (calls, in_flight, clones) = (Arc::default(), Arc::default(), Arc::default());
        Self { script: Arc::new(script), calls, in_flight, clones, is_ready: false }
    }

    /// Responds to each call after its time, or never for `None`. The last time repeats.
    fn after<const N: usize>(times: [Option<Duration>; N]) -> Self {
        Self::new(move |number| (times[(number - 1).min(N - 1)], Ok(response(200))))
    }

    /// The same server, ready for a call.
    fn ready(self) -> Self {
        Self { is_ready: true, ..self }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }
}

/// Clones are not ready.
impl Clone for Server {
    fn clone(&self) -> Self {
        self.clones.fetch_add(1, Ordering::Relaxed);
        let Self { script, calls, in_flight, clones, .. } = self;
        let (calls, in_flight, clones) = (Arc::clone(calls), Arc::clone(in_flight), Arc::clone(clones));
        Self { script: Arc::clone(script), calls, in_flight, clones, is_ready: false }
    }
}

impl<Q> Service<Request<Q>> for Server {
    type Response = Response<()>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Response<()>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "the service was called before it was ready");
        assert!(request.headers().contains_key("x-test"), "each attempt has the whole request");
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let ((after, outcome), in_flight) = ((self.script)(number), Alive::new(&self.in_flight));
        Box::pin(async move {
            let _in_flight = in_flight;
            match after {
                Some(after) => sleep(after).await,
                None => pending().await,
            }
            outcome
        })
    }
}

fn response(status: u16) -> Response<()> {
    Response::builder().status(status).body(()).unwrap()
}

fn request(method: Method) -> Request<&'static str> {
    Request::builder().method(method).header("x-test", "kept").body("data").unwrap()
}

fn get() -> Request<&'static str> {
    request(Method::GET)
}

/// Makes a call, and returns its status and how long it took.
async fn timed<S, Q, R>(client: S, request: Request<Q>) -> (u16, u128)
where
    S: Service<Request<Q>, Response = Response<R>, Error: std::fmt::Debug>,
{
    let began = Instant::now();
    let response = client.oneshot(request).await.unwrap();
    (response.status().as_u16(), began.elapsed().as_millis())
}

/// Makes a call of this service itself, without a clone.
async fn made<S, Q>(client: &mut S, request: Request<Q>)
where
    S: Service<Request<Q>, Error: std::fmt::Debug>,
{
    client.ready().await.unwrap().call(request).await.unwrap();
}

/// Each call takes 10 ms, one in a hundred a second, all times `slower`.
fn bimodal(seed: usize, slower: &Arc<AtomicUsize>) -> Server {
    let slower = Arc::clone(slower);
    Server::new(move |number| {
        // SplitMix64's finalizer.
        let mut bits = ((number + seed * 1_000_003) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let latency = if (bits >> 33).is_multiple_of(100) { SECOND } else { 10 * MILLISECOND };
        (Some(latency * slower.load(Ordering::Relaxed) as u32), Ok(response(200)))
    })
}

/// Returns the latency that one call in a thousand exceeds.
fn p999(mut latencies: Vec<u128>) -> u128 {
    latencies.sort_unstable();
    latencies[latencies.len() * 999 / 1_000]
}

/// Checks extra requests over intervals of calls.
///
/// In every interval there are at most 2 % of its calls, plus 10.
#[derive(Default)]
struct ExtraRequests {
    calls: usize,
    /// The least of `100 · extra requests - 2 · calls` so far.
    least: i64,
}

impl ExtraRequests {
    fn check(&mut self, requests: usize) {
        self.calls += 1;
        let (calls, extra) = (self.calls as i64, (requests - self.calls) as i64);
        // An interval includes the call at its end.
        let height = 100 * extra - 2 * calls;
        assert!(height - self.least <= 10 * 100, "more than 2 % and 10 in an interval up to call {calls}");
        self.least = self.least.min(height);
    }
}

/// Hedges cut p99.9 by at least nine tenths.
///
/// Then everything takes 50 times as long, and the extra requests stay within their bound.
#[tokio::test(start_paused = true)]
async fn hedging_cuts_the_tail_and_adds_little_when_everything_slows() {
    for seed in 1..=3 {
        let slower = Arc::new(AtomicUsize::new(1));
        let server = bimodal(seed, &slower);
        let client = HedgeLayer::new(hedge(HedgeConfig::DEFAULT)).layer(server.clone());
        let mut extra = ExtraRequests::default();
        let mut latencies = Vec::new();
        for call in 0..20_000 {
            let (_, millis) = timed(client.clone(), get()).await;
            extra.check(server.calls());
            // The first calls teach the hedge which latency is slow.
            if call >= 2_000 {
                latencies.push(millis);
            }
        }
        let p999 = p999(latencies);
        assert!(p999 <= 100, "p99.9 is {p999} ms, and 1 s without hedges");
        assert!(server.calls() - 20_000 >= 100, "most of the 1 % of slow calls are hedged");
        slower.store(50, Ordering::Relaxed);
        for _ in 0..2_000 {
            timed(client.clone(), get()).await;
            extra.check(server.calls());
        }
        assert_eq!(server.in_flight(), 0);
    }
}

/// A loser's connection or permit is free when the caller gets the response.
///
/// The caller need not drop the future first.
#[tokio::test(start_paused = true)]
async fn first_response_wins_and_drops_the_others() {
    let server = Server::after([None, None, Some(5 * MILLISECOND)]);
    let (began, mut client) = (Instant::now(), HedgeLayer::new(fixed(3)).layer(server.clone().ready()));
    let mut call = Box::pin(client.call(get()));
    let response = tokio::time::timeout(SECOND, call.as_mut()).await.expect("the third attempt answers");
    assert_eq!(response.unwrap().status(), StatusCode::OK);
    assert_eq!((began.elapsed(), server.calls(), server.in_flight()), (25 * MILLISECOND, 3, 0));
    drop(call);
}

/// A refusal of the first attempt is such a failure, even with a hedge in flight.
#[tokio::test(start_paused = true)]
async fn fatal_failure_of_the_first_attempt_ends_the_call() {
    let server = Server::new(|number| {
        let limiter = RateLimiter::with_clock(Quota::per_hour(0), damper::ManualClock::new());
        let refused = Err(io::Error::other(limiter.check().unwrap_err()));
        if number == 1 { (Some(20 * MILLISECOND), refused) } else { (None, Ok(response(200))) }
    });
    let began = Instant::now();
    let call = HedgeLayer::new(fixed(2)).layer(server.clone()).oneshot(get());
    tokio::time::timeout(SECOND, call).await.expect("the call does not wait for the hedge").unwrap_err();
    assert_eq!((began.elapsed(), server.calls(), server.in_flight()), (20 * MILLISECOND, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn fast_call_is_made_once() {
    let server = Server::after([Some(9 * MILLISECOND)]);
    let client = HedgeLayer::new(fixed(5)).layer(server.clone());
    assert_eq!(timed(client, get()).await, (200, 9));
    sleep(SECOND).await;
    assert_eq!(server.calls(), 1);
}

/// A body that can be sent once.
struct Stream;

impl ReplayableBody for Stream {
    fn try_clone(&self) -> Option<Self> {
        None
    }
}

/// The service is not cloned for them, and the hedge does not count them.
#[tokio::test(start_paused = true)]
async fn requests_that_cannot_be_sent_twice_pass_uncounted() {
    let server = Server::after([Some(50 * MILLISECOND)]);
    let hedge = Arc::new(hedge(HedgeConfig::builder().max_attempts(5).build().unwrap()));
    let mut client = HedgeLayer::new(Arc::clone(&hedge)).layer(server.clone());
    let clones = server.clones.load(Ordering::Relaxed);
    for _ in 0..150 {
        made(&mut client, request(Method::POST)).await;
        made(&mut client, get().map(|_| Stream)).await;
    }
    assert_eq!((server.calls(), server.clones.load(Ordering::Relaxed)), (300, clones));
    sleep(SECOND).await;
    assert_eq!(hedge.delay(), None, "300 counted calls would give a delay");

    let server = Server::after([None, Some(MILLISECOND)]);
    let mut marked = request(Method::POST);
    marked.extensions_mut().insert(Idempotent);
    assert_eq!(timed(HedgeLayer::new(fixed(2)).layer(server.clone()), marked).await, (200, 11));
}

#[tokio::test(start_paused = true)]
async fn transient_failure_starts_the_next_attempt_at_once() {
    let server = Server::new(|number| {
        let response = if number < 3 { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(response(200)) };
        (Some(MILLISECOND), response)
    });
    assert_eq!(timed(HedgeLayer::new(fixed(3)).layer(server.clone()), get()).await, (200, 3));
}

/// The call returns its last failure. A wait that the server asks for is left to the retry.
#[tokio::test(start_paused = true)]
async fn failures_reach_the_caller_unchanged() {
    for (status, retry_after, calls) in
        [(503, None, 2), (503, Some("1"), 1), (429, None, 1), (500, None, 1), (404, None, 1)]
    {
        let server = Server::new(move |number| {
            let mut response = Response::builder().status(status).header("number", number);
            if let Some(wait) = retry_after {
                response = response.header("retry-after", wait);
            }
            (Some(MILLISECOND), Ok(response.body(()).unwrap()))
        });
        let response = HedgeLayer::new(fixed(2)).layer(server.clone()).oneshot(get()).await.unwrap();
        assert_eq!((response.status().as_u16(), server.calls()), (status, calls), "{status} {retry_after:?}");
        assert_eq!(response.headers()["number"], calls.to_string());
    }
}

/// A body is dropped while another attempt is in flight, to free its connection.
#[tokio::test(start_paused = true)]
async fn response_without_its_body_states_no_length() {
    let server = Server::new(|number| match number {
        1 => {
            let failed = Response::builder().status(503).header("number", number).header("content-length", 4);
            let encoded = failed.header("transfer-encoding", "chunked").header("content-encoding", "gzip");
            (Some(15 * MILLISECOND), Ok(encoded.body(()).unwrap()))
        }
        _ => (Some(10 * MILLISECOND), Err(io::ErrorKind::ConnectionReset.into())),
    });
    let response = HedgeLayer::new(fixed(2)).layer(server.clone()).oneshot(get()).await.unwrap();
    assert_eq!((response.status().as_u16(), server.calls()), (503, 2), "an error does not replace a response");
    let names: Vec<_> = response.headers().keys().map(HeaderName::as_str).collect();
    assert_eq!(names, ["number"]);
}

/// The setters may come in any order.
#[tokio::test(start_paused = true)]
async fn hedge_inside_of_retries_repeats_no_failure_whatever_is_set_later() {
    let server = Server::new(|_| (Some(MILLISECOND), Ok(response(503))));
    let layer = HedgeLayer::new(fixed(2)).inside_of_retries();
    let budgets = Hosts::budgets(RetryBudgetConfig::DEFAULT);
    assert_eq!(timed(layer.clone().budgets(budgets).layer(server.clone()), get()).await.0, 503);
    assert_eq!(server.calls(), 1);
    let layer = layer.when(|response: Result<&ResponseHead<'_>, &io::Error>| {
        response.is_ok_and(|head| head.status == StatusCode::SERVICE_UNAVAILABLE).then_some(Failure::TRANSIENT)
    });
    assert_eq!(timed(layer.layer(server.clone()), get()).await.0, 503);
    assert_eq!(server.calls(), 2);
}

/// A body whose copies are counted.
struct Counted(Alive);

impl ReplayableBody for Counted {
    fn try_clone(&self) -> Option<Self> {
        Some(Self(Alive::new(&self.0.0)))
    }
}

#[tokio::test(start_paused = true)]
async fn body_is_kept_no_longer_than_until_the_response() {
    let bodies = Arc::default();
    let server = Server::after([Some(MILLISECOND)]).ready();
    let request = get().map(|_| Counted(Alive::new(&bodies)));
    let mut call = Box::pin(HedgeLayer::new(fixed(2)).layer(server).call(request));
    assert_eq!(bodies.load(Ordering::Relaxed), 1, "the server has read the other copy");
    call.as_mut().await.unwrap();
    assert_eq!(bodies.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn closure_chooses_failures_that_do_not_end_the_call() {
    let server = Server::new(|number| (Some(MILLISECOND), Ok(response(if number == 1 { 409 } else { 200 }))));
    let layer = HedgeLayer::new(fixed(2)).when(|response: Result<&ResponseHead<'_>, &io::Error>| {
        response.is_ok_and(|head| head.status == StatusCode::CONFLICT).then_some(Failure::TRANSIENT)
    });
    assert_eq!(timed(layer.layer(server.clone()), get()).await, (200, 2));
}

#[tokio::test(start_paused = true)]
async fn dropped_call_drops_all_attempts_and_makes_no_other() {
    let server = Server::after([None]);
    let call = HedgeLayer::new(fixed(3)).layer(server.clone()).oneshot(get());
    assert!(tokio::time::timeout(15 * MILLISECOND, call).await.is_err());
    assert_eq!((server.calls(), server.in_flight()), (2, 0));
    sleep(SECOND).await;
    assert_eq!(server.calls(), 2);
}

/// The time until a caller gives up counts as a latency.
#[tokio::test(start_paused = true)]
async fn dropped_calls_count_as_slow() {
    let hedge = Arc::new(hedge(HedgeConfig::DEFAULT));
    let server = Server::new(|number| (Some(if number <= 300 { 10 * MILLISECOND } else { SECOND }), Ok(response(200))));
    let client = HedgeLayer::new(Arc::clone(&hedge)).layer(server);
    for _ in 0..300 {
        timed(client.clone(), get()).await;
    }
    for _ in 0..30 {
        assert!(tokio::time::timeout(200 * MILLISECOND, timed(client.clone(), get())).await.is_err());
    }
    sleep(250 * MILLISECOND).await;
    assert!(hedge.delay().expect("330 calls") >= 200 * MILLISECOND);
}

/// An inner service, such as a local limit, refuses the second call.
#[tokio::test(start_paused = true)]
async fn refused_hedge_leaves_the_first_attempt_alone() {
    let limit = Arc::new(RateLimiter::with_clock(Quota::per_hour(1), clock()));
    let server = Server::after([Some(50 * MILLISECOND)]);
    let upstream = server.clone();
    let service = tower::service_fn(move |request: Request<&'static str>| {
        let (upstream, permitted) = (upstream.clone(), limit.check());
        async move {
            permitted.map_err(io::Error::other)?;
            upstream.oneshot(request).await
        }
    });
    assert_eq!(timed(HedgeLayer::new(fixed(5)).layer(service), get()).await, (200, 50));
    assert_eq!(server.calls(), 1);
}

/// A service that is ready itself, and whose clones become ready as the function says.
struct Unready(Server, fn() -> Poll<io::Result<()>>, bool);

impl Clone for Unready {
    fn clone(&self) -> Self {
        Self(self.0.clone(), self.1, true)
    }
}

impl Service<Request<&'static str>> for Unready {
    type Response = Response<()>;
    type Error = io::Error;
    type Future = <Server as Service<Request<()>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.2 { (self.1)() } else { Service::<Request<()>>::poll_ready(&mut self.0, context) }
    }

    fn call(&mut self, request: Request<&'static str>) -> Self::Future {
        self.0.call(request)
    }
}

#[tokio::test(start_paused = true)]
async fn service_that_is_not_ready_for_a_hedge_leaves_the_first_attempt_alone() {
    let failed = || Poll::Ready(Err(io::Error::other("closed")));
    for readiness in [failed as fn() -> _, || Poll::Pending] {
        let server = Server::after([Some(50 * MILLISECOND)]);
        let mut client = HedgeLayer::new(fixed(2)).layer(Unready(server.clone(), readiness, false));
        let began = Instant::now();
        client.ready().await.unwrap().call(get()).await.unwrap();
        assert_eq!((server.calls(), began.elapsed()), (1, 50 * MILLISECOND));
    }
}

/// Allows this many retries, and counts the calls.
struct Allowance {
    left: AtomicUsize,
    calls: AtomicUsize,
}

impl Budget for Allowance {
    fn began(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    fn try_withdraw(&self) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

/// Three attempts, 100 and 200 ms apart.
fn retry(clock: TokioClock) -> Retry<TokioClock> {
    Retry::with_clock(3, clock, 1).backoff(Backoff::DEFAULT.jitter(Jitter::None))
}

/// Two hedges and a retry use up a budget of three. The call counts once.
#[tokio::test(start_paused = true)]
async fn retries_and_hedges_share_a_budget() {
    let budget = Arc::new(Allowance { left: 3.into(), calls: 0.into() });
    let server = Server::new(|_| (Some(MILLISECOND), Ok(response(503))));
    let client = tower::ServiceBuilder::new()
        .layer(RetryLayer::new(retry(clock()).budget(Arc::clone(&budget))))
        .layer(HedgeLayer::new(fixed(2).budget(Arc::clone(&budget))))
        .service(server.clone());
    assert_eq!(timed(client, get()).await, (503, 104));
    assert_eq!((server.calls(), budget.calls.load(Ordering::Relaxed)), (4, 1));
}

/// Two hedges and a retry use up one host's reserve of three. The other host keeps its own.
#[tokio::test(start_paused = true)]
async fn retries_and_hedges_of_a_host_share_its_budget() {
    let config = RetryBudgetConfig::builder().reserve(3).floor(0).ratio(0.0).build().unwrap();
    let budgets = Hosts::budgets(config);
    let server = Server::new(|_| (Some(MILLISECOND), Ok(response(503))));
    let client = tower::ServiceBuilder::new()
        .layer(RetryLayer::new(retry(clock())).budgets(budgets.clone()))
        .layer(HedgeLayer::new(fixed(2)).budgets(budgets))
        .service(server.clone());
    for (host, calls) in [("http://a/", 4), ("http://a/", 5), ("http://b/", 9)] {
        let mut request = get();
        *request.uri_mut() = host.parse().unwrap();
        assert_eq!(timed(client.clone(), request).await.0, 503);
        assert_eq!(server.calls(), calls, "after {host}");
    }
}

/// The request's only deadline ends the call and both attempts.
#[tokio::test(start_paused = true)]
async fn deadline_of_the_outer_retry_ends_all_attempts() {
    let clock = clock();
    let server = Server::after([None]);
    let client = tower::ServiceBuilder::new()
        .layer(RetryLayer::new(retry(clock)))
        .layer(HedgeLayer::new(fixed(2)))
        .service(server.clone());
    let mut request = get();
    request.extensions_mut().insert(Deadline::with_clock(250 * MILLISECOND, clock));
    let error = client.oneshot(request).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::Deadline { hint: None }, 1));
    assert_eq!((server.calls(), server.in_flight(), clock.0.elapsed()), (2, 0, 250 * MILLISECOND));
}

#[tokio::test(start_paused = true)]
async fn no_hedge_begins_after_the_deadline() {
    let clock = clock();
    let server = Server::after([Some(50 * MILLISECOND)]);
    let mut request = get();
    request.extensions_mut().insert(Deadline::with_clock(5 * MILLISECOND, clock));
    assert_eq!(timed(HedgeLayer::new(fixed(5)).layer(server.clone()), request).await, (200, 50));
    assert_eq!(server.calls(), 1);
}

/// The inner breaker trips on the first failure.
#[tokio::test(start_paused = true)]
async fn breakers_see_no_failure_in_a_loser() {
    let config = BreakerConfig::builder().failure_threshold(1).build().unwrap();
    let [outside, inside] = [(); 2].map(|()| Arc::new(CircuitBreaker::with_clock(config, clock())));
    let server = Server::new(|number| (Some(if number % 2 == 1 { SECOND } else { MILLISECOND }), Ok(response(200))));
    let client = tower::ServiceBuilder::new()
        .layer(CircuitBreakerLayer::new(Arc::clone(&outside)))
        .layer(HedgeLayer::new(fixed(2)))
        .layer(CircuitBreakerLayer::new(Arc::clone(&inside)))
        .service(server.clone());
    for _ in 0..10 {
        assert_eq!(timed(client.clone(), get()).await, (200, 11));
    }
    assert_eq!(server.calls(), 20);
    assert_eq!((outside.state(), inside.state()), (State::Closed, State::Closed));
}

/// Two failed attempts are one failure outside and two inside.
#[tokio::test(start_paused = true)]
async fn breaker_outside_counts_one_call() {
    let config = BreakerConfig::builder().failure_threshold(4).build().unwrap();
    let outside = Arc::new(CircuitBreaker::with_clock(config, clock()));
    let server = Server::new(|_| (Some(MILLISECOND), Ok(response(503))));
    let client = tower::ServiceBuilder::new()
        .layer(CircuitBreakerLayer::new(Arc::clone(&outside)))
        .layer(HedgeLayer::new(fixed(2)))
        .service(server.clone());
    for calls in 1..=4 {
        assert_eq!(outside.status().consecutive_failures(), calls - 1);
        assert_eq!(timed(client.clone(), get()).await.0, 503);
    }
    assert_eq!(server.calls(), 8);
    assert_eq!(outside.state(), State::Open);
}

/// One hedge's histogram holds the latencies of two services.
#[tokio::test(start_paused = true)]
async fn layers_share_a_hedge() {
    let hedge = Arc::new(hedge(HedgeConfig::DEFAULT));
    for _ in 0..2 {
        let client = HedgeLayer::new(Arc::clone(&hedge)).layer(Server::after([Some(10 * MILLISECOND)]));
        for _ in 0..100 {
            timed(client.clone(), get()).await;
        }
    }
    sleep(SECOND).await;
    let delay = hedge.delay().expect("200 calls");
    assert!((10 * MILLISECOND..=11 * MILLISECOND).contains(&delay), "{delay:?}");
}

/// The futures of all layers behave like this.
#[tokio::test(start_paused = true)]
async fn future_that_was_ready_stays_pending() {
    let server = Server::after([Some(MILLISECOND)]);
    let mut call = Box::pin(HedgeLayer::new(fixed(2)).layer(server.ready()).call(get()));
    call.as_mut().await.unwrap();
    sleep(SECOND).await;
    assert!(poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending())).await);
}

mod hyper_services {
    use super::*;
    use bytes::Bytes;
    use http_body_util::Full;
    use hyper::service::{Service, service_fn};

    #[tokio::test(start_paused = true)]
    async fn calls_of_hyper_services_are_hedged() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let server = service_fn(move |_: Request<Full<Bytes>>| {
            let is_first = counted.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                if is_first {
                    pending::<()>().await;
                }
                Ok::<_, io::Error>(Response::new(Full::<Bytes>::default()))
            }
        });
        let client = HedgeLayer::new(fixed(2)).layer(Arc::new(server));
        let began = Instant::now();
        assert_eq!(client.call(Request::default()).await.unwrap().status(), StatusCode::OK);
        assert_eq!((calls.load(Ordering::Relaxed), began.elapsed()), (2, 10 * MILLISECOND));
        let mut posted = Request::<Full<Bytes>>::default();
        *posted.method_mut() = Method::POST;
        client.call(posted).await.unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 3);
    }
}

mod sockets {
    use super::*;
    use crate::support::serve;
    use bytes::Bytes;
    use http_body_util::{BodyExt, Empty, Full};
    use hyper::body::Incoming;
    use hyper_util::client::legacy::Client;
    use hyper_util::client::legacy::connect::HttpConnector;
    use hyper_util::rt::TokioExecutor;
    use std::convert::Infallible;
    use std::net::SocketAddr;
    use tokio::task::JoinSet;

    fn client() -> Client<HttpConnector, Empty<Bytes>> {
        Client::builder(TokioExecutor::new()).build_http()
    }

    /// An upstream that responds to each request, by its number, after some time.
    async fn upstream(
        after: impl Fn(usize) -> Duration + Clone + Send + 'static,
    ) -> (SocketAddr, Arc<AtomicUsize>, Arc<AtomicUsize>) {
        let (hits, in_flight) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let (hits_of_server, in_flight_of_server) = (Arc::clone(&hits), Arc::clone(&in_flight));
        let address = serve(move |_| {
            let (hits, in_flight) = (Arc::clone(&hits_of_server), Arc::clone(&in_flight_of_server));
            let after = after.clone();
            hyper::service::service_fn(move |_: Request<Incoming>| {
                let latency = after(hits.fetch_add(1, Ordering::Relaxed) + 1);
                let in_flight = Alive::new(&in_flight);
                async move {
                    let _in_flight = in_flight;
                    sleep(latency).await;
                    Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("upstream")))
                }
            })
        })
        .await;
        (address, hits, in_flight)
    }

    fn get(address: SocketAddr) -> Request<Empty<Bytes>> {
        Request::get(format!("http://{address}/")).body(Empty::new()).unwrap()
    }

    /// One request in a hundred takes a second. The upstream counts extra requests on arrival.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn upstream_gets_few_extra_requests() {
        const CALLERS: usize = 20;
        const CALLS: usize = 150;
        let (address, hits, _) = upstream(|number| if number % 100 == 50 { SECOND } else { 5 * MILLISECOND }).await;
        let hedge = Arc::new(Hedge::new(HedgeConfig::DEFAULT));
        let client = HedgeLayer::new(Arc::clone(&hedge)).layer(client());
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let mut client = client.clone();
            callers.spawn(async move {
                for _ in 0..CALLS {
                    let response = client.ready().await.unwrap().call(get(address)).await.unwrap();
                    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "upstream");
                }
            });
        }
        callers.join_all().await;
        let (calls, extra) = (CALLERS * CALLS, hits.load(Ordering::Relaxed) - CALLERS * CALLS);
        assert!(extra * 100 <= calls * 2 + 10 * 100, "{extra} extra requests in {calls} calls");
        assert!(extra > 0 && hedge.delay().is_some(), "some calls are hedged");
    }

    /// The upstream sees the loser's connection close, and stops its work.
    #[tokio::test]
    async fn connection_of_a_loser_is_freed() {
        let (address, hits, in_flight) =
            upstream(|number| if number == 1 { 3_600 * SECOND } else { Duration::ZERO }).await;
        let hedge = Hedge::new(HedgeConfig::builder().fixed_delay(20 * MILLISECOND).build().unwrap());
        let response = HedgeLayer::new(hedge).layer(client()).oneshot(get(address)).await.unwrap();
        assert_eq!((response.status(), hits.load(Ordering::Relaxed)), (StatusCode::OK, 2));
        let freed = async {
            while in_flight.load(Ordering::Relaxed) > 0 {
                sleep(MILLISECOND).await;
            }
        };
        tokio::time::timeout(10 * SECOND, freed).await.expect("the loser's connection closes");
    }
}
