//! All layers of a client in the guide's order, over real sockets.

use crate::support::{ClosedPort, Upstream, serve};
use bytes::Bytes;
use damper::breaker::State;
use damper::http::{
    CircuitBreakerLayer, ClientDeadlineLayer, HedgeLayer, RetryLayer, Statuses, ThrottleLayer, TimeoutUnit,
};
use damper::retry::{GaveUp, Hedge, HedgeConfig, Jitter};
use damper::throttle::AdaptiveThrottle;
use damper::tower::GateLayer;
use damper::{
    Backoff, BreakerConfig, Bulkhead, CallError, CircuitBreaker, CircuitOpen, Deadline, DeadlineExceeded, Quota,
    RateLimiter, Retry, RetryError,
};
use futures_util::{StreamExt, stream};
use http::{HeaderName, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::TokioExecutor;
use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tower::timeout::TimeoutLayer;
use tower::{Service, ServiceBuilder, ServiceExt};

const TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");
const DEADLINE: Duration = Duration::from_millis(600);
/// The wait between two attempts.
const WAIT: Duration = Duration::from_millis(150);

type BoxError = Box<dyn Error + Send + Sync>;

fn transport() -> Client<HttpConnector, Empty<Bytes>> {
    Client::builder(TokioExecutor::new()).build_http()
}

fn retry(attempts: u32, wait: Duration) -> Retry {
    Retry::new(attempts).backoff(Backoff::constant(wait).jitter(Jitter::None))
}

fn request(server: SocketAddr) -> Request<Empty<Bytes>> {
    Request::get(format!("http://{server}/")).body(Empty::new()).unwrap()
}

/// The timeouts that reached a server, in milliseconds.
type Timeouts = Arc<Mutex<Vec<u64>>>;

/// A server that is unavailable for this many requests.
///
/// Then it sends a head and one frame, and stalls.
async fn stalling_after(failures: usize) -> (SocketAddr, Timeouts) {
    let timeouts = Timeouts::default();
    let seen = Arc::clone(&timeouts);
    let address = serve(move |_| {
        let seen = Arc::clone(&seen);
        hyper::service::service_fn(move |request: Request<Incoming>| {
            let mut seen = seen.lock().unwrap();
            seen.push(request.headers()[TIMEOUT].to_str().unwrap().parse().unwrap());
            let status = if seen.len() <= failures { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
            let frames = stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from("first")))]);
            let body = StreamBody::new(frames.chain(stream::pending()));
            std::future::ready(Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap()))
        })
    })
    .await;
    (address, timeouts)
}

/// Two attempts fail, and the body of the third stalls.
///
/// No separate timeout of the body starts anew.
#[tokio::test]
async fn retried_call_and_its_body_share_one_deadline() {
    let (server, timeouts) = stalling_after(2).await;
    let mut client = ServiceBuilder::new()
        .layer(ClientDeadlineLayer::new(DEADLINE).header(TIMEOUT, TimeoutUnit::Milliseconds))
        .layer(RetryLayer::new(retry(3, WAIT)))
        .service(transport());
    let began = Instant::now();
    let response = client.ready().await.unwrap().call(request(server)).await.unwrap();
    assert_eq!((response.status(), timeouts.lock().unwrap().len()), (StatusCode::OK, 3));
    assert!(began.elapsed() >= 2 * WAIT);
    let mut body = response.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
    let error = body.frame().await.unwrap().unwrap_err();
    let elapsed = began.elapsed();
    let exceeded = DeadlineExceeded::find_in(&*error).unwrap();
    assert_eq!(exceeded.specified(), DEADLINE);
    assert!(elapsed >= DEADLINE, "{elapsed:?}");
    // A deadline restarted by the third attempt would begin two waits after the call.
    assert!(elapsed < exceeded.elapsed() + 2 * WAIT, "{elapsed:?}, {exceeded}");
}

#[tokio::test]
async fn each_attempt_of_an_inner_retry_sends_the_remaining_time() {
    let (server, timeouts) = stalling_after(2).await;
    let margin = Duration::from_millis(20);
    let mut client = ServiceBuilder::new()
        .layer(ClientDeadlineLayer::new(DEADLINE).header(TIMEOUT, TimeoutUnit::Milliseconds).margin(margin))
        .layer(RetryLayer::new(retry(3, WAIT)))
        .service(transport());
    client.ready().await.unwrap().call(request(server)).await.unwrap();
    let timeouts = timeouts.lock().unwrap();
    let [wait, most] = [WAIT, DEADLINE.saturating_sub(margin)].map(|time| time.as_millis() as u64);
    assert_eq!(timeouts.len(), 3);
    assert!(timeouts[0] <= most, "{timeouts:?}");
    assert!(timeouts.windows(2).all(|pair| pair[0] >= pair[1] + wait), "{timeouts:?}");
}

/// The deadline of the policy passes first.
#[tokio::test]
async fn earlier_deadline_of_the_retry_is_sent() {
    let (server, timeouts) = stalling_after(0).await;
    let mut client = ServiceBuilder::new()
        .layer(ClientDeadlineLayer::new(100 * DEADLINE).header(TIMEOUT, TimeoutUnit::Milliseconds))
        .layer(RetryLayer::new(retry(3, WAIT).deadline(Deadline::after(DEADLINE))))
        .service(transport());
    client.ready().await.unwrap().call(request(server)).await.unwrap();
    let sent = timeouts.lock().unwrap()[0];
    assert!(sent <= DEADLINE.as_millis() as u64, "{sent} ms");
}

/// The deadline alone would leave time for a third attempt. The caller gets the last response.
#[tokio::test]
async fn no_attempt_begins_within_the_margin() {
    let (server, timeouts) = stalling_after(9).await;
    let deadlines = ClientDeadlineLayer::new(DEADLINE).header(TIMEOUT, TimeoutUnit::Milliseconds).margin(DEADLINE / 2);
    let mut client = ServiceBuilder::new().layer(deadlines).layer(RetryLayer::new(retry(9, WAIT))).service(transport());
    let response = client.ready().await.unwrap().call(request(server)).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    let attempts = timeouts.lock().unwrap().len();
    assert!(attempts <= 2, "{attempts} attempts");
}

/// A second deadline layer, below the retry, sends the remaining time with each attempt.
#[tokio::test]
async fn each_attempt_sends_the_remaining_time() {
    let (server, timeouts) = stalling_after(2).await;
    let mut client = ServiceBuilder::new()
        .layer(ClientDeadlineLayer::new(DEADLINE))
        // Boxed errors do not implement `Error`, and neither does a `RetryError` of them.
        .map_err(RetryError::into_boxed)
        .layer(RetryLayer::new(retry(3, WAIT)).when(Statuses::failure_boxed))
        .layer(ClientDeadlineLayer::propagating().header(TIMEOUT, TimeoutUnit::Milliseconds))
        .service(transport());
    client.ready().await.unwrap().call(request(server)).await.unwrap();
    let timeouts = timeouts.lock().unwrap();
    let wait = WAIT.as_millis() as u64;
    assert_eq!(timeouts.len(), 3);
    assert!(timeouts.windows(2).all(|pair| pair[0] >= pair[1] + wait), "{timeouts:?}");
}

/// A hedge starts later than the first attempt, so it sends a shorter timeout.
#[tokio::test]
async fn each_hedge_sends_the_remaining_time() {
    let timeouts = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&timeouts);
    let server = tower::service_fn(move |request: Request<()>| {
        let timeout = request.headers()[TIMEOUT].to_str().unwrap().parse::<u64>().unwrap();
        seen.lock().unwrap().push(timeout);
        let is_first = seen.lock().unwrap().len() == 1;
        async move {
            if is_first {
                std::future::pending::<()>().await;
            }
            Ok::<_, std::io::Error>(Response::new(http_body_util::Empty::<Bytes>::new()))
        }
    });
    let config = HedgeConfig::builder().fixed_delay(WAIT).build().unwrap();
    let mut client = ServiceBuilder::new()
        .layer(ClientDeadlineLayer::new(DEADLINE).header(TIMEOUT, TimeoutUnit::Milliseconds))
        .layer(HedgeLayer::new(Hedge::new(config)))
        .service(server);
    client.ready().await.unwrap().call(Request::new(())).await.unwrap();
    let timeouts = timeouts.lock().unwrap();
    assert!(timeouts.len() == 2 && timeouts[0] >= timeouts[1] + WAIT.as_millis() as u64, "{timeouts:?}");
}

/// The whole order: deadline, breaker, retry, hedge, throttle, limit, bulkhead, timeout of one attempt.
///
/// The first request fails, so its hedge is sent at once; that hangs until its timeout. The retry's request hangs too,
/// and its hedge is answered.
#[tokio::test]
async fn layers_in_the_guides_order_make_one_call_of_four_requests() {
    let timeouts = Timeouts::default();
    let seen = Arc::clone(&timeouts);
    let server = serve(move |_| {
        let seen = Arc::clone(&seen);
        hyper::service::service_fn(move |request: Request<Incoming>| {
            let number = {
                let mut seen = seen.lock().unwrap();
                seen.push(request.headers()[TIMEOUT].to_str().unwrap().parse().unwrap());
                seen.len()
            };
            async move {
                if number == 2 || number == 3 {
                    std::future::pending::<()>().await;
                }
                let status = if number == 1 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
                Ok::<_, Infallible>(Response::builder().status(status).body(Empty::<Bytes>::new()).unwrap())
            }
        })
    })
    .await;
    let breaker = Arc::new(CircuitBreaker::new(BreakerConfig::builder().failure_threshold(1).build().unwrap()));
    let limit = Arc::new(RateLimiter::new(Quota::per_hour(1).burst(4)));
    let (throttle, bulkhead) = (Arc::new(AdaptiveThrottle::new()), Arc::new(Bulkhead::new(2)));
    let hedge = HedgeConfig::builder().fixed_delay(WAIT / 3).build().unwrap();
    let mut client = ServiceBuilder::new()
        .layer(ClientDeadlineLayer::new(100 * DEADLINE).header(TIMEOUT, TimeoutUnit::Milliseconds))
        .map_err(CallError::into_boxed)
        .layer(CircuitBreakerLayer::new(Arc::clone(&breaker)).classify(Statuses::judge_boxed))
        .map_err(RetryError::into_boxed)
        .layer(RetryLayer::new(retry(3, WAIT)).when(Statuses::failure_boxed))
        .layer(HedgeLayer::new(Hedge::new(hedge)).when(Statuses::failure_boxed))
        .map_err(CallError::into_boxed)
        .layer(ThrottleLayer::new(Arc::clone(&throttle)).classify(Statuses::judge_boxed))
        .map_err(CallError::into_boxed)
        .layer(GateLayer::limit(Arc::clone(&limit)))
        .map_err(CallError::into_boxed)
        .layer(GateLayer::limit(Arc::clone(&bulkhead)))
        .layer(TimeoutLayer::new(2 * WAIT))
        .service(transport());
    let response = client.ready().await.unwrap().call(request(server)).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let timeouts = timeouts.lock().unwrap().clone();
    assert_eq!(timeouts.len(), 4, "{timeouts:?}");
    assert!(timeouts.is_sorted_by(|earlier, later| earlier >= later), "{timeouts:?}");
    let waited = (2 * WAIT + WAIT).as_millis() as u64; // the timeout of the first hedge, and the retry's
    assert!(timeouts[1] >= timeouts[2] + waited, "{timeouts:?}");
    assert_eq!(limit.peek().remaining(), 0, "the limit counted every request");
    assert_eq!(breaker.state(), State::Closed, "the breaker counted one success");
    // The first request was rejected, the first hedge timed out, the second was answered; the retry's request was dropped.
    let status = throttle.status();
    assert_eq!((status.requests(), status.accepted()), (3, 1), "the throttle counted every verdict");
    assert_eq!(bulkhead.in_flight(), 0, "the dropped request freed its permit too");
    // The next call exceeds the limit. It is not retried and does not count against the server.
    let error = client.ready().await.unwrap().call(request(server)).await.unwrap_err();
    assert!(damper::is_refusal(&*error), "{error}");
    assert_eq!(breaker.state(), State::Closed);
    assert_eq!(throttle.status().requests(), 3, "the limit refused, not the server");
}

/// The caller's error says how the retries gave up, and has the transport's error in its chain.
#[tokio::test]
async fn boxed_errors_keep_the_retry_error() {
    let closed_port = ClosedPort::new();
    let dead = closed_port.address();
    let mut client = ServiceBuilder::new()
        .layer(ClientDeadlineLayer::new(DEADLINE))
        .map_err(RetryError::into_boxed)
        .layer(RetryLayer::new(retry(3, Duration::from_millis(1))).when(Statuses::failure_boxed))
        .map_err(BoxError::from)
        .service(transport());
    let error = client.ready().await.unwrap().call(request(dead)).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("gave up after 3 attempts in ") && text.ends_with(": no attempts left"), "{text}");
    let transports = error.source().and_then(|source| source.downcast_ref::<legacy::Error>());
    assert!(transports.is_some_and(legacy::Error::is_connect));
}

/// A refusal is found inside boxes, and is not retried.
#[tokio::test]
async fn refusals_in_boxes_are_found_and_not_retried() {
    let upstream = Upstream::start().await;
    let breaker = Arc::new(CircuitBreaker::default());
    breaker.force_open();
    let mut client = ServiceBuilder::new()
        .map_err(RetryError::into_boxed)
        .layer(RetryLayer::new(retry(3, DEADLINE)).when(Statuses::failure_boxed))
        .map_err(CallError::into_boxed)
        .layer(CircuitBreakerLayer::new(breaker))
        .service(transport());
    let error: BoxError = client.ready().await.unwrap().call(upstream.request()).await.unwrap_err();
    assert_eq!(upstream.hits(), 0);
    assert!(CircuitOpen::find_in(&*error).is_some());
    assert!(error.to_string().starts_with("gave up after 1 attempt in "), "{error}");
}

/// A retry whose wait would pass the deadline does not start.
///
/// The caller gets the last response at once.
#[tokio::test]
async fn retry_that_cannot_end_in_time_is_not_begun() {
    let upstream = Upstream::start().await;
    upstream.answer(StatusCode::SERVICE_UNAVAILABLE);
    let wait = Duration::from_secs(61);
    let backoff = Backoff::constant(wait).max_delay(wait).jitter(Jitter::None);
    let mut client = ServiceBuilder::new()
        .layer(ClientDeadlineLayer::new(Duration::from_secs(60)))
        .layer(RetryLayer::new(Retry::new(9).backoff(backoff)))
        .service(transport());
    let began = Instant::now();
    let response = client.ready().await.unwrap().call(upstream.request()).await.unwrap();
    assert_eq!((response.status(), upstream.hits()), (StatusCode::SERVICE_UNAVAILABLE, 1));
    assert!(began.elapsed() < Duration::from_secs(10));
}

/// Three failed attempts count as one failure for the breaker outside.
///
/// Once open, the breaker costs neither an attempt nor a wait.
#[tokio::test]
async fn call_that_used_up_its_retries_is_one_failure() {
    let upstream = Upstream::start().await;
    upstream.answer(StatusCode::SERVICE_UNAVAILABLE);
    let breaker = Arc::new(CircuitBreaker::new(BreakerConfig::builder().failure_threshold(2).build().unwrap()));
    let mut client = ServiceBuilder::new()
        .layer(ClientDeadlineLayer::new(Duration::from_secs(60)))
        .layer(CircuitBreakerLayer::new(Arc::clone(&breaker)))
        .layer(RetryLayer::new(retry(3, Duration::from_millis(1))))
        .service(transport());
    for (calls, state) in [(1, State::Closed), (2, State::Open)] {
        let response = client.ready().await.unwrap().call(upstream.request()).await.unwrap();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!((upstream.hits(), breaker.state()), (3 * calls, state));
    }
    let error = match client.ready().await {
        Ok(client) => client.call(upstream.request()).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(CircuitOpen::find_in(&*error).is_some(), "{error}");
    assert_eq!(upstream.hits(), 6);
}

/// With the breaker below the retry, which is the wrong place, a refusal still skips the backoff.
#[tokio::test]
async fn open_breaker_below_a_retry_costs_no_backoff() {
    let upstream = Upstream::start().await;
    let breaker = Arc::new(CircuitBreaker::default());
    breaker.force_open();
    let mut client = ServiceBuilder::new()
        .layer(RetryLayer::new(retry(3, Duration::from_secs(20))))
        .layer(CircuitBreakerLayer::new(breaker))
        .service(transport());
    let began = Instant::now();
    let error: RetryError<_> = match client.ready().await {
        Ok(client) => client.call(upstream.request()).await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!((error.reason(), upstream.hits()), (GaveUp::NotRetryable, 0));
    assert!(CircuitOpen::find_in(&error).is_some(), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10));
}

/// A host accepts connections and never responds.
///
/// The deadline layer ends the calls, and the breaker records failures.
#[tokio::test]
async fn black_hole_opens_the_breaker_inside_of_the_deadline() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    let breaker = Arc::new(CircuitBreaker::new(BreakerConfig::builder().failure_threshold(5).build().unwrap()));
    let mut client = ServiceBuilder::new()
        .layer(ClientDeadlineLayer::new(Duration::from_millis(50)))
        .layer(CircuitBreakerLayer::new(Arc::clone(&breaker)).min_budget(Duration::from_millis(40)))
        .service(transport());
    for call in 1..=5 {
        assert_eq!(breaker.state(), State::Closed, "before call {call}");
        let error = client.ready().await.unwrap().call(request(server)).await.unwrap_err();
        assert!(DeadlineExceeded::find_in(&*error).is_some(), "{error}");
    }
    assert_eq!(breaker.state(), State::Open);
}
