//! Stacks of a client and of a server: any order of setters, any parts, and refusals.
//!
//! The tests use real sockets, except where they observe a service closely.

use crate::support::{self, ClosedPort, Upstream, serve, serve_axum};
use bytes::Bytes;
use damper::breaker::State;
use damper::concurrency::{LimitBounds, RefusalCause};
use damper::gate::{Answer, AnswerOf, Ask, Ending, Gate, Never, Refusal, RefusalKind, Verdict};
use damper::http::{
    AttemptTimedOut, BoxedClient, CircuitBreakerLayer, ClientConcurrencyLayer, ClientDeadlineLayer, ClientGate,
    ConcurrencyLayer, DeadlineLayer, Head, Headers, HttpClient, PeerAddress, RateLimitLayer, RequestNotMade,
    ResponseHead, RetryLayer, StackError, StackPart, Statuses, TimeoutUnit, client_stack, server_stack,
};
use damper::retry::{Budget, Failure, GaveUp, Hedge, HedgeConfig, Jitter, Unlimited};
use damper::throttle::{AdaptiveThrottle, Throttled};
use damper::time::DefaultClock;
use damper::tower::GateLayer;
use damper::{
    Admission, AdmissionRequest, Backoff, BreakerConfig, Bulkhead, BulkheadFull, CallError, CircuitBreaker,
    CircuitOpen, Deadline, DeadlineExceeded, Denied, ManualClock, NotAdmitted, Quota, RateLimiter, Retry, RetryError,
};
use futures_util::{StreamExt, stream};
use http::{HeaderName, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Incoming;
use hyper_util::client::legacy::{self, Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::future::{Ready, pending, poll_fn, ready};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tower::timeout::TimeoutLayer;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

const TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");
const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(60);

type Empties = Empty<Bytes>;

fn transport() -> Client<HttpConnector, Empties> {
    Client::builder(TokioExecutor::new()).build_http()
}

/// Retries with a negligible wait.
fn quick(attempts: u32) -> Retry {
    Retry::new(attempts).backoff(Backoff::constant(Duration::from_millis(1)).jitter(Jitter::None))
}

fn failures(threshold: u32) -> BreakerConfig {
    BreakerConfig::builder().failure_threshold(threshold).build().unwrap()
}

fn hedge_after(delay: Duration) -> Hedge {
    Hedge::new(HedgeConfig::builder().fixed_delay(delay).build().unwrap())
}

/// Two requests in half an hour.
fn two_requests() -> Quota {
    Quota::per_hour(1).burst(2)
}

/// A server that never responds to its first requests.
async fn hanging_first(requests: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let hits = Arc::new(AtomicUsize::new(0));
    let of_server = Arc::clone(&hits);
    let address = serve(move |_| {
        let hits = Arc::clone(&of_server);
        hyper::service::service_fn(move |_: Request<Incoming>| {
            let number = hits.fetch_add(1, Ordering::SeqCst);
            async move {
                if number < requests {
                    pending::<()>().await;
                }
                Ok::<_, Infallible>(Response::new(Empties::new()))
            }
        })
    })
    .await;
    (address, hits)
}

fn request_to(server: SocketAddr) -> Request<Empties> {
    Request::get(format!("http://{server}/")).body(Empty::new()).unwrap()
}

async fn send<S, R>(client: &mut S, request: Request<Empties>) -> Result<Response<R>, StackError>
where
    S: Service<Request<Empties>, Response = Response<R>, Error = StackError>,
{
    client.ready().await?.call(request).await
}

/// The names of the layers, in the order in which a request reaches them.
type Events = Arc<Mutex<Vec<&'static str>>>;

/// A layer that logs when a request reaches it.
#[derive(Clone)]
struct Logged(&'static str, Events);

#[derive(Clone)]
struct LoggedService<S>(S, Logged);

impl<S> Layer<S> for Logged {
    type Service = LoggedService<S>;

    fn layer(&self, service: S) -> LoggedService<S> {
        LoggedService(service, self.clone())
    }
}

impl<S: Service<R>, R> Service<R> for LoggedService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        let Logged(name, events) = &self.1;
        events.lock().unwrap().push(name);
        self.0.call(request)
    }
}

fn answered<B>(_: Request<B>) -> Ready<Result<Response<Empties>, Infallible>> {
    ready(Ok(Response::new(Empty::new())))
}

/// The order is the guide's, whichever setter is called first.
#[tokio::test]
async fn every_order_of_the_setters_makes_the_guides_order() {
    let events = Events::default();
    let log = |name| Logged(name, Arc::clone(&events));
    let mut in_order = client_stack()
        .deadline_layer(log("deadline"))
        .breaker_layer(log("breaker"))
        .retry_layer(log("retry"))
        .pacing_layer(log("pacing"))
        .hedge_layer(log("hedge"))
        .throttle_layer(log("throttle"))
        .limit_layer(log("limit"))
        .concurrency_layer(log("concurrency"))
        .attempt_timeout_layer(log("attempt timeout"))
        .boxed(service_fn(answered));
    let mut reversed = client_stack()
        .attempt_timeout_layer(log("attempt timeout"))
        .concurrency_layer(log("concurrency"))
        .limit_layer(log("limit"))
        .throttle_layer(log("throttle"))
        .hedge_layer(log("hedge"))
        .pacing_layer(log("pacing"))
        .retry_layer(log("retry"))
        .breaker_layer(log("breaker"))
        .deadline_layer(log("deadline"))
        .boxed(service_fn(answered));
    let mut mixed = client_stack()
        .limit_layer(log("replaced"))
        .hedge_layer(log("hedge"))
        .deadline_layer(log("deadline"))
        .attempt_timeout_layer(log("attempt timeout"))
        .limit_layer(log("limit"))
        .breaker_layer(log("breaker"))
        .concurrency_layer(log("concurrency"))
        .pacing_layer(log("pacing"))
        .retry_layer(log("retry"))
        .throttle_layer(log("throttle"))
        .boxed(service_fn(answered));
    for client in [&mut in_order, &mut reversed, &mut mixed] {
        send(client, Request::new(Empty::new())).await.unwrap();
        assert_eq!(
            std::mem::take(&mut *events.lock().unwrap()),
            ["deadline", "breaker", "retry", "pacing", "hedge", "throttle", "limit", "concurrency", "attempt timeout"]
        );
    }
}

/// The retry repeats the first request, which fails, and the second one, which hangs like its hedge.
///
/// A hedge alone would repeat the failure at once: see `layers_in_the_guides_order_make_one_call_of_four_requests`.
#[tokio::test]
async fn two_orders_of_the_setters_make_one_call_of_the_same_four_requests() {
    const WAIT: Duration = Duration::from_millis(150);
    let retry = || Retry::new(3).backoff(Backoff::constant(WAIT).jitter(Jitter::None));
    let deadlines = || ClientDeadlineLayer::new(LONG).header(TIMEOUT, TimeoutUnit::Milliseconds);
    for is_in_order in [true, false] {
        let timeouts = Arc::new(Mutex::new(Vec::<u64>::new()));
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
                        pending::<()>().await;
                    }
                    let status = if number == 1 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
                    Ok::<_, Infallible>(Response::builder().status(status).body(Empties::new()).unwrap())
                }
            })
        })
        .await;
        let breaker = Arc::new(CircuitBreaker::new(failures(1)));
        let limit = Arc::new(RateLimiter::new(Quota::per_hour(1).burst(4)));
        let hedge = Arc::new(hedge_after(WAIT / 3));
        let mut client = if is_in_order {
            client_stack()
                .deadline_layer(deadlines())
                .breakers(Arc::clone(&breaker))
                .retry(retry())
                .hedge(Arc::clone(&hedge))
                .limit_layer(GateLayer::limit(Arc::clone(&limit)))
                .attempt_timeout(2 * WAIT)
                .boxed(transport())
        } else {
            client_stack()
                .attempt_timeout(2 * WAIT)
                .limit_layer(GateLayer::limit(Arc::clone(&limit)))
                .hedge(Arc::clone(&hedge))
                .retry(retry())
                .breakers(Arc::clone(&breaker))
                .deadline_layer(deadlines())
                .boxed(transport())
        };
        let response = send(&mut client, request_to(server)).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let timeouts = timeouts.lock().unwrap().clone();
        assert_eq!(timeouts.len(), 4, "{timeouts:?}");
        assert!(timeouts.is_sorted_by(|earlier, later| earlier >= later), "{timeouts:?}");
        let waits = [WAIT, WAIT / 3, 2 * WAIT + WAIT]; // the backoff, the hedge's delay, the timeout of the hedge and the backoff
        for (sent, wait) in timeouts.windows(2).zip(waits) {
            assert!(sent[0] >= sent[1] + wait.as_millis() as u64, "{timeouts:?}");
        }
        assert_eq!(hedge.status().made(), 1, "the retry repeats failures, and the hedge slow calls");
        assert_eq!(limit.peek().remaining(), 0, "the limit counted every request");
        assert_eq!(breaker.state(), State::Closed, "the breaker counted one success");
        let error = send(&mut client, request_to(server)).await.unwrap_err();
        assert_eq!((error.part(), error.attempts()), (StackPart::Limit, Some(1)), "{error}");
        assert_eq!(breaker.state(), State::Closed, "a refusal of the inner limit is no failure of the server");
    }
}

/// Makes a boxed client for each subset of at most as many setters as the brackets have tokens.
///
/// Each subset is a type of its own, which takes the compiler half a second. Two parts show how one changes the other.
macro_rules! few {
    ($stack:expr, $clients:ident, [$($left:tt)*];) => {
        $clients.extend([$stack.boxed(transport())]);
    };
    ($stack:expr, $clients:ident, []; $($rest:tt)+) => {
        $clients.extend([$stack.boxed(transport())]);
    };
    ($stack:expr, $clients:ident, [$one:tt $($left:tt)*]; $setter:ident($($argument:expr),*) $($rest:tt)*) => {
        few!($stack, $clients, [$one $($left)*]; $($rest)*);
        few!($stack.$setter($($argument),*), $clients, [$($left)*]; $($rest)*);
    };
}

/// Makes a boxed client for all of these setters, and for all but each of them.
macro_rules! all_but_one {
    ($stack:expr, $clients:ident;) => {
        $clients.extend([$stack.boxed(transport())]);
    };
    ($stack:expr, $clients:ident; $setter:ident $arguments:tt $($rest:ident $others:tt)*) => {
        $clients.extend([$stack$(.$rest $others)*.boxed(transport())]);
        all_but_one!($stack.$setter $arguments, $clients; $($rest $others)*);
    };
}

#[tokio::test]
async fn few_and_nearly_all_of_the_parts_respond() {
    let upstream = Upstream::start().await;
    let mut clients: Vec<BoxedClient<Empties>> = Vec::new();
    few!(client_stack(), clients, [1 2];
        attempt_timeout(LONG) deadline(LONG) retry(quick(2)) limit(Quota::per_second(1_000))
        hedge(hedge_after(LONG)) breaker_per_host(BreakerConfig::default()) throttle_per_host());
    all_but_one!(client_stack(), clients;
        attempt_timeout(LONG) deadline(LONG) retry(quick(2)) limit(Quota::per_second(1_000))
        hedge(hedge_after(LONG)) breaker_per_host(BreakerConfig::default()) throttle_per_host());
    let all = client_stack()
        .pacing_per_host(Quota::per_second(1_000))
        .throttle_per_host()
        .concurrency_layer(GateLayer::limit(Arc::new(Bulkhead::new(1))));
    few!(all.clone(), clients, [1 2]; retry(quick(2)) hedge(hedge_after(LONG)));
    // None, seven, and 21 pairs; all, and all but each of the seven; four with a pacer.
    assert_eq!(clients.len(), 29 + 8 + 4);
    for (number, client) in clients.iter_mut().enumerate() {
        let response = send(client, upstream.request()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "client {number}");
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "upstream");
    }
    assert_eq!(upstream.hits(), clients.len());
}

/// Without a budget an outage gets three requests for each call.
#[tokio::test]
async fn retries_for_which_no_budget_is_set_have_one() {
    async fn requests_of_an_outage<N>(retry: Retry<DefaultClock, N>) -> usize
    where
        N: Budget + Send + Sync + 'static,
    {
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        let transport = service_fn(move |_: Request<Empties>| {
            counted.fetch_add(1, Ordering::Relaxed);
            ready(Ok::<_, Infallible>(Response::builder().status(503).body(Empties::new()).unwrap()))
        });
        let mut client = client_stack().retry(retry).boxed(transport);
        for _ in 0..300 {
            send(&mut client, Request::get("http://one.example.com/").body(Empty::new()).unwrap()).await.unwrap();
        }
        requests.load(Ordering::Relaxed)
    }

    let requests = requests_of_an_outage(quick(3)).await;
    // 20 % of 300, and ten a second, saved up for ten seconds.
    assert!((360..850).contains(&requests), "{requests} requests");
    assert_eq!(requests_of_an_outage(quick(3).budget(Unlimited)).await, 900);
}

/// A gate that is closed for five seconds, and counts how often it is asked.
#[derive(Clone, Default)]
struct Closed(Arc<AtomicUsize>);

#[derive(Clone, Debug)]
struct ClosedForFiveSeconds;

impl fmt::Display for ClosedForFiveSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closed for 5 s")
    }
}

impl Error for ClosedForFiveSeconds {}

impl Refusal for ClosedForFiveSeconds {
    fn kind(&self) -> RefusalKind {
        RefusalKind::Unavailable
    }

    fn retry_after(&self) -> Option<Duration> {
        Some(Duration::from_secs(5))
    }
}

impl Gate for Closed {
    type Permit = ();
    type Refusal = ClosedForFiveSeconds;
    type Wait = Never<(), ClosedForFiveSeconds>;
}

impl Ask<Head<'_>> for Closed {
    fn ask(&self, _: &Head<'_>) -> AnswerOf<Self> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Answer::Refuse(ClosedForFiveSeconds)
    }
}

/// A refusal that damper does not know is one to all parts.
///
/// It ends retries, the breaker ignores it, and the error has its wait.
#[tokio::test]
async fn gate_of_ones_own_refuses_in_a_stack() {
    let (closed_port, closed) = (ClosedPort::new(), Closed::default());
    let breaker = Arc::new(CircuitBreaker::new(BreakerConfig::builder().failure_threshold(1).build().unwrap()));
    let mut client = client_stack()
        .breakers(Arc::clone(&breaker))
        .retry(quick(3))
        .limit_layer(GateLayer::at(ClientGate::new(closed.clone())))
        .service(transport());
    let error = send(&mut client, request_to(closed_port.address())).await.unwrap_err();
    assert_eq!((error.part(), error.retry_after()), (StackPart::Limit, Some(Duration::from_secs(5))));
    assert!(error.is_refusal(), "{error:?}");
    assert_eq!(format!("{error:#}"), "call refused by the rate limit: closed for 5 s");
    assert_eq!((closed.0.load(Ordering::Relaxed), breaker.state()), (1, State::Closed));
    let refused: CallError<Box<dyn Error + Send + Sync>, _> = CallError::Refused(ClosedForFiveSeconds);
    assert!(damper::is_refusal(&*refused.into_boxed()));
}

/// With any parts, a refused connection is the transport's error and can be downcast.
#[tokio::test]
async fn any_parts_keep_the_transports_error() {
    let closed_port = ClosedPort::new();
    let dead = closed_port.address();
    let mut clients: Vec<BoxedClient<Empties>> = Vec::new();
    few!(client_stack(), clients, [1 2];
        attempt_timeout(LONG) deadline(LONG) retry(quick(2)) breaker_per_host(BreakerConfig::default()));
    all_but_one!(client_stack(), clients;
        attempt_timeout(LONG) deadline(LONG) retry(quick(2)) breaker_per_host(BreakerConfig::default()));
    for (number, client) in clients.iter_mut().enumerate() {
        let error = send(client, request_to(dead)).await.unwrap_err();
        let has_retries = error.attempts().is_some();
        let part = if has_retries { StackPart::Retry } else { StackPart::Transport };
        assert_eq!((error.part(), error.is_refusal()), (part, false), "client {number}: {error}");
        let mut source: Option<&(dyn Error + 'static)> = error.source();
        while source.is_some_and(|error| !error.is::<legacy::Error>()) {
            source = source.and_then(Error::source);
        }
        assert!(source.and_then(|error| error.downcast_ref()).is_some_and(legacy::Error::is_connect), "{error:?}");
    }
}

/// The messages of an error and of its sources.
fn sentences(error: &StackError) -> Vec<String> {
    std::iter::successors(Some(error as &(dyn Error + 'static)), |&error| error.source())
        .map(ToString::to_string)
        .collect()
}

#[tokio::test]
async fn chain_of_sources_repeats_no_message() {
    let closed_port = ClosedPort::new();
    let dead = closed_port.address();
    let upstream = Upstream::start().await;
    let mut errors = Vec::new();
    errors.push(send(&mut client_stack().retry(quick(2)).service(transport()), request_to(dead)).await.unwrap_err());
    errors.push(send(&mut client_stack().service(transport()), request_to(dead)).await.unwrap_err());
    let mut limited = client_stack().limit(Quota::per_minute(0)).service(transport());
    errors.push(send(&mut limited, upstream.request()).await.unwrap_err());
    let mut late = client_stack().deadline(Duration::ZERO).service(transport());
    errors.push(send(&mut late, upstream.request()).await.unwrap_err());
    let mut hanging = client_stack().retry(quick(1).deadline(Deadline::after(SHORT))).service(transport());
    errors.push(send(&mut hanging, request_to(hanging_first(1).await.0)).await.unwrap_err());
    for error in errors {
        let sentences = sentences(&error);
        for (number, sentence) in sentences.iter().enumerate() {
            let earlier = sentences.get(..number).unwrap();
            assert!(!earlier.iter().any(|earlier| earlier.contains(sentence)), "{sentences:?}");
        }
        assert_eq!(format!("{error:#}"), sentences.join(": "));
    }
}

/// The first attempt finds no server, and the client's own limit refuses the second.
#[tokio::test]
async fn retry_that_a_limit_refuses_keeps_the_servers_failure() {
    let closed_port = ClosedPort::new();
    let dead = closed_port.address();
    let mut client = client_stack().retry(quick(3)).limit(Quota::per_hour(1)).service(transport());
    let error = send(&mut client, request_to(dead)).await.unwrap_err();
    assert_eq!((error.part(), error.attempts(), error.is_refusal()), (StackPart::Limit, Some(2), true));
    let previous = error.previous_attempt().unwrap();
    assert_eq!(previous.part(), StackPart::Transport);
    let text = format!("{error:#}");
    assert!(text.starts_with("call refused by the rate limit in attempt 2: rate limit exceeded, "), "{text}");
    assert!(text.contains(" (after: call failed: ") && text.contains("refused (os error"), "{text}");
    let error = send(&mut client, request_to(dead)).await.unwrap_err();
    assert!(error.previous_attempt().is_none(), "the first attempt was refused");
}

#[tokio::test]
async fn deadline_alone_is_named() {
    let (server, _) = hanging_first(9).await;
    let mut client = client_stack().deadline(SHORT).service(transport());
    let error = send(&mut client, request_to(server)).await.unwrap_err();
    assert_eq!((error.part(), error.retry_after(), error.attempts()), (StackPart::Deadline, None, None));
    assert_eq!(DeadlineExceeded::find_in(&error).unwrap().specified(), SHORT);
    let text = format!("{error:#}");
    assert!(text.starts_with("call ended by its deadline: deadline of 100 ms exceeded, "), "{text}");
}

#[tokio::test]
async fn breaker_alone_is_named_with_its_wait() {
    let upstream = Upstream::start().await;
    upstream.answer(StatusCode::INTERNAL_SERVER_ERROR);
    let mut client = client_stack().breaker_per_host(failures(2)).service(transport());
    for _ in 0..2 {
        let response = send(&mut client, upstream.request()).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR, "the response is the server's");
    }
    let error = send(&mut client, upstream.request()).await.unwrap_err();
    assert_eq!((error.part(), error.is_refusal(), upstream.hits()), (StackPart::Breaker, true, 2));
    assert_eq!(error.retry_after(), CircuitOpen::find_in(&error).unwrap().retry_after());
    assert!(error.retry_after().is_some_and(|wait| !wait.is_zero() && wait <= Duration::from_secs(30)));
    let text = format!("{error:#}");
    assert!(text.starts_with("call refused by the breaker: circuit open, next probe in "), "{text}");
}

#[tokio::test]
async fn throttle_alone_is_named_with_its_wait() {
    let upstream = Upstream::start().await;
    upstream.answer(StatusCode::SERVICE_UNAVAILABLE);
    let mut client = client_stack().throttle_per_host().service(transport());
    let error = loop {
        match send(&mut client, upstream.request()).await {
            Ok(response) => assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE),
            Err(error) => break error,
        }
        assert!(upstream.hits() < 1_000);
    };
    assert_eq!((error.part(), error.is_refusal()), (StackPart::Throttle, true));
    assert_eq!(error.retry_after(), Throttled::find_in(&error).map(Throttled::retry_after));
    assert!(error.retry_after().is_some_and(|wait| wait <= Duration::from_secs(1)));
    let text = format!("{error:#}");
    assert!(text.starts_with("call refused by the throttle: throttled, "), "{text}");
}

#[tokio::test]
async fn bulkhead_alone_is_named_and_a_dropped_call_gives_its_permit_back() {
    let (server, _) = hanging_first(1).await;
    let bulkhead = Arc::new(Bulkhead::new(1));
    let mut client = client_stack().concurrency_layer(GateLayer::limit(bulkhead)).boxed(transport());
    let mut hanging = client.ready().await.unwrap().call(request_to(server));
    assert!(tokio::time::timeout(SHORT, &mut hanging).await.is_err());
    let error = send(&mut client, request_to(server)).await.unwrap_err();
    assert_eq!((error.part(), error.is_refusal()), (StackPart::Concurrency, true));
    let text = format!("{error:#}");
    assert_eq!(text, "call refused by the concurrency limit: too many calls in flight, limit 1");
    assert_eq!(error.retry_after(), None);
    drop(hanging);
    assert_eq!(send(&mut client, request_to(server)).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn limit_alone_is_named_with_its_wait() {
    let upstream = Upstream::start().await;
    let mut client = client_stack().limit(Quota::per_minute(1)).service(transport());
    send(&mut client, upstream.request()).await.unwrap();
    let error = send(&mut client, upstream.request()).await.unwrap_err();
    assert_eq!((error.part(), error.is_refusal(), upstream.hits()), (StackPart::Limit, true, 1));
    assert!(error.retry_after().is_some_and(|wait| wait > Duration::from_secs(30) && wait <= LONG), "{error}");
    assert!(error.source().unwrap().is::<Denied>());
    let text = format!("{error:#}");
    assert!(text.starts_with("call refused by the rate limit: rate limit exceeded, retry in "), "{text}");
}

#[tokio::test]
async fn attempt_timeout_alone_is_named() {
    let (server, _) = hanging_first(9).await;
    let mut client = client_stack().attempt_timeout(SHORT).service(transport());
    let began = Instant::now();
    let error = send(&mut client, request_to(server)).await.unwrap_err();
    assert!(began.elapsed() >= SHORT);
    assert_eq!((error.part(), error.is_refusal()), (StackPart::AttemptTimeout, false));
    assert_eq!(AttemptTimedOut::find_in(&error).unwrap().timeout(), SHORT);
    assert_eq!(format!("{error:#}"), "attempt ended by its timeout: attempt timed out after 100 ms");
}

#[tokio::test]
async fn tower_timeout_in_the_place_of_the_attempt_timeout_is_named() {
    let (server, hits) = hanging_first(1).await;
    let timeout = TimeoutLayer::new(SHORT);
    let mut client = client_stack().attempt_timeout_layer(timeout).service(transport());
    let error = send(&mut client, request_to(server)).await.unwrap_err();
    assert_eq!(error.part(), StackPart::AttemptTimeout);
    assert!(error.source().unwrap().is::<tower::timeout::error::Elapsed>());
    assert_eq!(hits.load(Ordering::SeqCst), 1);
}

/// The timeout is that of an attempt, so another attempt follows.
#[tokio::test]
async fn attempt_that_times_out_is_tried_again() {
    let (server, hits) = hanging_first(2).await;
    let mut client = client_stack().retry(quick(3)).attempt_timeout(SHORT).service(transport());
    assert_eq!(send(&mut client, request_to(server)).await.unwrap().status(), StatusCode::OK);
    assert_eq!(hits.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn hedge_alone_completes_a_hanging_call() {
    let (server, hits) = hanging_first(1).await;
    let mut client = client_stack().hedge(hedge_after(SHORT)).service(transport());
    assert_eq!(send(&mut client, request_to(server)).await.unwrap().status(), StatusCode::OK);
    assert_eq!(hits.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn exhausted_retries_are_named_with_their_number() {
    let (server, hits) = hanging_first(9).await;
    let mut client = client_stack().retry(quick(2)).attempt_timeout(SHORT).service(transport());
    let error = send(&mut client, request_to(server)).await.unwrap_err();
    assert_eq!((error.part(), error.attempts(), error.is_refusal()), (StackPart::Retry, Some(2), false));
    let gave_up = error.source().unwrap().downcast_ref::<RetryError<StackError>>().unwrap();
    assert_eq!(gave_up.reason(), GaveUp::Attempts);
    assert_eq!(gave_up.error().unwrap().part(), StackPart::AttemptTimeout);
    let text = format!("{error:#}");
    assert!(text.starts_with("call given up by the retries: gave up after 2 attempts in "), "{text}");
    let end = ": no attempts left: attempt ended by its timeout: attempt timed out after 100 ms";
    assert!(text.contains(end), "{text}");
    assert_eq!(hits.load(Ordering::SeqCst), 2);
}

/// All attempts are used up. The caller gets the last response, as without a stack.
#[tokio::test]
async fn last_response_reaches_the_caller_when_the_retries_give_up() {
    let upstream = Upstream::start().await;
    upstream.answer(StatusCode::SERVICE_UNAVAILABLE);
    let mut client = client_stack().retry(quick(3)).service(transport());
    let response = send(&mut client, upstream.request()).await.unwrap();
    assert_eq!((response.status(), upstream.hits()), (StatusCode::SERVICE_UNAVAILABLE, 3));
}

/// A request that may not be repeated fails with the transport's error, not with the retry's.
#[tokio::test]
async fn error_that_is_not_retried_is_named_after_the_part_that_returned_it() {
    let (server, hits) = hanging_first(9).await;
    let mut client = client_stack().attempt_timeout(SHORT).retry(quick(3)).service(transport());
    let request = Request::post(format!("http://{server}/")).body(Empty::new()).unwrap();
    let error = send(&mut client, request).await.unwrap_err();
    assert_eq!((error.part(), error.attempts()), (StackPart::AttemptTimeout, Some(1)), "{error}");
    assert_eq!(hits.load(Ordering::SeqCst), 1);
}

/// Three failed attempts count as one failure for the breaker outside.
///
/// Once open, the breaker costs neither an attempt nor a wait.
#[tokio::test]
async fn call_that_used_up_its_retries_is_one_failure() {
    let upstream = Upstream::start().await;
    upstream.answer(StatusCode::SERVICE_UNAVAILABLE);
    let breaker = Arc::new(CircuitBreaker::new(failures(2)));
    let mut client = client_stack().retry(quick(3)).breakers(Arc::clone(&breaker)).deadline(LONG).service(transport());
    for (calls, state) in [(1, State::Closed), (2, State::Open)] {
        assert_eq!(send(&mut client, upstream.request()).await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!((upstream.hits(), breaker.state()), (3 * calls, state));
    }
    let error = send(&mut client, upstream.request()).await.unwrap_err();
    assert_eq!((error.part(), error.attempts(), upstream.hits()), (StackPart::Breaker, None, 6));
}

/// The same with errors instead of responses: the classifiers look inside the stack's error.
#[tokio::test]
async fn errors_of_the_transport_count_once_at_the_breaker_and_refusals_never() {
    let closed_port = ClosedPort::new();
    let dead = closed_port.address();
    let breaker = Arc::new(CircuitBreaker::new(failures(2)));
    let limit = Arc::new(RateLimiter::new(Quota::per_hour(1).burst(5)));
    let mut client = client_stack()
        .limit_layer(GateLayer::limit(Arc::clone(&limit)))
        .retry(quick(4))
        .breakers(Arc::clone(&breaker))
        .service(transport());
    let error = send(&mut client, request_to(dead)).await.unwrap_err();
    assert_eq!(
        (error.part(), error.attempts(), breaker.status().consecutive_failures()),
        (StackPart::Retry, Some(4), 1)
    );
    // The fifth request takes the last token, and the sixth is refused.
    let error = send(&mut client, request_to(dead)).await.unwrap_err();
    assert_eq!((error.part(), error.attempts()), (StackPart::Limit, Some(2)), "{error}");
    assert_eq!((breaker.status().consecutive_failures(), breaker.state()), (1, State::Closed));
}

/// A server that streams without end.
#[tokio::test]
async fn deadline_ends_the_body() {
    let server = serve(move |_| {
        hyper::service::service_fn(async |_: Request<Incoming>| {
            let frames =
                stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from("first")))]).chain(stream::pending());
            Ok::<_, Infallible>(Response::new(StreamBody::new(frames)))
        })
    })
    .await;
    let mut client = client_stack().retry(quick(2)).attempt_timeout(LONG).deadline(5 * SHORT).service(transport());
    let response = send(&mut client, request_to(server)).await.unwrap();
    let mut body = pin!(response.into_body());
    assert_eq!(body.frame().await.unwrap().map_err(|_| ()).unwrap().into_data().unwrap(), "first");
    let error = body.frame().await.unwrap().unwrap_err();
    assert!(DeadlineExceeded::find_in(&*error).is_some(), "{error}");
}

/// The retry and the deadline layer outside it see the same deadline.
#[tokio::test]
async fn deadline_ends_waits_and_attempts() {
    let (server, hits) = hanging_first(9).await;
    let retry = Retry::new(9).backoff(Backoff::constant(SHORT).jitter(Jitter::None));
    let mut client = client_stack().attempt_timeout(SHORT).retry(retry).deadline(5 * SHORT / 2).service(transport());
    let began = Instant::now();
    let error = send(&mut client, request_to(server)).await.unwrap_err();
    assert!(began.elapsed() < LONG / 2);
    // The retries may notice earlier that no further attempt fits.
    assert!(matches!(error.part(), StackPart::Deadline | StackPart::Retry), "{error}");
    assert!((1..=2).contains(&hits.load(Ordering::SeqCst)));
}

/// The layer keeps its settings: a closure that names the stack's error type, and `min_budget`.
#[tokio::test]
async fn custom_layers_keep_their_rules() {
    let upstream = Upstream::start().await;
    upstream.answer(StatusCode::NOT_FOUND);
    let breaker = Arc::new(CircuitBreaker::new(failures(1)));
    let breakers = CircuitBreakerLayer::new(Arc::clone(&breaker)).min_budget(SHORT).classify(
        |response: Result<&ResponseHead<'_>, &StackError>| match response {
            Ok(head) if head.status == StatusCode::NOT_FOUND => Verdict::of(Ending::Failed),
            other => Statuses::judge(other.map_err(|error| error as _)),
        },
    );
    let retries = RetryLayer::new(quick(2)).when(|response: Result<&ResponseHead<'_>, &StackError>| {
        response.is_ok_and(|head| head.status == StatusCode::NOT_FOUND).then_some(Failure::TRANSIENT)
    });
    let mut client = client_stack().breaker_layer(breakers).retry_layer(retries).service(transport());
    assert_eq!(send(&mut client, upstream.request()).await.unwrap().status(), StatusCode::NOT_FOUND);
    assert_eq!((upstream.hits(), breaker.state()), (2, State::Open));
}

/// With every part, readiness is that of the innermost client.
#[tokio::test]
async fn stack_is_ready_when_its_client_is() {
    #[derive(Clone)]
    struct Busy;

    impl Service<Request<Empties>> for Busy {
        type Response = Response<Empties>;
        type Error = Infallible;
        type Future = Ready<Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Pending
        }

        fn call(&mut self, _: Request<Empties>) -> Self::Future {
            unreachable!("the client is never ready")
        }
    }

    let breaker = Arc::new(CircuitBreaker::default());
    let mut client = client_stack()
        .deadline(LONG)
        .breakers(Arc::clone(&breaker))
        .retry(quick(3))
        .hedge(hedge_after(SHORT))
        .limit(Quota::per_second(1))
        .attempt_timeout(LONG)
        .service(Busy);
    let mut context = Context::from_waker(Waker::noop());
    assert!(client.poll_ready(&mut context).is_pending());
    // An open breaker for all requests does not poll the client.
    breaker.force_open();
    assert!(matches!(client.poll_ready(&mut context), Poll::Ready(Ok(()))));
    let error = client.call(Request::new(Empty::new())).await.unwrap_err();
    assert_eq!(error.part(), StackPart::Breaker);
    assert_eq!(format!("{error:#}"), "call refused by the breaker: circuit forced open");
}

/// An error of the client's `poll_ready` is the transport's.
#[tokio::test]
async fn client_that_fails_to_become_ready_is_named() {
    #[derive(Clone)]
    struct Broken;

    impl Service<Request<Empties>> for Broken {
        type Response = Response<Empties>;
        type Error = std::io::Error;
        type Future = Ready<Result<Self::Response, std::io::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
            Poll::Ready(Err(std::io::Error::other("closed")))
        }

        fn call(&mut self, _: Request<Empties>) -> Self::Future {
            unreachable!("the client is never ready")
        }
    }

    let mut client = client_stack()
        .deadline(LONG)
        .breaker_per_host(BreakerConfig::default())
        .retry(quick(3))
        .hedge(hedge_after(SHORT))
        .limit(Quota::per_second(1))
        .attempt_timeout(LONG)
        .service(Broken);
    let error = poll_fn(|context| client.poll_ready(context)).await.unwrap_err();
    assert_eq!((error.part(), format!("{error:#}").as_str()), (StackPart::Transport, "call failed: closed"));
    assert!(error.source().unwrap().is::<std::io::Error>());
}

/// A dropped call gives back the probe's place and the transport's call.
#[tokio::test]
async fn dropped_call_frees_all_its_resources() {
    static IN_FLIGHT: AtomicUsize = AtomicUsize::new(0);
    struct Held;
    impl Drop for Held {
        fn drop(&mut self) {
            IN_FLIGHT.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let hanging = service_fn(async |_: Request<Empties>| {
        IN_FLIGHT.fetch_add(1, Ordering::SeqCst);
        let _held = Held;
        pending::<()>().await;
        Ok::<_, Infallible>(Response::new(Empties::new()))
    });
    let config = BreakerConfig::builder().failure_threshold(1).cooldown(Duration::from_millis(1)).build().unwrap();
    let breaker = Arc::new(CircuitBreaker::new(config));
    breaker.call(|| Err::<(), _>(std::fmt::Error)).unwrap_err();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let mut client = client_stack()
        .deadline(LONG)
        .breakers(Arc::clone(&breaker))
        .retry(quick(3))
        .hedge(hedge_after(Duration::from_millis(1)))
        .attempt_timeout(LONG)
        .boxed(hanging);
    {
        let mut call = client.ready().await.unwrap().call(Request::new(Empty::new()));
        let both = tokio::time::timeout(SHORT, &mut call).await;
        assert!(both.is_err());
        assert_eq!(IN_FLIGHT.load(Ordering::SeqCst), 2, "the first attempt and its hedge");
        let refused = breaker.try_acquire().unwrap_err();
        assert_eq!(refused.retry_after(), None, "a probe is in flight");
    }
    assert_eq!(IN_FLIGHT.load(Ordering::SeqCst), 0);
    breaker.try_acquire().unwrap().success();
}

#[tokio::test]
async fn clones_of_a_boxed_client_share_the_parts() {
    struct Payments {
        client: BoxedClient<Empties>,
    }

    let upstream = Upstream::start().await;
    let stack = client_stack().limit(two_requests());
    let mut first = Payments { client: stack.boxed(transport()) };
    let mut second = Payments { client: first.client.clone() };
    send(&mut first.client, upstream.request()).await.unwrap();
    send(&mut second.client, upstream.request()).await.unwrap();
    assert_eq!(send(&mut first.client, upstream.request()).await.unwrap_err().part(), StackPart::Limit);
    // Services made by one stack share them too.
    let mut third = stack.service(transport());
    assert_eq!(send(&mut third, upstream.request()).await.unwrap_err().part(), StackPart::Limit);
}

/// Within other layers of tower, and across tasks.
#[tokio::test]
async fn stack_is_a_layer_of_tower() {
    let upstream = Upstream::start().await;
    let stack = client_stack().deadline(LONG).retry(quick(2)).breaker_single(BreakerConfig::default());
    let client = ServiceBuilder::new().map_err(|error: StackError| error.part()).layer(stack).service(transport());
    let request = upstream.request();
    let status = tokio::spawn(async move { client.oneshot(request).await.map(|response| response.status()) });
    assert_eq!(status.await.unwrap(), Ok(StatusCode::OK));
}

/// In a stack around a stack, the inner part is named.
#[tokio::test]
async fn error_of_a_stack_within_a_stack_keeps_its_part() {
    let upstream = Upstream::start().await;
    let inner = client_stack().limit(Quota::per_hour(0)).service(transport());
    let mut client = client_stack().deadline(LONG).service(inner);
    let error = send(&mut client, upstream.request()).await.unwrap_err();
    assert_eq!((error.part(), error.is_refusal(), upstream.hits()), (StackPart::Limit, true, 0));
}

#[test]
fn error_of_a_stack_is_one_pointer() {
    fn is_error<E: Error + Send + Sync + 'static>() {}
    is_error::<StackError>();
    assert_eq!(size_of::<StackError>(), size_of::<usize>());
    assert_eq!(size_of::<Result<(), StackError>>(), size_of::<usize>());
}

/// The labels are distinct.
#[test]
fn parts_have_names() {
    use StackPart::*;
    let parts = [Deadline, Breaker, Retry, Pacing, Hedge, Throttle, Limit, Concurrency, AttemptTimeout, Transport];
    let names: std::collections::BTreeSet<_> = parts.into_iter().map(StackPart::as_str).collect();
    assert_eq!(names.len(), parts.len());
    assert_eq!(Breaker.to_string(), "breaker");
}

/// A server's handler, and the number of its calls.
fn counted() -> (axum::Router, Arc<AtomicUsize>) {
    let hits = Arc::new(AtomicUsize::new(0));
    let of_handler = Arc::clone(&hits);
    let handler = move || {
        of_handler.fetch_add(1, Ordering::SeqCst);
        ready("hello")
    };
    (axum::Router::new().route("/", axum::routing::get(handler)), hits)
}

fn deadlines() -> DeadlineLayer<damper::time::TokioSleep> {
    DeadlineLayer::new(LONG).header(TIMEOUT, TimeoutUnit::Milliseconds)
}

#[tokio::test]
async fn expired_request_takes_no_token_and_limited_request_reaches_no_handler() {
    for is_in_order in [true, false] {
        let limit = Arc::new(RateLimiter::new(Quota::per_hour(1).burst(1)));
        let (router, hits) = counted();
        let limited = RateLimitLayer::new(Arc::clone(&limit));
        let each = RateLimitLayer::per_client(Quota::per_hour(1).burst(2));
        let router = if is_in_order {
            let stack = server_stack().deadline_layer(deadlines()).client_limit_layer(each).limit_layer(limited);
            router.layer(stack)
        } else {
            let stack = server_stack().limit_layer(limited).client_limit_layer(each).deadline_layer(deadlines());
            router.layer(stack)
        };
        let server = serve_axum(router).await;
        let mut client = support::Client::of(server).await;
        let expired = client.get_with("/", &[("x-timeout-ms", "0")]).await;
        assert_eq!((expired.status(), limit.peek().remaining()), (StatusCode::GATEWAY_TIMEOUT, 1));
        assert_eq!(hits.load(Ordering::SeqCst), 0);
        assert_eq!((client.get("/").await.status(), limit.peek().remaining()), (StatusCode::OK, 0));
        // The client still has a token, but the limit for all clients has none.
        assert_eq!(client.get("/").await.status(), StatusCode::TOO_MANY_REQUESTS);
        // The client's own limit refuses.
        assert_eq!(client.get("/").await.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(hits.load(Ordering::SeqCst), 1);
    }
}

/// The order of all parts, as seen by layers that log each request.
#[tokio::test]
async fn every_order_of_a_servers_setters_makes_the_same_order() {
    let events = Events::default();
    let log = |name| Logged(name, Arc::clone(&events));
    let in_order = server_stack()
        .deadline_layer(log("deadline"))
        .client_limit_layer(log("client limit"))
        .limit_layer(log("limit"))
        .admission_layer(log("admission"))
        .service(service_fn(answered));
    let reversed = server_stack()
        .admission_layer(log("admission"))
        .limit_layer(log("limit"))
        .client_limit_layer(log("client limit"))
        .deadline_layer(log("deadline"))
        .service(service_fn(answered));
    for server in [in_order, reversed] {
        server.oneshot(Request::new(Empties::new())).await.unwrap();
        assert_eq!(std::mem::take(&mut *events.lock().unwrap()), ["deadline", "client limit", "limit", "admission"]);
    }
}

/// The limit for each client comes before the limit for all.
///
/// A client over its own limit takes nothing from the others.
#[tokio::test]
async fn client_over_its_limit_takes_nothing_from_the_others() {
    let limit = Arc::new(RateLimiter::new(Quota::per_hour(1).burst(10)));
    let mut server = server_stack()
        .limit_layer(RateLimitLayer::new(Arc::clone(&limit)))
        .limit_per_client(two_requests())
        .service(service_fn(answered));
    let mut statuses = Vec::new();
    for _ in 0..5 {
        let request = Request::builder().extension(PeerAddress(([192, 0, 2, 7], 5_000).into()));
        let request = request.body(Empties::new()).unwrap();
        statuses.push(server.ready().await.unwrap().call(request).await.unwrap().status().as_u16());
    }
    assert_eq!((statuses.as_slice(), limit.peek().remaining()), (&[200, 200, 429, 429, 429][..], 8));
}

/// A hyper server that reports the peer of each connection.
#[tokio::test]
async fn hyper_serves_a_stack_for_each_peer() {
    let stack = server_stack().deadline(LONG).limit(Quota::per_second(100)).limit_per_client(two_requests());
    let server = serve(move |peer| stack.for_peer(peer).service(hyper::service::service_fn(support::hello))).await;
    let mut client = support::Client::of(server).await;
    assert_eq!(client.passes(5).await, 2);
    assert_eq!(support::Client::from(support::NEIGHBOUR, server).await.passes(5).await, 2);
}

/// The names of the plain limits appear in headers, metrics and logs.
#[tokio::test]
async fn plain_limits_of_a_server_have_names() {
    let mut server = server_stack().limit(Quota::per_hour(1).burst(1)).service(service_fn(answered));
    let mut send = async || server.ready().await.unwrap().call(Request::new(Empties::new())).await.unwrap();
    assert_eq!(send().await.status(), StatusCode::OK);
    let refused = send().await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers()["ratelimit"].to_str().unwrap().starts_with("\"server\";"), "{:?}", refused.headers());
}

/// The service's error is the handler's, unchanged.
#[tokio::test]
async fn error_of_the_handler_is_that_of_the_server() {
    #[derive(Debug, PartialEq)]
    struct HandlerError(u32);

    let limited = RateLimitLayer::global(Quota::per_second(100)).headers(Headers::OnAllResponses);
    let mut server = server_stack()
        .deadline(LONG)
        .limit_layer(limited)
        .service(service_fn(|_: Request<Empties>| ready(Err::<Response<Full<Bytes>>, _>(HandlerError(7)))));
    let result = server.ready().await.unwrap().call(Request::new(Empty::new())).await;
    assert_eq!(result.unwrap_err(), HandlerError(7));
}

/// A client with a deadline of 100 ms calls a server whose handler takes longer.
///
/// The client's stack sends the deadline, the server's stack enforces it, and the handler is dropped.
#[tokio::test]
async fn deadline_of_a_clients_stack_ends_the_handler_of_a_servers_stack() {
    let dropped = Arc::new(());
    let of_handler = Arc::clone(&dropped);
    let handler = move |axum::Extension(deadline): axum::Extension<Deadline>| {
        let held = Arc::clone(&of_handler);
        async move {
            assert!(deadline.remaining() <= SHORT);
            pending::<()>().await;
            drop(held);
        }
    };
    let app = axum::Router::new().route("/", axum::routing::get(handler));
    let server = serve_axum(app.layer(server_stack().deadline_layer(deadlines()))).await;
    let before = Arc::strong_count(&dropped);
    let mut client = client_stack()
        .deadline_layer(ClientDeadlineLayer::new(SHORT).header(TIMEOUT, TimeoutUnit::Milliseconds))
        .service(transport());
    let error = send(&mut client, request_to(server)).await.map(|response| response.status());
    // The server's 504 may arrive before the client's own deadline.
    match error {
        Ok(status) => assert_eq!(status, StatusCode::GATEWAY_TIMEOUT),
        Err(error) => assert_eq!(error.part(), StackPart::Deadline, "{error}"),
    }
    let mut waiting = pin!(async {
        while Arc::strong_count(&dropped) > before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    tokio::time::timeout(LONG, &mut waiting).await.expect("the handler is dropped");
}

/// reqwest has its own requests and responses.
#[tokio::test]
async fn reqwest_is_a_client_behind_a_stack() {
    let upstream = Upstream::start().await;
    let mut client = client_stack()
        .deadline(LONG)
        .retry(quick(2))
        .breaker_per_host(failures(1))
        .attempt_timeout(LONG)
        .service(HttpClient::new(reqwest::Client::new()));
    let request = Request::get(format!("http://{}/", upstream.address)).body(Bytes::new()).unwrap();
    let response = client.ready().await.unwrap().call(request).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "upstream");
}

/// reqwest rejects relative addresses. That is the caller's mistake and no attempt.
#[tokio::test]
async fn invalid_request_does_not_count_against_the_server() {
    let (breaker, throttle) = (Arc::new(CircuitBreaker::new(failures(1))), Arc::new(AdaptiveThrottle::new()));
    let mut client = client_stack()
        .retry(quick(3))
        .hedge(hedge_after(LONG))
        .breakers(Arc::clone(&breaker))
        .throttles(Arc::clone(&throttle))
        .service(HttpClient::new(reqwest::Client::new()));
    let error = client.ready().await.unwrap().call(Request::get("/").body(Bytes::new()).unwrap()).await.unwrap_err();
    assert_eq!((error.part(), error.attempts()), (StackPart::Transport, Some(1)), "{error}");
    assert_eq!(error.source().unwrap().to_string(), "request could not be made");
    assert!(RequestNotMade::find_in(&error).unwrap().source().is_some());
    assert_eq!((breaker.state(), breaker.status().consecutive_failures()), (State::Closed, 0));
    assert_eq!(throttle.status().requests(), 0);
}

/// The same without a stack.
#[tokio::test]
async fn retry_layer_does_not_repeat_a_request_that_cannot_be_made() {
    let mut client = ServiceBuilder::new()
        .layer(RetryLayer::new(quick(3)).when(Statuses::failure_boxed))
        .service(HttpClient::new(reqwest::Client::new()));
    let error = client.ready().await.unwrap().call(Request::get("/").body(Bytes::new()).unwrap()).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::NotRetryable, 1), "{error}");
    assert!(error.error().unwrap().is::<RequestNotMade>());
}

/// If the retries give up after a refusal, the error keeps the refusal's wait.
#[tokio::test]
async fn wait_of_the_last_refusal_is_kept_when_the_retries_give_up() {
    let retries = RetryLayer::new(quick(2))
        .when(|response: Result<&ResponseHead<'_>, &StackError>| response.is_err().then_some(Failure::TRANSIENT));
    let limit = Arc::new(RateLimiter::new(Quota::per_hour(1)));
    limit.check().unwrap();
    let mut client = client_stack().retry_layer(retries).limit_layer(GateLayer::limit(limit)).service(transport());
    let error = send(&mut client, Request::get("http://localhost/").body(Empty::new()).unwrap()).await.unwrap_err();
    assert_eq!((error.part(), error.attempts()), (StackPart::Retry, Some(2)), "{error}");
    assert!(error.retry_after().is_some_and(|wait| wait > LONG), "{:?}", error.retry_after());
}

/// The unread body of the first response holds the only slot, which the hedge needs.
#[tokio::test]
async fn hedge_that_is_refused_does_not_replace_the_response_of_the_server() {
    let upstream = Upstream::start().await;
    upstream.answer(StatusCode::SERVICE_UNAVAILABLE);
    let pool = Arc::new(Bulkhead::new(1));
    let mut client = client_stack()
        .hedge(hedge_after(LONG))
        .concurrency_layer(ClientConcurrencyLayer::new(Arc::clone(&pool)))
        .service(transport());
    let response = send(&mut client, upstream.request()).await.unwrap();
    assert_eq!((response.status(), upstream.hits()), (StatusCode::SERVICE_UNAVAILABLE, 2), "the hedge got the slot");
    assert_eq!(pool.in_flight(), 1);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "upstream", "the body is the last attempt's");
    assert_eq!(pool.in_flight(), 0);
    // A limit of one request an hour refuses the hedge.
    let mut client = client_stack().hedge(hedge_after(LONG)).limit(Quota::per_hour(1)).service(transport());
    let response = send(&mut client, upstream.request()).await.unwrap();
    assert_eq!((response.status(), upstream.hits()), (StatusCode::SERVICE_UNAVAILABLE, 3));
    assert!(!response.headers().contains_key("content-length"));
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "", "the response was discarded");
}

/// Each simple limit on a client's calls in flight, with a server that hangs.
#[tokio::test]
async fn call_over_a_clients_limit_is_refused_before_it_is_sent() {
    type MakeClient = fn() -> BoxedClient<Empties>;
    const ONE: LimitBounds = match LimitBounds::new(1, 1) {
        Ok(bounds) => bounds,
        Err(_) => LimitBounds::DEFAULT,
    };
    let makes: [(MakeClient, bool); 4] = [
        (|| client_stack().bulkhead(1).retry(quick(3)).boxed(transport()), false),
        (|| client_stack().retry(quick(3)).bulkhead_per_host(1).boxed(transport()), true),
        (|| client_stack().adaptive(ONE).retry(quick(3)).boxed(transport()), false),
        (|| client_stack().retry(quick(3)).adaptive_per_host(ONE).boxed(transport()), true),
    ];
    for (make, is_per_host) in makes {
        let ((hanging, hits), upstream, mut client) = (hanging_first(1).await, Upstream::start().await, make());
        let mut busy = client.clone();
        let mut first = Box::pin(send(&mut busy, request_to(hanging)));
        assert!(poll_fn(|context| Poll::Ready(first.as_mut().poll(context).is_pending())).await);
        let error = send(&mut client, request_to(hanging)).await.unwrap_err();
        assert_eq!((error.part(), error.attempts(), error.retry_after()), (StackPart::Concurrency, Some(1), None));
        assert_eq!((BulkheadFull::find_in(&error).unwrap().limit(), error.is_refusal()), (1, true), "{error}");
        assert!(hits.load(Ordering::SeqCst) <= 1);
        assert_eq!(send(&mut client, upstream.request()).await.is_ok(), is_per_host);
        drop(first);
        // The slot is held until the body has ended.
        let response = send(&mut client, upstream.request()).await.unwrap();
        assert_eq!(send(&mut client, upstream.request()).await.unwrap_err().part(), StackPart::Concurrency);
        drop(response);
        assert_eq!(send(&mut client, upstream.request()).await.unwrap().status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn last_limit_of_calls_in_flight_replaces_the_others() {
    let upstream = Upstream::start().await;
    let mut client =
        client_stack().bulkhead(0).adaptive(LimitBounds::DEFAULT).bulkhead_per_host(1).service(transport());
    assert_eq!(send(&mut client, upstream.request()).await.unwrap().status(), StatusCode::OK);
    let mut client =
        client_stack().bulkhead(9).adaptive_per_host(LimitBounds::DEFAULT).bulkhead(0).service(transport());
    let error = send(&mut client, upstream.request()).await.map(|_| ()).unwrap_err();
    assert_eq!(
        (error.source().unwrap().to_string().as_str(), upstream.hits()),
        ("too many calls in flight, limit 0", 1)
    );
    let waiting = ClientConcurrencyLayer::bulkhead(1).waiting(SHORT);
    let mut client = client_stack().bulkhead(0).concurrency_layer(waiting).service(transport());
    let _held = send(&mut client, upstream.request()).await.unwrap();
    let error = send(&mut client, upstream.request()).await.map(|_| ()).unwrap_err();
    assert_eq!(BulkheadFull::find_in(&error).unwrap().cause(), RefusalCause::TimedOut);

    let hello = || server_stack().admission(Admission::fixed(0)).bulkhead(9).adaptive(LimitBounds::DEFAULT);
    let status = hello().service(service_fn(answered)).oneshot(Request::new(Empties::new())).await.unwrap().status();
    assert_eq!(status, StatusCode::OK);
    let refusing = hello().admission_layer(ConcurrencyLayer::bulkhead(0)).service(service_fn(answered));
    let status = refusing.oneshot(Request::new(Empties::new())).await.unwrap().status();
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
}

/// A gate's refusal names the time until it has a slot.
#[tokio::test]
async fn refusal_of_a_gate_names_the_wait() {
    let clock = ManualClock::new();
    let gate = Admission::fixed_with_clock(1, &clock).queue(0);
    for _ in 0..64 {
        let permit = gate.try_acquire(AdmissionRequest::new()).unwrap();
        clock.advance(SHORT);
        permit.success();
    }
    let _permit = gate.try_acquire(AdmissionRequest::new()).unwrap();
    let refused = gate.try_acquire(AdmissionRequest::new()).unwrap_err();
    assert!(refused.retry_after().is_some());
    let layer = tower::layer::layer_fn(move |_| {
        service_fn(move |_: Request<Empties>| {
            ready(Err::<Response<Empties>, CallError<StackError, _>>(CallError::Refused(refused)))
        })
    });
    let mut client = client_stack().concurrency_layer(layer).service(transport());
    let error = send(&mut client, Request::new(Empties::new())).await.unwrap_err();
    assert_eq!((error.part(), error.retry_after()), (StackPart::Concurrency, refused.retry_after()));
    assert_eq!(NotAdmitted::find_in(&error), Some(&refused));
}

/// Each simple limit on a server's requests in flight.
///
/// The request over the limit gets a 503, and the others get their responses.
#[tokio::test]
async fn request_over_a_servers_limit_is_refused() {
    let one = LimitBounds::new(1, 1).unwrap();
    for number in 0..3 {
        let (go, called) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let (of_handler, calls) = (Arc::clone(&go), Arc::clone(&called));
        let handler = axum::routing::get(move || {
            calls.fetch_add(1, Ordering::SeqCst);
            async move { of_handler.acquire().await.unwrap().forget() }
        });
        let router = axum::Router::new().route("/", handler);
        let gate = Arc::new(Admission::fixed(1).queue(0));
        let router = match number {
            0 => router.layer(server_stack().bulkhead(1).deadline(LONG)),
            1 => router.layer(server_stack().deadline(LONG).adaptive(one)),
            _ => router.layer(server_stack().admission(gate).deadline(LONG)),
        };
        let server = serve_axum(router).await;
        let first = tokio::spawn(async move { support::Client::of(server).await.get("/").await.status() });
        while called.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let mut client = support::Client::of(server).await;
        let refused = client.get("/").await;
        assert_eq!(
            (refused.status(), refused.headers()["retry-after"].as_bytes()),
            (StatusCode::SERVICE_UNAVAILABLE, &b"1"[..]),
            "{number}"
        );
        assert_eq!(called.load(Ordering::SeqCst), 1, "{number}");
        go.add_permits(2);
        assert_eq!(first.await.unwrap(), StatusCode::OK);
        assert_eq!(client.get("/").await.status(), StatusCode::OK, "{number}");
    }
}
