//! The Mesh client: it slows down before the limit and backs off after a refusal.
//!
//! It honours deadlines and its budget.

use crate::support::{SharedClock, Timer, http, look_again, serve, serve_mesh};
use bytes::Bytes;
use damper::limit::FixedWindow;
use damper::mesh::{
    Client, ClientBuilder, ClientError, IncomingCall, MeshBackoff, MeshDuration, MeshError, Request, Response, Scopes,
    SpecifiedDeadline,
};
use damper::retry::{Budget, Failure, RetryBudgetConfig, Unlimited};
use damper::time::Sleep;
use damper::{Deadline, ManualClock, Quota, Retry, RetryBudget, is_refusal};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::connect::HttpConnector;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::error::Error;
use std::future::{Ready, ready};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tower::service_fn;

type Http = hyper_util::client::legacy::Client<HttpConnector, Full<Bytes>>;

/// Moves the clock instead of waiting, and records the waits.
#[derive(Clone)]
struct Skip {
    clock: SharedClock,
    waits: Arc<Mutex<Vec<Duration>>>,
}

impl Skip {
    fn new() -> Self {
        Self { clock: Arc::new(ManualClock::new()), waits: Arc::default() }
    }

    /// Returns the waits since the previous call.
    fn take(&self) -> Vec<Duration> {
        std::mem::take(&mut *self.waits.lock().unwrap())
    }
}

impl Sleep for Skip {
    type Sleeping = Ready<()>;

    fn sleep(&self, duration: Duration) -> Ready<()> {
        self.waits.lock().unwrap().push(duration);
        self.clock.advance(duration);
        ready(())
    }
}

fn builder(address: SocketAddr, skip: &Skip) -> ClientBuilder<Http, Skip, Unlimited, SharedClock> {
    let retry = Retry::with_clock(5, Arc::clone(&skip.clock), 1);
    ClientBuilder::sleeping_by(http(), format!("http://{address}/").parse().unwrap(), skip.clone())
        .retry(retry)
        .backoff(MeshBackoff::default().jitter(0))
}

fn call(function: &str) -> Request {
    Request::new("req_1", function, "1", json!({}))
}

async fn ok(_: IncomingCall<SharedClock>) -> Result<Value, MeshError> {
    Ok(json!("ok"))
}

/// Responds to each request with the next of these documents. The last one repeats.
///
/// Returns the requests that it received.
async fn answering(documents: Vec<Value>) -> (SocketAddr, Arc<Mutex<Vec<Value>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let address = serve(service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let (log, documents) = (Arc::clone(&log), documents.clone());
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut log = log.lock().unwrap();
            log.push(serde_json::from_slice(&body).unwrap());
            let document = &documents[(log.len() - 1).min(documents.len() - 1)];
            Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(document.to_string()))))
        }
    }))
    .await;
    (address, asked)
}

fn answer(errors: &Value, meta: &Value) -> Value {
    json!({
        "protocol": { "name": "mesh", "version": "0.1.0" },
        "id": "req_1",
        "result": null,
        "errors": errors,
        "meta": meta,
    })
}

fn refusal(retry_after: Value) -> Value {
    let minute = json!({ "value": 1, "unit": "minute" });
    let mut details = json!({ "limit": 1, "used": 1, "window": minute });
    details["retry_after"] = retry_after;
    answer(&json!([{ "code": "RATE_LIMITED", "message": "", "retryable": true, "details": details }]), &json!({}))
}

fn seconds(value: u64) -> Value {
    json!({ "value": value, "unit": "second" })
}

#[tokio::test]
async fn refusals_are_retried_with_doubled_waits_up_to_the_longest() {
    let (address, asked) = answering(vec![refusal(seconds(45))]).await;
    let skip = Skip::new();
    let client = builder(address, &skip).build();
    let answer = client.call(call("f")).await.unwrap();
    assert_eq!(answer.into_result().unwrap_err().code, "RATE_LIMITED", "the service's error code");
    assert_eq!(skip.take(), [45, 90, 180, 300].map(Duration::from_secs));
    assert_eq!(asked.lock().unwrap().len(), 5);
}

#[tokio::test]
async fn client_makes_five_attempts_by_default() {
    let (address, asked) = answering(vec![refusal(json!({ "value": 1, "unit": "millisecond" }))]).await;
    let client = || Client::builder(http(), format!("http://{address}/").parse().unwrap());
    let answer = client().build().call(call("f")).await.unwrap();
    assert_eq!(answer.into_result().unwrap_err().code, "RATE_LIMITED");
    assert_eq!(asked.lock().unwrap().drain(..).count(), 5);
    client().retry(Retry::new(2)).build().call(call("f")).await.unwrap();
    assert_eq!(asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn pacing_threshold_is_ten_percent_by_default() {
    let waits = async |left: u64, percent: Option<u32>| {
        let (address, _) = answering(vec![paced(&json!({ "global": usage(left, 30) }))]).await;
        let skip = Skip::new();
        let client = builder(address, &skip);
        let client = percent.map_or_else(|| builder(address, &skip), |percent| client.pace_below(percent)).build();
        client.call(call("f")).await.unwrap();
        client.call(call("f")).await.unwrap();
        skip.take()
    };
    assert_eq!(waits(10, None).await, [], "10 % is not below 10 %");
    assert_eq!(waits(9, None).await, [Duration::from_secs(30) / 9]);
    assert_eq!(waits(49, Some(50)).await, [Duration::from_secs(30) / 49]);
    assert_eq!(waits(1, Some(0)).await, []);
    assert_eq!(
        waits(0, Some(0)).await,
        [Duration::from_secs(30)],
        "with nothing left the client waits at any threshold"
    );
}

#[tokio::test]
async fn zero_retry_after_waits_one_millisecond() {
    let (address, _) = answering(vec![refusal(json!({ "value": 0, "unit": "second" }))]).await;
    let skip = Skip::new();
    builder(address, &skip)
        .retry(Retry::with_clock(2, Arc::clone(&skip.clock), 1))
        .build()
        .call(call("f"))
        .await
        .unwrap();
    assert_eq!(skip.take(), [Duration::from_millis(1)]);
}

#[tokio::test]
async fn retries_end_with_the_budget() {
    let (address, asked) = answering(vec![refusal(seconds(1))]).await;
    let skip = Skip::new();
    let budget = RetryBudget::with_clock(RetryBudgetConfig::builder().build().unwrap(), Arc::clone(&skip.clock));
    while budget.try_withdraw() {}
    let retry = Retry::with_clock(5, Arc::clone(&skip.clock), 1).budget(&budget);
    builder(address, &skip).retry(retry).build().call(call("f")).await.unwrap();
    assert_eq!(asked.lock().unwrap().len(), 1);
}

/// Counts what the client reports.
#[derive(Default)]
struct Counted {
    succeeded: AtomicUsize,
    failed: AtomicUsize,
    withdrawn: AtomicUsize,
}

impl Budget for Counted {
    fn succeeded(&self) {
        self.succeeded.fetch_add(1, Ordering::Relaxed);
    }

    fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    fn try_withdraw(&self) -> bool {
        self.withdrawn.fetch_add(1, Ordering::Relaxed);
        true
    }
}

#[tokio::test]
async fn budget_counts_every_attempt() {
    let (address, _) = answering(vec![refusal(seconds(1)), refusal(seconds(1)), answer(&json!([]), &json!({}))]).await;
    let (skip, budget) = (Skip::new(), Arc::new(Counted::default()));
    let retry = Retry::with_clock(5, Arc::clone(&skip.clock), 1).budget(Arc::clone(&budget));
    builder(address, &skip).retry(retry).build().call(call("f")).await.unwrap();
    assert_eq!((budget.succeeded.load(Ordering::Relaxed), budget.failed.load(Ordering::Relaxed)), (1, 2));
}

/// Such retries would leave fewer for calls that can make theirs.
#[tokio::test]
async fn retry_that_is_not_made_takes_nothing_from_the_budget() {
    let busy = json!([{ "code": "BUSY", "message": "", "retryable": true }]);
    let paused = answer(&busy, &json!({ "rate_limits": { "global": usage(0, 60) } }));
    let (skip, budget) = (Skip::new(), Arc::new(Counted::default()));
    let retry = || Retry::with_clock(5, Arc::clone(&skip.clock), 1).budget(Arc::clone(&budget));
    let (address, asked) = answering(vec![paused.clone()]).await;
    let impatient = builder(address, &skip).retry(retry()).max_pacing_wait(Duration::from_secs(50)).build();
    assert_eq!(impatient.call(call("f")).await.unwrap().errors[0].code, "BUSY");
    // The wait after a refusal that names none is at least 100 ms, which is too long.
    let (vague, _) = answering(vec![refusal(Value::Null)]).await;
    let uri = format!("http://{vague}/").parse().unwrap();
    let late = ClientBuilder::sleeping_by(http(), uri, look_again as Timer).retry(retry());
    late.timeout(Duration::from_millis(90)).build().call(call("f")).await.unwrap();
    assert_eq!((budget.failed.load(Ordering::Relaxed), budget.withdrawn.load(Ordering::Relaxed)), (2, 0));
    assert_eq!((asked.lock().unwrap().len(), skip.take()), (1, vec![]), "it does not sleep in vain");

    let (address, asked) = answering(vec![paused, answer(&json!([]), &json!({}))]).await;
    let patient = builder(address, &skip).retry(retry()).max_pacing_wait(Duration::from_secs(60)).build();
    assert!(patient.call(call("f")).await.unwrap().errors.is_empty());
    assert_eq!((asked.lock().unwrap().len(), budget.withdrawn.load(Ordering::Relaxed)), (2, 1));
}

/// A service of HTTP that is ready only while the flag is set.
#[derive(Clone)]
struct Unready<S>(S, Arc<AtomicBool>);

impl<S: tower::Service<http::Request<Full<Bytes>>>> tower::Service<http::Request<Full<Bytes>>> for Unready<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if self.1.load(Ordering::Relaxed) { self.0.poll_ready(context) } else { Poll::Pending }
    }

    fn call(&mut self, request: http::Request<Full<Bytes>>) -> S::Future {
        self.0.call(request)
    }
}

#[tokio::test]
async fn call_that_is_dropped_before_it_can_be_sent_delays_no_other() {
    let (address, asked) = answering(vec![paced(&json!({ "global": usage(5, 60) }))]).await;
    let (skip, is_ready) = (Skip::new(), Arc::new(AtomicBool::new(true)));
    let http = Unready(http(), Arc::clone(&is_ready));
    let client = ClientBuilder::sleeping_by(http, format!("http://{address}/").parse().unwrap(), skip.clone());
    let client = client.retry(Retry::with_clock(5, Arc::clone(&skip.clock), 1)).build();
    client.call(call("f")).await.unwrap();
    skip.clock.advance(Duration::from_secs(12));
    is_ready.store(false, Ordering::Relaxed);
    {
        let mut unsent = std::pin::pin!(client.call(call("f")));
        let poll = unsent.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop()));
        assert!(poll.is_pending(), "the HTTP client is not ready");
    }
    is_ready.store(true, Ordering::Relaxed);
    client.call(call("f")).await.unwrap();
    assert_eq!((asked.lock().unwrap().len(), skip.take()), (2, vec![]));
}

#[tokio::test]
async fn errors_that_may_not_be_retried_end_the_call() {
    let fatal = json!([{ "code": "RATE_LIMITED", "message": "", "retryable": false }]);
    let (address, asked) = answering(vec![answer(&fatal, &json!({}))]).await;
    let skip = Skip::new();
    builder(address, &skip).build().call(call("f")).await.unwrap();
    assert_eq!((asked.lock().unwrap().len(), skip.take()), (1, vec![]));
    let busy = json!([{ "code": "BUSY", "message": "", "retryable": true }]);
    let (address, asked) = answering(vec![answer(&busy, &json!({})), answer(&json!([]), &json!({}))]).await;
    let answer = builder(address, &skip).build().call(call("f")).await.unwrap();
    assert!(answer.errors.is_empty());
    assert_eq!((asked.lock().unwrap().len(), skip.take().len()), (2, 1), "one retry, after the backoff");
}

#[test]
fn response_with_one_error_that_may_not_be_retried_is_not_retried() {
    let busy = || MeshError::new("BUSY", "").retryable();
    let sold_out = || MeshError::new("SOLD_OUT", "");
    let failure = |errors| {
        let mut response = Response::error(None, busy());
        response.errors = errors;
        response.failure()
    };
    assert_eq!(failure(vec![busy(), busy()]), Some(Failure::TRANSIENT));
    assert_eq!(failure(vec![busy(), sold_out()]), Some(Failure::FATAL), "the last is not");
    assert_eq!(failure(vec![sold_out(), busy()]), Some(Failure::FATAL), "the first is not");
}

#[tokio::test]
async fn client_keeps_a_service_that_counts_from_refusing() {
    let skip = Skip::new();
    let scopes = Scopes::with_clock(Arc::clone(&skip.clock)).algorithm::<FixedWindow>().global(Quota::per_minute(50));
    let address = serve_mesh(scopes.build().unwrap(), ok).await;
    let client = builder(address, &skip).build();
    for _ in 0..120 {
        assert!(client.call(call("f")).await.unwrap().errors.is_empty(), "no call is refused");
    }
    // 45 calls are sent at once, and the others are spread over the rest of the minute.
    let waits = skip.take();
    assert_eq!(waits[0], Duration::from_mins(1) / 4);
    assert!(waits.len() <= 15, "{waits:?}");
}

fn paced(scopes: &Value) -> Value {
    answer(&json!([]), &json!({ "rate_limits": scopes }))
}

fn usage(remaining: u64, resets_in: u64) -> Value {
    json!({
        "limit": 100, "used": 100 - remaining, "remaining": remaining,
        "window": seconds(60), "resets_in": seconds(resets_in),
    })
}

#[tokio::test]
async fn limit_of_a_function_slows_down_no_other() {
    let (address, _) = answering(vec![paced(&json!({ "function": usage(0, 30), "global": usage(50, 30) }))]).await;
    let skip = Skip::new();
    let client = builder(address, &skip).build();
    client.call(call("f")).await.unwrap();
    client.call(call("g")).await.unwrap();
    assert_eq!(skip.take(), []);
    client.call(call("f")).await.unwrap();
    assert_eq!(skip.take(), [Duration::from_secs(30)], "at 0 left, the time until the reset");
}

#[tokio::test]
async fn only_limit_of_a_service_slows_down_its_function_alone() {
    let skip = Skip::new();
    let quota = Quota::per_minute(10).burst(1);
    let scopes = Scopes::with_clock(Arc::clone(&skip.clock)).function("f", quota).build().unwrap();
    let address = serve_mesh(scopes, ok).await;
    let client = builder(address, &skip).build();
    client.call(call("f")).await.unwrap();
    client.call(call("g")).await.unwrap();
    assert_eq!(skip.take(), [], "g has no limit");
    client.call(call("f")).await.unwrap();
    assert_eq!(skip.take(), [Duration::from_secs(6)]);
}

#[tokio::test]
async fn refusals_without_a_wait_are_retried_after_a_tenth_of_a_second_at_least() {
    let (address, _) = answering(vec![refusal(Value::Null)]).await;
    let skip = Skip::new();
    for seed in 0..20 {
        let retry = Retry::with_clock(5, Arc::clone(&skip.clock), seed);
        let answer = builder(address, &skip).retry(retry).build().call(call("f")).await.unwrap();
        assert_eq!(answer.errors[0].code, MeshError::RATE_LIMITED);
        let waits = skip.take();
        assert!(
            waits.len() == 4 && waits.iter().all(|wait| *wait >= Duration::from_millis(100)),
            "too soon: {waits:?}"
        );
    }
    // The clock stands still, so a call that waited would not end.
    let clock: SharedClock = Arc::new(ManualClock::new());
    for seed in 0..20 {
        let uri = format!("http://{address}/").parse().unwrap();
        let client = ClientBuilder::sleeping_by(http(), uri, look_again as Timer);
        let retry = Retry::with_clock(5, Arc::clone(&clock), seed);
        let client = client.retry(retry).timeout(Duration::from_millis(90)).build();
        let answer = tokio::time::timeout(Duration::from_secs(30), client.call(call("f"))).await;
        let answer = answer.expect("a wait beyond the deadline ends the call").unwrap();
        assert_eq!(answer.errors[0].code, MeshError::RATE_LIMITED);
    }
}

#[tokio::test]
async fn limit_of_all_slows_every_function_down_until_more_is_left() {
    let (address, _) =
        answering(vec![paced(&json!({ "service": usage(5, 30) })), paced(&json!({ "service": usage(90, 30) }))]).await;
    let skip = Skip::new();
    let client = builder(address, &skip).build();
    client.call(call("f")).await.unwrap();
    client.call(call("g")).await.unwrap();
    assert_eq!(skip.take(), [Duration::from_secs(6)]);
    client.call(call("g")).await.unwrap();
    assert_eq!(skip.take(), []);
}

#[tokio::test]
async fn concurrent_calls_are_spaced() {
    let (address, _) = answering(vec![paced(&json!({ "global": usage(5, 30) }))]).await;
    let skip = Skip::new();
    let client = builder(address, &skip).build();
    client.call(call("f")).await.unwrap();
    let clone = client.clone();
    let took = Arc::clone(&skip.clock);
    let before = damper::Clock::now(&took);
    let (one, other) = tokio::join!(client.call(call("f")), clone.call(call("f")));
    assert!(one.is_ok() && other.is_ok());
    assert!(damper::Clock::now(&took) - before >= 12_000_000_000, "the second waits for twice the interval");
}

#[tokio::test]
async fn impatient_calls_fail_unsent_and_delay_no_other() {
    let (address, asked) = answering(vec![paced(&json!({ "global": usage(5, 60) }))]).await;
    let skip = Skip::new();
    let client = builder(address, &skip).build();
    client.call(call("f")).await.unwrap();
    let within = |seconds| call("f").with_deadline(&SpecifiedDeadline::after(Duration::from_secs(seconds)));
    for _ in 0..4 {
        let error = client.call(within(3)).await.unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(12)), "{error}");
        assert!(is_refusal(&error) && error.source().is_some_and(<dyn Error>::is::<damper::Denied>));
    }
    assert_eq!((asked.lock().unwrap().len(), skip.take()), (1, vec![]));
    client.call(call("f")).await.unwrap();
    assert_eq!(skip.take(), [Duration::from_secs(12)]);
}

#[tokio::test]
async fn waits_beyond_the_longest_fail_at_once() {
    let hour = paced(&json!({ "global": usage(5, 3_600) }));
    let (address, asked) = answering(vec![hour.clone()]).await;
    let skip = Skip::new();
    let client = builder(address, &skip).build();
    client.call(call("f")).await.unwrap();
    for _ in 0..6 {
        let error = client.call(call("f")).await.unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_mins(12)));
    }
    assert_eq!((asked.lock().unwrap().len(), skip.take()), (1, vec![]));
    let patient = builder(address, &skip).max_pacing_wait(Duration::from_mins(12)).build();
    patient.call(call("f")).await.unwrap();
    patient.call(call("f")).await.unwrap();
    assert_eq!(skip.take(), [Duration::from_mins(12)]);
}

#[tokio::test]
async fn deadline_replaces_the_longest_wait() {
    let (address, asked) = answering(vec![paced(&json!({ "global": usage(5, 3_600) }))]).await;
    let clock: SharedClock = Arc::new(ManualClock::new());
    let time = Arc::clone(&clock);
    // Moves the clock for the wait of 720 s only.
    let sleep = move |wait: Duration| {
        if wait == Duration::from_mins(12) {
            time.advance(wait);
        }
        look_again(wait)
    };
    let client = ClientBuilder::sleeping_by(http(), format!("http://{address}/").parse().unwrap(), sleep)
        .retry(Retry::with_clock(5, Arc::clone(&clock), 1))
        .backoff(MeshBackoff::default().jitter(0))
        .build();
    client.call(call("f")).await.unwrap();
    let within = |seconds| call("f").with_deadline(&SpecifiedDeadline::after(Duration::from_secs(seconds)));
    let error = client.call(within(720)).await.unwrap_err();
    assert!(matches!(error, ClientError::Paced(_)), "the deadline would pass during the wait: {error}");
    client.call(within(721)).await.unwrap();
    assert_eq!((asked.lock().unwrap().len(), damper::Clock::now(&clock)), (2, 720_000_000_000));
}

/// An attempt is sent with a millisecond of its deadline at least.
#[tokio::test]
async fn wait_that_leaves_no_time_to_send_is_not_slept() {
    let (clock, budget) = (SharedClock::new(ManualClock::new()), Arc::new(Counted::default()));
    let client = |address: SocketAddr, wait: Duration, left: Duration| {
        let time = Arc::clone(&clock);
        // Moves the clock for this wait only.
        let sleep = move |slept: Duration| {
            if slept == wait {
                time.advance(wait);
            }
            look_again(slept)
        };
        let deadline = Deadline::with_clock(wait + left, Arc::clone(&clock));
        let retry = Retry::with_clock(2, Arc::clone(&clock), 1).budget(Arc::clone(&budget)).deadline(deadline);
        ClientBuilder::sleeping_by(http(), format!("http://{address}/").parse().unwrap(), sleep).retry(retry).build()
    };
    let [late, in_time] = [999, 1_000].map(Duration::from_micros);
    let second = Duration::from_secs(1);
    let (address, asked) = answering(vec![refusal(seconds(1))]).await;
    let withdrawn = || budget.withdrawn.load(Ordering::Relaxed);
    let answer = client(address, second, late).call(call("f")).await.unwrap();
    assert_eq!((&*answer.errors[0].code, withdrawn()), (MeshError::RATE_LIMITED, 0));
    assert_eq!((asked.lock().unwrap().len(), damper::Clock::now(&clock)), (1, 0));
    // Its jitter would not fit.
    client(address, second, in_time).call(call("f")).await.unwrap();
    assert_eq!((asked.lock().unwrap().len(), withdrawn(), damper::Clock::now(&clock)), (3, 1, 1_000_000_000));

    let pause = Duration::from_secs(12);
    let (address, asked) = answering(vec![paced(&json!({ "global": usage(5, 60) }))]).await;
    let slowed = client(address, pause, late);
    slowed.call(call("f")).await.unwrap();
    let error = slowed.call(call("f")).await.unwrap_err();
    assert!(matches!(error, ClientError::Paced(_)), "it fails at once: {error}");
    let slowed = client(address, pause, in_time);
    slowed.call(call("f")).await.unwrap();
    slowed.call(call("f")).await.unwrap();
    assert_eq!((asked.lock().unwrap().len(), damper::Clock::now(&clock)), (3, 13_000_000_000));
}

/// An operator may raise such a quota. A client that sends nothing more would never learn of it.
#[tokio::test]
async fn reset_that_never_comes_is_not_waited_for() {
    let mut never = usage(0, 1);
    never["resets_in"] = json!(MeshDuration::NEVER);
    let never = paced(&json!({ "user": never, "function": never }));
    let (address, asked) = answering(vec![never.clone(), never, paced(&json!({ "user": usage(5, 30) }))]).await;
    let skip = Skip::new();
    let client = builder(address, &skip).build();
    for _ in 0..3 {
        client.call(call("f")).await.unwrap();
    }
    assert_eq!((asked.lock().unwrap().len(), skip.take()), (3, vec![]));
    client.call(call("f")).await.unwrap();
    assert_eq!(skip.take(), [Duration::from_secs(6)], "the newest response is in force");
}

#[tokio::test]
async fn refusal_that_no_wait_ends_is_returned_at_once() {
    let skip = Skip::new();
    let scopes = Scopes::with_clock(Arc::clone(&skip.clock)).global(Quota::per_minute(0).burst(0)).build().unwrap();
    let address = serve_mesh(scopes, ok).await;
    let answer = builder(address, &skip).build().call(call("f")).await.unwrap();
    let limited = answer.rate_limited().unwrap().unwrap();
    assert_eq!(limited.retry_after, Some(MeshDuration::NEVER));
    assert!(!answer.errors[0].retryable);
    assert_eq!(skip.take(), []);
}

#[tokio::test]
async fn refusals_with_unknown_details_are_waited_for() {
    let mut strange = refusal(seconds(45));
    strange["errors"][0]["details"] = json!({ "scope": "tenant", "limit": "many", "retry_after": seconds(45) });
    let (address, _) = answering(vec![strange, answer(&json!([]), &json!({}))]).await;
    let skip = Skip::new();
    let client = builder(address, &skip).build();
    client.call(call("f")).await.unwrap();
    assert_eq!(skip.take(), [Duration::from_secs(45)]);
}

/// Makes a call of another function during the first sleep.
#[derive(Clone)]
struct Interrupted {
    skip: Skip,
    other: Arc<Mutex<Option<InterruptedClient>>>,
}

type InterruptedClient = Client<Http, Interrupted, Unlimited, SharedClock>;

impl Sleep for Interrupted {
    type Sleeping = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

    fn sleep(&self, duration: Duration) -> Self::Sleeping {
        let Self { skip, other } = self.clone();
        Box::pin(async move {
            let other = other.lock().unwrap().take();
            if let Some(other) = other {
                other.call(call("g")).await.unwrap();
            }
            skip.sleep(duration).await;
        })
    }
}

#[tokio::test]
async fn pause_holds_the_retries_of_other_calls() {
    let busy = json!([{ "code": "BUSY", "message": "", "retryable": true }]);
    let mut refused = refusal(seconds(60));
    refused["errors"][0]["retryable"] = json!(false);
    let (address, asked) = answering(vec![answer(&busy, &json!({})), refused, answer(&json!([]), &json!({}))]).await;
    let skip = Skip::new();
    let sleep = Interrupted { skip: skip.clone(), other: Arc::default() };
    let client = ClientBuilder::sleeping_by(http(), format!("http://{address}/").parse().unwrap(), sleep.clone())
        .retry(Retry::with_clock(5, Arc::clone(&skip.clock), 1))
        .backoff(MeshBackoff::default().jitter(0))
        .build();
    *sleep.other.lock().unwrap() = Some(client.clone());
    client.call(call("f")).await.unwrap();
    let waited: Duration = skip.take().into_iter().sum();
    assert_eq!((waited, asked.lock().unwrap().len()), (Duration::from_mins(1), 3));
}

#[tokio::test]
async fn failures_of_the_transport_count_for_the_budget() {
    let not_mesh = service_fn(|_: http::Request<hyper::body::Incoming>| async {
        Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from_static(b"bad gateway"))))
    });
    let address = serve(not_mesh).await;
    let (skip, budget) = (Skip::new(), Arc::new(Counted::default()));
    let retry = || Retry::with_clock(5, Arc::clone(&skip.clock), 1).budget(Arc::clone(&budget));
    builder(address, &skip).retry(retry()).build().call(call("f")).await.unwrap_err();
    let counted = || (budget.succeeded.load(Ordering::Relaxed), budget.failed.load(Ordering::Relaxed));
    assert_eq!((counted(), skip.take()), ((0, 1), vec![]), "the failure counts, and is not retried");
    let silent = service_fn(|_: http::Request<hyper::body::Incoming>| {
        std::future::pending::<Result<http::Response<Full<Bytes>>, Infallible>>()
    });
    let address = serve(silent).await;
    let client = builder(address, &skip).retry(retry()).timeout(Duration::from_secs(1)).build();
    let error = client.call(call("f")).await.unwrap_err();
    assert!(matches!(error, ClientError::DeadlineExceeded(_)), "{error}");
    assert_eq!(counted(), (0, 2), "a service that never responds fails");
}

/// The service may have made the call before the connection broke.
#[tokio::test]
async fn call_whose_response_was_lost_is_not_made_again() {
    for (kind, calls) in
        [(io::ErrorKind::ConnectionReset, 1), (io::ErrorKind::UnexpectedEof, 1), (io::ErrorKind::ConnectionRefused, 5)]
    {
        let (skip, made) = (Skip::new(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&made);
        let broken = service_fn(move |_: http::Request<Full<Bytes>>| {
            counted.fetch_add(1, Ordering::Relaxed);
            ready(Err::<http::Response<Full<Bytes>>, _>(io::Error::from(kind)))
        });
        let retry = Retry::with_clock(5, Arc::clone(&skip.clock), 1);
        let client = ClientBuilder::sleeping_by(broken, "http://orders/".parse().unwrap(), skip.clone()).retry(retry);
        let error = client.build().call(call("f")).await.unwrap_err();
        assert!(matches!(error, ClientError::Transport(_)), "{error}");
        assert_eq!(made.load(Ordering::Relaxed), calls, "{kind}");
    }
}

#[tokio::test]
async fn refused_connections_are_retried() {
    let skip = Skip::new();
    let error = builder(SocketAddr::from(([127, 0, 0, 1], 1)), &skip).build().call(call("f")).await.unwrap_err();
    assert!(matches!(error, ClientError::Transport(_)), "{error}");
    assert_eq!(skip.take().len(), 4, "the call reached no server");
    let texts: Vec<_> =
        std::iter::successors(Some(&error as &dyn Error), |error| (*error).source()).map(ToString::to_string).collect();
    assert_eq!(texts.iter().collect::<std::collections::BTreeSet<_>>().len(), texts.len(), "{texts:?} repeats nothing");
}

#[tokio::test]
async fn deadline_of_the_policy_is_sent() {
    let (address, asked) = answering(vec![answer(&json!([]), &json!({}))]).await;
    let skip = Skip::new();
    let deadline = Deadline::with_clock(Duration::from_secs(7), Arc::clone(&skip.clock));
    let retry = Retry::with_clock(5, Arc::clone(&skip.clock), 1).deadline(deadline);
    let client = ClientBuilder::sleeping_by(http(), format!("http://{address}/").parse().unwrap(), look_again as Timer)
        .retry(retry)
        .build();
    client.call(call("f")).await.unwrap();
    assert_eq!(asked.lock().unwrap()[0]["extensions"][0]["options"], seconds(7));
    skip.clock.advance(Duration::from_secs(7));
    let error = client.call(call("f")).await.unwrap_err();
    assert!(matches!(error, ClientError::DeadlineExceeded(_)), "{error}");
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn client_of_reqwest_is_a_transport() {
    let (address, asked) = answering(vec![answer(&json!([]), &json!({}))]).await;
    let client = reqwest::Client::new();
    let transport = service_fn(move |request: http::Request<Full<Bytes>>| {
        let client = client.clone();
        async move {
            let (head, body) = request.into_parts();
            let request = http::Request::from_parts(head, body.collect().await?.to_bytes());
            let response = client.execute(request.try_into()?).await?;
            Ok::<_, Box<dyn Error + Send + Sync>>(http::Response::from(response))
        }
    });
    let uri = format!("http://{address}/").parse().unwrap();
    let answer = Client::new(transport, uri).call(call("f")).await.unwrap();
    assert!(answer.errors.is_empty());
    assert_eq!(asked.lock().unwrap()[0]["call"]["function"], "f");
}

#[tokio::test]
async fn malformed_meta_costs_no_result() {
    let mut document = answer(&Value::Null, &json!({ "rate_limit": { "limit": "many" } }));
    document["result"] = json!(7);
    document["extensions"] = Value::Null;
    let (address, _) = answering(vec![document]).await;
    let answer = builder(address, &Skip::new()).build().call(call("f")).await.unwrap();
    assert!(answer.meta_error().is_some_and(|error| error.to_string().starts_with("meta.rate_limit.limit: ")));
    assert_eq!(answer.into_result().unwrap(), json!(7));
}

#[tokio::test]
async fn smallest_deadline_is_sent() {
    let (address, asked) = answering(vec![answer(&json!([]), &json!({}))]).await;
    let skip = Skip::new();
    let sent = || asked.lock().unwrap().pop().unwrap()["extensions"].clone();
    let retry = || Retry::with_clock(5, Arc::clone(&skip.clock), 1);
    let uri = || format!("http://{address}/").parse().unwrap();
    let plain = ClientBuilder::sleeping_by(http(), uri(), look_again as Timer).retry(retry()).build();
    plain.call(call("f")).await.unwrap();
    assert_eq!(sent(), Value::Null);
    let client = ClientBuilder::sleeping_by(http(), uri(), look_again as Timer)
        .retry(retry())
        .timeout(Duration::from_secs(3))
        .build();
    let options = |extensions: Value| extensions[0]["options"].clone();
    client.call(call("f")).await.unwrap();
    assert_eq!(options(sent()), seconds(3), "the client's own, because the request had none");
    let receipt = damper::mesh::Receipt::with_clock(Arc::clone(&skip.clock));
    let served = |seconds| receipt.deadline(SpecifiedDeadline::after(Duration::from_secs(seconds)));
    client.call_within(Some(&served(5)), call("f")).await.unwrap();
    assert_eq!(options(sent()), seconds(3));
    client.call_within(Some(&served(2)), call("f")).await.unwrap();
    assert_eq!(options(sent()), seconds(2));
    let own = call("f").with_deadline(&SpecifiedDeadline::after(Duration::from_secs(1)));
    client.call_within(Some(&served(2)), own).await.unwrap();
    assert_eq!(options(sent()), seconds(1));
    skip.clock.advance(Duration::from_secs(2));
    let error = client.call_within(Some(&served(2)), call("f")).await.unwrap_err();
    assert!(matches!(error, ClientError::DeadlineExceeded(_)), "{error}");
    assert!(asked.lock().unwrap().is_empty(), "nothing is sent after the deadline");
}

#[tokio::test]
async fn each_attempt_sends_its_remaining_time() {
    let (address, asked) = answering(vec![refusal(seconds(2)), answer(&json!([]), &json!({}))]).await;
    let skip = Skip::new();
    let clock = Arc::clone(&skip.clock);
    let moved =
        ClientBuilder::sleeping_by(http(), format!("http://{address}/").parse().unwrap(), move |wait: Duration| {
            let clock = Arc::clone(&clock);
            async move {
                if wait == Duration::from_secs(2) {
                    clock.advance(wait);
                } else {
                    look_again(wait).await;
                }
            }
        });
    let retry = Retry::with_clock(5, Arc::clone(&skip.clock), 1);
    let moved = moved.retry(retry).backoff(MeshBackoff::default().jitter(0)).timeout(Duration::from_secs(30)).build();
    moved.call(call("f")).await.unwrap();
    let sent: Vec<Value> =
        asked.lock().unwrap().drain(..).map(|request| request["extensions"][0]["options"].clone()).collect();
    assert_eq!(sent, [seconds(30), seconds(28)]);
}

#[tokio::test]
async fn wait_beyond_the_deadline_ends_the_call_with_the_refusal() {
    let (address, asked) = answering(vec![refusal(seconds(45))]).await;
    let clock: SharedClock = Arc::new(ManualClock::new());
    let retry = Retry::with_clock(5, Arc::clone(&clock), 1);
    let client = ClientBuilder::sleeping_by(http(), format!("http://{address}/").parse().unwrap(), look_again as Timer);
    let client = client.retry(retry).timeout(Duration::from_secs(30)).build();
    let answer = client.call(call("f")).await.unwrap();
    assert_eq!(answer.rate_limited().unwrap().unwrap().retry_after.unwrap().to_string(), "45 second");
    assert_eq!(asked.lock().unwrap().len(), 1);
    // The refusal holds for other calls too. They cannot finish in time, so they are not sent.
    let error = client.call(call("g")).await.unwrap_err();
    assert!(matches!(error, ClientError::Paced(_)) && is_refusal(&error), "{error}");
    assert!(error.retry_after().is_some_and(|wait| wait >= Duration::from_secs(45)), "the error names the wait");
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn non_mesh_responses_are_errors() {
    let client = |address: SocketAddr| Client::new(http(), format!("http://{address}/").parse().unwrap());
    let (address, _) = answering(vec![json!("hello")]).await;
    let error = client(address).call(call("f")).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreadable { .. }), "{error}");
    let (address, _) = answering(vec![answer(&json!([]), &json!({}))]).await;
    let error = client(address).call(Request::new("req_2", "f", "1", json!({}))).await.unwrap_err();
    assert_eq!(error.to_string(), r#"the response answers the request "req_1""#);
    let error = client(SocketAddr::from(([127, 0, 0, 1], 1))).call(call("f")).await.unwrap_err();
    assert!(matches!(error, ClientError::Transport(_)), "{error}");
}

#[tokio::test]
async fn headers_that_are_set_are_sent_with_each_attempt() {
    let callers = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&callers);
    let address = serve(service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let caller = request.headers().get("x-caller").map(|name| name.to_str().unwrap().to_owned());
        log.lock().unwrap().push(caller);
        ready(Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(refusal(seconds(1)).to_string())))))
    }))
    .await;
    let client = builder(address, &Skip::new())
        .header(http::HeaderName::from_static("x-caller"), http::HeaderValue::from_static("checkout"));
    client.build().call(call("f")).await.unwrap();
    let callers = callers.lock().unwrap();
    assert!(callers.len() > 1 && callers.iter().all(|caller| caller.as_deref() == Some("checkout")), "{callers:?}");
}

/// A chain of an error's messages names its cause once, and only a refusal has a wait.
#[tokio::test]
async fn errors_of_calls_name_their_causes() {
    let chain = |error: &ClientError| {
        assert_eq!(error.retry_after(), None);
        let chain = std::iter::successors(Some(error as &dyn Error), |error| (*error).source());
        chain.map(ToString::to_string).collect::<Vec<_>>()
    };
    let client = |address: SocketAddr| builder(address, &Skip::new()).build();
    let not_mesh = service_fn(|_: http::Request<hyper::body::Incoming>| {
        let response = http::Response::builder().status(502).body(Full::new(Bytes::from_static(b"bad gateway")));
        ready(Ok::<_, Infallible>(response.unwrap()))
    });
    let unreadable = chain(&client(serve(not_mesh).await).call(call("f")).await.unwrap_err());
    assert_eq!(unreadable[0], "the response with status 502 Bad Gateway is unreadable");
    assert_eq!(unreadable.len(), 2, "{unreadable:?}");

    let (address, asked) = answering(vec![answer(&json!([]), &json!({}))]).await;
    let wrong = chain(&client(address).call(Request::new("req_2", "f", "1", json!({}))).await.unwrap_err());
    assert_eq!(wrong, [r#"the response answers the request "req_1""#]);
    asked.lock().unwrap().clear();
    let mut malformed: Value = serde_json::to_value(call("f")).unwrap();
    malformed["extensions"] = json!([{ "urn": "urn:mesh:ext:deadline", "options": { "value": "soon" } }]);
    let malformed = chain(&client(address).call(serde_json::from_value(malformed).unwrap()).await.unwrap_err());
    assert_eq!((&*malformed[0], malformed.len()), ("the deadline of the request is malformed", 2), "{malformed:?}");
    let late = call("f").with_deadline(&SpecifiedDeadline::after(Duration::ZERO));
    let late = chain(&client(address).call(late).await.unwrap_err());
    assert_eq!((&*late[0], late.len()), ("the call did not end in time", 2), "{late:?}");
    assert!(asked.lock().unwrap().is_empty(), "neither is sent");
}

proptest! {
    #[test]
    fn waits_stay_between_the_stated_and_the_longest_wait(
        stated in 0u64..2_000_000, attempt in 0u32..70, random in any::<u64>(), jitter in 0u32..=150, longest in 0u64..600_000,
    ) {
        let (stated, longest) = (Duration::from_millis(stated), Duration::from_millis(longest));
        let backoff = MeshBackoff::default().max_wait(longest).jitter(jitter);
        let wait = backoff.wait(stated, attempt, random);
        prop_assert!(wait >= Duration::from_millis(1) && wait <= longest.max(Duration::from_millis(1)));
        if stated <= longest {
            prop_assert!(wait >= stated, "never earlier than the service said");
        }
        let exact = backoff.jitter(0).wait(stated, attempt, random);
        let formula = stated.saturating_mul(1u32.checked_shl(attempt).unwrap_or(u32::MAX)).min(longest);
        prop_assert_eq!(exact, formula.max(Duration::from_millis(1)));
        let most = exact / 100 * jitter.min(100);
        prop_assert!(wait <= exact + most && wait >= exact.saturating_sub(most));
        prop_assert!(wait >= exact || exact >= longest, "shorter only at the longest wait");
    }
}

#[test]
fn waits_after_the_same_refusal_differ() {
    let backoff = MeshBackoff::default();
    for (stated, attempt, shortest, longest) in
        [(45, 0, 45.0, 49.5), (45, 1, 90.0, 99.0), (600, 0, 270.0, 300.0), (45, 9, 270.0, 300.0)]
    {
        let draw = |number: u64| backoff.wait(Duration::from_secs(stated), attempt, number << 54).as_secs_f64();
        let waits: Vec<f64> = (0..1_000).map(draw).collect();
        assert!(waits.iter().all(|wait| (shortest..=longest).contains(wait)));
        assert!(waits.is_sorted_by(|one, other| one < other), "all differ");
    }
}
