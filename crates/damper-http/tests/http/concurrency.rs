//! Limits on the calls in flight of HTTP servers and clients.

use crate::support::{Client, serve};
use bytes::Bytes;
use damper::concurrency::{LimitBounds, LimitRule, Outcome, RefusalCause, WindowPlan, WindowSummary};
use damper::gate::{Answer as GateAnswer, AnswerOf, Ask, Ending, Gate, Never, PerKey, Permit, Verdict};
use damper::http::{
    AttemptTimedOut, AttemptTimeoutLayer, CircuitBreakerLayer, ClientConcurrencyLayer, ClientDeadlineLayer,
    ConcurrencyLayer, DeadlineLayer, EveryStatus, Head, RateLimitLayer, Refused, ResponseHead, RetryLayer,
};
use damper::retry::Unlimited;
use damper::{
    AdaptiveLimit, BreakerConfig, Bulkhead, BulkheadFull, CircuitBreaker, Deadline, DeadlineExceeded, Denied,
    KeyedAdaptiveLimit, KeyedBulkhead, Monotonic, Quota, RateLimiter, Retry, is_refusal,
};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as PooledClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::convert::Infallible;
use std::error::Error;
use std::future::{Ready, pending, ready};
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);

type BoxBody = UnsyncBoxBody<Bytes, Infallible>;

type Answer = Result<Response<BoxBody>, Infallible>;

/// Waits until the condition holds.
async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A handler whose slow calls end when the test lets them.
#[derive(Clone)]
struct Handler {
    go: Arc<Semaphore>,
    /// The paths of the calls, in order.
    called: Arc<Mutex<Vec<String>>>,
}

impl Handler {
    fn new() -> Self {
        Self { go: Arc::new(Semaphore::new(0)), called: Arc::default() }
    }

    /// Lets this many slow calls end.
    fn release(&self, calls: usize) {
        self.go.add_permits(calls);
    }

    fn called(&self) -> Vec<String> {
        self.called.lock().unwrap().clone()
    }

    /// Responds to a path.
    ///
    /// `/fast` responds at once, `/panic` panics, `/stream` waits within the body, and other paths wait before the
    /// response.
    async fn answer<B>(self, request: Request<B>) -> Answer {
        let path = request.uri().path().to_owned();
        self.called.lock().unwrap().push(path.clone());
        match path.as_str() {
            "/fast" => {}
            "/panic" => panic!("as scripted"),
            "/stream" => {
                let first = stream::iter([Ok(Frame::data(Bytes::from("first")))]);
                let last = stream::once(async move {
                    self.go.acquire().await.unwrap().forget();
                    Ok(Frame::data(Bytes::from("last")))
                });
                return Ok(Response::new(StreamBody::new(first.chain(last)).boxed_unsync()));
            }
            _ => self.go.acquire().await.unwrap().forget(),
        }
        Ok(Response::new(Full::from("done").boxed_unsync()))
    }

    /// Serves the handler behind a layer.
    async fn serve<L>(&self, layer: ConcurrencyLayer<L>) -> SocketAddr
    where
        L: Gate<Permit: Send, Refusal: Send, Wait: Send> + for<'a> Ask<Head<'a>> + Send + Sync + 'static,
    {
        let handler = self.clone();
        serve(move |_| {
            let handler = handler.clone();
            let service = hyper::service::service_fn(move |request: Request<Incoming>| handler.clone().answer(request));
            layer.layer(service)
        })
        .await
    }
}

/// Sends a request in a separate task.
fn spawn_get(server: SocketAddr, path: &'static str) -> JoinHandle<StatusCode> {
    tokio::spawn(async move { Client::of(server).await.get(path).await.status() })
}

fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://test.example{path}")).body(Empty::new()).unwrap()
}

fn pooled_client() -> PooledClient<HttpConnector, Empty<Bytes>> {
    PooledClient::builder(TokioExecutor::new()).build_http()
}

fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Over HTTP/1.1 and HTTP/2.
#[tokio::test]
async fn request_over_the_limit_gets_503_with_retry_after() {
    let (handler, pool) = (Handler::new(), Arc::new(Bulkhead::new(2)));
    let server = handler.serve(ConcurrencyLayer::new(Arc::clone(&pool))).await;
    let slow = [spawn_get(server, "/a"), spawn_get(server, "/b")];
    eventually("two are in flight", || handler.called().len() == 2).await;
    for mut client in [Client::of(server).await, Client::http2(server).await] {
        let refusal = client.get("/c").await;
        assert_eq!(refusal.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refusal.headers()["retry-after"], "1");
        assert_eq!(refusal.headers()["cache-control"], "no-store");
        assert_eq!(refusal.headers()["content-type"], "text/plain; charset=utf-8");
        assert_eq!(refusal.body(), "too many calls in flight, limit 2\n");
    }
    assert_eq!((handler.called().len(), pool.in_flight()), (2, 2));
    handler.release(2);
    for slow in slow {
        assert_eq!(slow.await.unwrap(), StatusCode::OK);
    }
    eventually("both slots are free", || pool.in_flight() == 0).await;
    assert_eq!(Client::of(server).await.get("/fast").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn slot_is_held_until_the_body_has_streamed() {
    let (handler, pool) = (Handler::new(), Arc::new(Bulkhead::new(1)));
    let server = handler.serve(ConcurrencyLayer::new(Arc::clone(&pool))).await;
    let request = Request::get(format!("http://{server}/stream")).body(Empty::new()).unwrap();
    let mut body = pooled_client().request(request).await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
    assert_eq!(pool.in_flight(), 1);
    assert_eq!(Client::of(server).await.get("/fast").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    handler.release(1);
    assert_eq!(body.collect().await.unwrap().to_bytes(), "last");
    eventually("the slot is free", || pool.in_flight() == 0).await;
}

/// The client disconnects before the response begins, or within its body.
#[tokio::test]
async fn disconnected_client_frees_the_slot() {
    let (handler, pool) = (Handler::new(), Arc::new(Bulkhead::new(1)));
    let server = handler.serve(ConcurrencyLayer::new(Arc::clone(&pool))).await;
    for (calls, path) in [(1, "/slow"), (2, "/stream")] {
        let mut connection = TcpStream::connect(server).await.unwrap();
        connection.write_all(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes()).await.unwrap();
        eventually("the call is in flight", || handler.called().len() == calls).await;
        if path == "/stream" {
            connection.read_u8().await.unwrap();
        }
        assert_eq!(pool.in_flight(), 1);
        drop(connection);
        eventually("the slot is free", || pool.in_flight() == 0).await;
    }
}

/// The connection stays open.
#[tokio::test]
async fn http2_reset_frees_the_slot() {
    let (handler, pool) = (Handler::new(), Arc::new(Bulkhead::new(1)));
    let server = handler.serve(ConcurrencyLayer::new(Arc::clone(&pool))).await;
    let Client::Http2(mut sender) = Client::http2(server).await else { unreachable!() };
    let request = |path| Request::get(format!("http://{server}{path}")).body(Full::default()).unwrap();
    let call = tokio::spawn(sender.send_request(request("/slow")));
    eventually("the call is in flight", || pool.in_flight() == 1).await;
    call.abort();
    eventually("the slot is free", || pool.in_flight() == 0).await;
    let mut body = sender.send_request(request("/stream")).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().is_ok());
    assert_eq!(pool.in_flight(), 1);
    drop(body);
    eventually("the slot is free", || pool.in_flight() == 0).await;
    assert_eq!(sender.send_request(request("/fast")).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn handler_that_panics_frees_the_slot() {
    let (handler, pool) = (Handler::new(), Arc::new(Bulkhead::new(1)));
    let server = handler.serve(ConcurrencyLayer::new(Arc::clone(&pool))).await;
    assert!(spawn_get(server, "/panic").await.unwrap_err().is_panic(), "the connection breaks");
    eventually("the slot is free", || pool.in_flight() == 0).await;
    assert_eq!(spawn_get(server, "/fast").await.unwrap(), StatusCode::OK);
}

/// A caller that catches the panic may keep the future.
#[test]
fn panic_frees_the_slot_before_the_future_is_dropped() {
    let pool = Arc::new(Bulkhead::new(1));
    let in_future = service_fn(async |_: Request<()>| -> Answer { panic!("as scripted") });
    let mut call = Box::pin(ConcurrencyLayer::new(Arc::clone(&pool)).layer(in_future).call(Request::new(())));
    assert_eq!(pool.in_flight(), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| poll_once(call.as_mut()))).is_err());
    assert_eq!(pool.in_flight(), 0);
    let in_call = service_fn(|_: Request<()>| -> Ready<Answer> { panic!("as scripted") });
    let mut service = ConcurrencyLayer::new(Arc::clone(&pool)).layer(in_call);
    assert!(catch_unwind(AssertUnwindSafe(|| service.call(Request::new(())))).is_err());
    assert_eq!(pool.in_flight(), 0);
}

#[tokio::test]
async fn waiting_requests_are_served_in_their_order() {
    let (handler, pool) = (Handler::new(), Arc::new(Bulkhead::new(1).queue(3)));
    let server = handler.serve(ConcurrencyLayer::new(Arc::clone(&pool)).waiting(LONG)).await;
    let mut calls = vec![spawn_get(server, "/0")];
    eventually("the first is in flight", || pool.in_flight() == 1).await;
    for (queued, path) in [(1, "/1"), (2, "/2"), (3, "/3")] {
        calls.push(spawn_get(server, path));
        eventually("it waits", || pool.queued() == queued).await;
    }
    let refusal = Client::of(server).await.get("/4").await;
    assert_eq!(refusal.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refusal.body(), "too many calls in flight, limit 1, queue full\n");
    handler.release(4);
    for call in calls {
        assert_eq!(call.await.unwrap(), StatusCode::OK);
    }
    assert_eq!(handler.called(), ["/0", "/1", "/2", "/3"]);
}

#[tokio::test]
async fn disconnected_client_leaves_the_queue() {
    let (handler, pool) = (Handler::new(), Arc::new(Bulkhead::new(1).queue(2)));
    let server = handler.serve(ConcurrencyLayer::new(Arc::clone(&pool)).waiting(LONG)).await;
    let first = spawn_get(server, "/first");
    eventually("the first is in flight", || pool.in_flight() == 1).await;
    let given_up = spawn_get(server, "/given-up");
    eventually("it waits", || pool.queued() == 1).await;
    let patient = spawn_get(server, "/patient");
    eventually("both wait", || pool.queued() == 2).await;
    // The task of the connection continues without a sender, and closes the connection.
    given_up.abort();
    eventually("one waits", || pool.queued() == 1).await;
    handler.release(2);
    assert_eq!((first.await.unwrap(), patient.await.unwrap()), (StatusCode::OK, StatusCode::OK));
    assert_eq!(handler.called(), ["/first", "/patient"]);
}

#[tokio::test]
async fn request_waits_for_the_set_time_and_no_longer_than_its_deadline() {
    let pool = Arc::new(Bulkhead::new(1).queue(4));
    let _taken = pool.try_acquire().unwrap();
    let service = service_fn(|_| ready(Ok::<_, Infallible>(Response::new(Full::from("done")))));
    for (longest, deadline) in [(SHORT, None), (SHORT, Some(LONG)), (LONG, Some(SHORT))] {
        let mut request = get("/");
        if let Some(deadline) = deadline {
            request.extensions_mut().insert(Deadline::after(deadline));
        }
        let began = Instant::now();
        let layer = ConcurrencyLayer::new(Arc::clone(&pool)).waiting(longest);
        let refusal = layer.layer(service).oneshot(request).await.unwrap();
        assert_eq!(refusal.status(), StatusCode::SERVICE_UNAVAILABLE);
        let text = refusal.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(text, "too many calls in flight, limit 1, no slot in time\n");
        assert!(began.elapsed() >= SHORT * 9 / 10 && began.elapsed() < LONG, "{:?}", began.elapsed());
        assert_eq!(pool.queued(), 0);
    }
}

/// A limit that a layer builds has a queue for waiting requests.
#[tokio::test]
async fn built_in_limits_have_queues() {
    let handler = Handler::new();
    let server = handler.serve(ConcurrencyLayer::bulkhead(1).waiting(LONG)).await;
    let calls = [spawn_get(server, "/a"), spawn_get(server, "/b")];
    eventually("one is in flight", || handler.called().len() == 1).await;
    handler.release(2);
    for call in calls {
        assert_eq!(call.await.unwrap(), StatusCode::OK);
    }
}

#[tokio::test]
async fn adaptive_limit_grows_under_a_healthy_server() {
    let limit = Arc::new(AdaptiveLimit::new(LimitBounds::new(1, 64).unwrap().starting_at(4).unwrap()));
    let layer = ConcurrencyLayer::new(Arc::clone(&limit));
    let server = serve(move |_| {
        layer.layer(hyper::service::service_fn(async |_: Request<Incoming>| {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("done")))
        }))
    })
    .await;
    let clients: Vec<_> = (0..32)
        .map(|_| {
            tokio::spawn(async move {
                let mut client = Client::of(server).await;
                loop {
                    if client.get("/").await.status() == StatusCode::SERVICE_UNAVAILABLE {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
            })
        })
        .collect();
    eventually("the limit has grown threefold", || limit.limit() >= 12).await;
    clients.iter().for_each(JoinHandle::abort);
    eventually("all slots are free", || limit.in_flight() == 0).await;
}

/// A rule that treats each call as a window, and records its latency.
#[derive(Clone, Copy, Debug)]
struct EachCall(&'static Mutex<Vec<Duration>>);

impl LimitRule for EachCall {
    fn first(&self) -> WindowPlan {
        WindowPlan { samples: 1, length: Duration::ZERO, ..WindowPlan::new(8) }
    }

    fn next(&mut self, window: &WindowSummary) -> WindowPlan {
        self.0.lock().unwrap().extend(window.latency());
        self.first()
    }
}

/// The client reads its large body late, and the slot is held until then.
#[tokio::test]
async fn slow_reader_does_not_count_as_a_slow_server() {
    const SIZE: usize = 32 << 20;
    static LATENCIES: Mutex<Vec<Duration>> = Mutex::new(Vec::new());
    let limit = Arc::new(AdaptiveLimit::with_rule(EachCall(&LATENCIES), Monotonic));
    // The first call starts the first window, and belongs to none.
    limit.try_acquire().unwrap().success();
    let layer = ConcurrencyLayer::new(Arc::clone(&limit));
    let server = serve(move |_| {
        layer.layer(hyper::service::service_fn(|_: Request<Incoming>| {
            let chunks =
                stream::iter((0..SIZE >> 16).map(|_| Ok::<_, Infallible>(Frame::data(Bytes::from(vec![0; 1 << 16])))));
            ready(Ok::<_, Infallible>(Response::new(StreamBody::new(chunks).boxed_unsync())))
        }))
    })
    .await;
    let request = Request::get(format!("http://{server}/")).body(Empty::new()).unwrap();
    let began = Instant::now();
    let body = pooled_client().request(request).await.unwrap().into_body();
    tokio::time::sleep(SHORT * 5).await;
    assert_eq!(limit.in_flight(), 1, "the body is larger than all buffers");
    assert_eq!(body.collect().await.unwrap().to_bytes().len(), SIZE);
    let read_after = began.elapsed();
    eventually("the slot is free", || limit.in_flight() == 0).await;
    let latencies = LATENCIES.lock().unwrap().clone();
    assert!(matches!(latencies[..], [latency] if latency + SHORT * 5 <= read_after), "{latencies:?} of {read_after:?}");
}

#[tokio::test]
async fn slow_host_takes_no_slots_from_others() {
    let (slow, fast) = (Handler::new(), Handler::new());
    let (slow_server, fast_server) =
        (slow.serve(ConcurrencyLayer::bulkhead(100)).await, fast.serve(ConcurrencyLayer::bulkhead(100)).await);
    let client = ClientConcurrencyLayer::bulkhead_per_host(2).layer(pooled_client());
    let call = |server: SocketAddr, path: &str| {
        client.clone().oneshot(Request::get(format!("http://{server}{path}")).body(Empty::new()).unwrap())
    };
    let hanging = [tokio::spawn(call(slow_server, "/a")), tokio::spawn(call(slow_server, "/b"))];
    eventually("both are in flight", || slow.called().len() == 2).await;
    let error = call(slow_server, "/fast").await.unwrap_err();
    assert_eq!(error.to_string(), "call refused");
    assert_eq!(error.refusal().unwrap().cause(), RefusalCause::NoSlot);
    let boxed: Box<dyn Error> = Box::new(error);
    assert_eq!(BulkheadFull::find_in(&*boxed).unwrap().limit(), 2);
    assert!(is_refusal(&*boxed));
    for _ in 0..5 {
        let response = call(fast_server, "/fast").await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "done");
    }
    slow.release(2);
    for call in hanging {
        // The body holds the slot until it is read or dropped.
        drop(call.await.unwrap().unwrap());
    }
    assert_eq!(call(slow_server, "/fast").await.unwrap().status(), StatusCode::OK);
}

/// A layer's adaptive limit per host or per key learns from the calls of that host or key.
#[tokio::test]
async fn adaptive_limit_of_a_key_learns_from_its_own_calls() {
    static LATENCIES: Mutex<Vec<Duration>> = Mutex::new(Vec::new());
    let bounds = LimitBounds::new(1, 1).unwrap();
    let (hanging, healthy) = (Handler::new(), Handler::new());
    let servers =
        [hanging.serve(ConcurrencyLayer::bulkhead(100)).await, healthy.serve(ConcurrencyLayer::bulkhead(100)).await];
    let client = ClientConcurrencyLayer::adaptive_per_host(bounds).layer(pooled_client());
    let call = |server: SocketAddr, path: &str| {
        client.clone().oneshot(Request::get(format!("http://{server}{path}")).body(Empty::new()).unwrap())
    };
    let first = tokio::spawn(call(servers[0], "/a"));
    eventually("it is in flight", || hanging.called().len() == 1).await;
    assert_eq!(call(servers[0], "/fast").await.unwrap_err().refusal().unwrap().limit(), 1);
    drop(call(servers[1], "/fast").await.unwrap());
    hanging.release(1);
    drop(first.await.unwrap().unwrap());
    drop(call(servers[0], "/fast").await.unwrap());

    let routes = Arc::new(KeyedAdaptiveLimit::with_rule(EachCall(&LATENCIES), 16, Monotonic).unwrap());
    let key = |head: &Head<'_>| head.uri.path().to_owned();
    let layer = ConcurrencyLayer::new(PerKey::new(key, Arc::clone(&routes)));
    let mut client = Client::of(Handler::new().serve(layer).await).await;
    // The first call starts the first window, and belongs to none.
    for (path, latencies) in [("/fast", 0), ("/stream", 0), ("/fast", 1)] {
        if path == "/stream" {
            let another = routes.try_acquire(path).unwrap();
            another.success();
        } else {
            assert_eq!(client.get(path).await.status(), StatusCode::OK);
        }
        assert_eq!(LATENCIES.lock().unwrap().len(), latencies, "{path}");
    }

    let handler = Handler::new();
    let server = handler.serve(ConcurrencyLayer::adaptive_by(key, bounds)).await;
    let send = |path: &str| {
        pooled_client().request(Request::get(format!("http://{server}{path}")).body(Empty::new()).unwrap())
    };
    let first = tokio::spawn(send("/a"));
    eventually("it is in flight", || handler.called().len() == 1).await;
    assert_eq!(send("/a").await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(send("/fast").await.unwrap().status(), StatusCode::OK);
    handler.release(1);
    assert_eq!(first.await.unwrap().unwrap().status(), StatusCode::OK);
}

/// A refusal of the client's own limit says nothing about the host, and a retry would be refused too.
#[tokio::test]
async fn refusal_of_a_client_is_not_retried_and_no_failure() {
    let pool = Arc::new(Bulkhead::new(0));
    let breaker = Arc::new(CircuitBreaker::new(BreakerConfig::builder().failure_threshold(1).build().unwrap()));
    let mut client = ServiceBuilder::new()
        .layer(CircuitBreakerLayer::new(Arc::clone(&breaker)))
        .layer(RetryLayer::new(Retry::new(3).budget(Unlimited)))
        .layer(ClientConcurrencyLayer::new(Arc::clone(&pool)))
        .service(pooled_client());
    let error = client.ready().await.unwrap().call(get("/")).await.unwrap_err();
    assert_eq!(BulkheadFull::find_in(&error).unwrap().limit(), 0);
    assert!(error.into_failed().unwrap().to_string().contains("after 1 attempt"), "not retried");
    assert!(breaker.try_acquire().is_ok());
}

/// An event of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Recorded(Outcome),
    Freed,
}

use Event::{Freed, Recorded};

/// An unlimited limit whose permits record their events.
#[derive(Clone, Default)]
struct Watched {
    events: Arc<Mutex<Vec<Event>>>,
    usual_latency: Option<Duration>,
}

struct WatchedPermit {
    limit: Watched,
    told: Option<Outcome>,
}

impl Permit for WatchedPermit {
    fn answered(&mut self, verdict: &Verdict) {
        let outcome = Outcome::from(verdict);
        self.limit.events.lock().unwrap().push(Recorded(outcome));
        self.told = Some(outcome);
    }

    fn end(mut self, verdict: &Verdict) {
        let outcome = Outcome::from(verdict);
        if self.told != Some(outcome) && (self.told.is_none() || outcome == Outcome::Overloaded) {
            self.answered(verdict);
        }
    }

    fn usual_latency(&self) -> Option<Duration> {
        self.limit.usual_latency
    }
}

impl Drop for WatchedPermit {
    fn drop(&mut self) {
        self.limit.events.lock().unwrap().push(Freed);
    }
}

impl Gate for Watched {
    type Permit = WatchedPermit;
    type Refusal = BulkheadFull;
    type Wait = Never<WatchedPermit, BulkheadFull>;
}

impl Ask<Head<'_>> for Watched {
    fn ask(&self, _: &Head<'_>) -> AnswerOf<Self> {
        GateAnswer::Pass(WatchedPermit { limit: self.clone(), told: None })
    }
}

impl Watched {
    /// Returns the events since the previous call.
    fn events(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock().unwrap())
    }
}

/// A permit that does not learn from outcomes.
struct Unlearning(Arc<AtomicUsize>);

impl Permit for Unlearning {
    const LEARNS: bool = false;

    fn answered(&mut self, _: &Verdict) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct NothingLearnt(Arc<AtomicUsize>);

impl Gate for NothingLearnt {
    type Permit = Unlearning;
    type Refusal = BulkheadFull;
    type Wait = Never<Unlearning, BulkheadFull>;
}

impl Ask<Head<'_>> for NothingLearnt {
    fn ask(&self, _: &Head<'_>) -> AnswerOf<Self> {
        GateAnswer::Pass(Unlearning(Arc::clone(&self.0)))
    }
}

#[tokio::test]
async fn permit_that_does_not_learn_records_no_outcome() {
    let recorded = Arc::default();
    for status in [StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE] {
        let judged = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&judged);
        let layer = ConcurrencyLayer::new(NothingLearnt(Arc::clone(&recorded))).classify(
            move |_: Result<&ResponseHead<'_>, &Infallible>| {
                counted.fetch_add(1, Ordering::Relaxed);
                Ending::Unavailable
            },
        );
        let service = layer.layer(service_fn(move |_: Request<Empty<Bytes>>| {
            ready(Ok::<_, Infallible>(Response::builder().status(status).body(Full::<Bytes>::from("done")).unwrap()))
        }));
        let response = service.oneshot(Request::new(Empty::new())).await.unwrap();
        response.into_body().collect().await.unwrap();
        assert_eq!((judged.load(Ordering::Relaxed), recorded.load(Ordering::Relaxed)), (0, 0));
    }
}

type ScriptedBody = UnsyncBoxBody<Bytes, io::Error>;

/// A body of these frames.
fn frames(frames: impl IntoIterator<Item = io::Result<Frame<Bytes>>, IntoIter: Send + 'static>) -> ScriptedBody {
    StreamBody::new(stream::iter(frames)).boxed_unsync()
}

fn grpc_status(code: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(http::HeaderName::from_static("grpc-status"), HeaderValue::from_static(code))])
}

/// Returns the events of a call with this response, whose body is read to its end.
fn events_of(response: Response<ScriptedBody>) -> Vec<Event> {
    let limit = Watched::default();
    let mut response = Some(response);
    let service = service_fn(move |_: Request<()>| ready(Ok::<_, Infallible>(response.take().unwrap())));
    let response =
        poll_once(ConcurrencyLayer::new(limit.clone()).layer(CloneOnce(Some(service))).call(Request::new(())));
    let Poll::Ready(Ok(response)) = response else { panic!("it answers at once") };
    let Poll::Ready(_) = poll_once(response.into_body().collect()) else { panic!("the body ends") };
    limit.events()
}

/// A service that is called once, and whose clones are never called.
struct CloneOnce<S>(Option<S>);

impl<S> Clone for CloneOnce<S> {
    fn clone(&self) -> Self {
        Self(None)
    }
}

impl<S: Service<Request<()>>> Service<Request<()>> for CloneOnce<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.as_mut().unwrap().poll_ready(context)
    }

    fn call(&mut self, request: Request<()>) -> S::Future {
        self.0.as_mut().unwrap().call(request)
    }
}

#[test]
fn unavailable_services_and_timeouts_are_overload() {
    for (status, outcome) in [
        (200, Outcome::Success),
        (304, Outcome::Success),
        (404, Outcome::Ignored),
        (429, Outcome::Ignored),
        (500, Outcome::Ignored),
        (502, Outcome::Ignored),
        (503, Outcome::Overloaded),
        (504, Outcome::Overloaded),
    ] {
        let response = Response::builder().status(status).body(frames([])).unwrap();
        assert_eq!(events_of(response), [Recorded(outcome), Freed], "{status}");
    }
}

/// In the head of a response without messages, and in trailers.
#[test]
fn grpc_statuses_of_overload_are_read_where_grpc_has_them() {
    for (code, outcome) in [
        ("0", Outcome::Success),
        ("1", Outcome::Ignored),
        ("2", Outcome::Ignored),
        ("4", Outcome::Overloaded),
        ("5", Outcome::Ignored),
        ("8", Outcome::Ignored),
        ("12", Outcome::Ignored),
        ("13", Outcome::Ignored),
        ("14", Outcome::Overloaded),
        ("15", Outcome::Ignored),
    ] {
        let is_overload = outcome == Outcome::Overloaded;
        let mut response = Response::new(frames([]));
        *response.headers_mut() = grpc_status(code);
        assert_eq!(events_of(response), [Recorded(outcome), Freed], "{code} in the head");
        let message = Ok(Frame::data(Bytes::from("message")));
        let response = Response::new(frames([message, Ok(Frame::trailers(grpc_status(code)))]));
        let mut expected = vec![Recorded(Outcome::Success), Freed];
        if is_overload {
            expected.insert(1, Recorded(Outcome::Overloaded));
        }
        assert_eq!(events_of(response), expected, "{code} in trailers");
    }
}

#[test]
fn body_that_fails_frees_the_slot_without_an_outcome() {
    let response = Response::new(frames([Err(io::Error::other("broken"))]));
    assert_eq!(events_of(response), [Recorded(Outcome::Success), Freed]);
}

/// The latency is measured at the head, and the slot is held until the body is dropped.
#[test]
fn outcome_is_recorded_at_the_head() {
    let limit = Watched::default();
    let service = service_fn(|_: Request<()>| {
        let body = StreamBody::new(stream::pending::<io::Result<Frame<Bytes>>>()).boxed_unsync();
        ready(Ok::<_, Infallible>(Response::new(body)))
    });
    let mut request = Request::new(());
    request.extensions_mut().insert(Deadline::after(Duration::ZERO));
    let response = poll_once(ConcurrencyLayer::new(limit.clone()).layer(service).call(request));
    let Poll::Ready(Ok(mut response)) = response else { panic!("it answers at once") };
    assert_eq!(limit.events(), [Recorded(Outcome::Success)]);
    assert!(poll_once(response.body_mut().frame()).is_pending());
    drop(response);
    assert_eq!(limit.events(), [Freed], "a stream that its deadline ends is no overload");
}

/// A request with this much time left.
fn with_time_left(left: Duration) -> Request<Empty<Bytes>> {
    let mut request = get("/");
    request.extensions_mut().insert(Deadline::after(left));
    request
}

/// Enough is what the setting says, else the limit's own baseline, else 0.9 s.
///
/// A call that began without any time never counts.
#[tokio::test]
async fn call_dropped_after_a_sufficient_deadline_is_overload() {
    const GIVEN: Duration = Duration::from_millis(20);
    let enough = vec![Recorded(Outcome::Overloaded), Freed];
    for (left, usual_latency, min_budget, expected) in [
        (LONG, None, None, vec![Freed]),
        (GIVEN, None, None, vec![Freed]),
        (GIVEN, None, Some(GIVEN / 2), enough.clone()),
        (GIVEN, Some(GIVEN / 2), None, enough.clone()),
        (GIVEN, Some(LONG), None, vec![Freed]),
        (GIVEN, None, Some(LONG), vec![Freed]),
        (GIVEN, Some(LONG), Some(Duration::ZERO), enough.clone()),
        (Duration::ZERO, None, None, vec![Freed]),
        (Duration::ZERO, None, Some(Duration::ZERO), vec![Freed]),
    ] {
        let limit = Watched { usual_latency, ..Watched::default() };
        let (mut server, mut client) =
            (ConcurrencyLayer::new(limit.clone()), ClientConcurrencyLayer::new(limit.clone()));
        if let Some(min_budget) = min_budget {
            (server, client) = (server.min_budget(min_budget), client.min_budget(min_budget));
        }
        let service = service_fn(|_: Request<Empty<Bytes>>| pending::<Answer>());
        let of_server = Box::pin(server.layer(service).oneshot(with_time_left(left)));
        let of_client = Box::pin(client.layer(service).oneshot(with_time_left(left)));
        let mut calls = (of_server, of_client);
        assert!(poll_once(calls.0.as_mut()).is_pending() && poll_once(calls.1.as_mut()).is_pending());
        assert_eq!(limit.events(), []);
        if left == GIVEN {
            tokio::time::sleep(GIVEN + Duration::from_millis(1)).await;
        }
        drop(calls.0);
        assert_eq!(limit.events(), expected, "of {left:?}, {usual_latency:?}, {min_budget:?}");
        drop(calls.1);
        assert_eq!(limit.events(), expected, "of {left:?}, {usual_latency:?}, {min_budget:?}");
    }
}

/// A server that honours the caller's deadline sends 504 just before it. A 503 is its own.
#[tokio::test]
async fn gateway_timeout_after_too_short_a_deadline_is_ignored() {
    let limit = Watched::default();
    for (min_budget, status, outcome) in
        [(Duration::ZERO, 504, Outcome::Overloaded), (LONG, 504, Outcome::Ignored), (LONG, 503, Outcome::Overloaded)]
    {
        let service = service_fn(move |_: Request<Empty<Bytes>>| {
            ready(Ok::<_, Infallible>(Response::builder().status(status).body(Empty::<Bytes>::new()).unwrap()))
        });
        let layer = ConcurrencyLayer::new(limit.clone()).min_budget(min_budget);
        drop(layer.layer(service).oneshot(with_time_left(LONG / 2)).await.unwrap());
        assert_eq!(limit.events(), [Recorded(outcome), Freed], "{status}, {min_budget:?}");
    }
    for (min_budget, code, expected) in [
        (Duration::ZERO, "4", vec![Recorded(Outcome::Success), Recorded(Outcome::Overloaded), Freed]),
        (LONG, "4", vec![Recorded(Outcome::Success), Freed]),
        (LONG, "14", vec![Recorded(Outcome::Success), Recorded(Outcome::Overloaded), Freed]),
    ] {
        let service = service_fn(move |_: Request<Empty<Bytes>>| {
            let message = Ok(Frame::data(Bytes::from("message")));
            ready(Ok::<_, Infallible>(Response::new(frames([message, Ok(Frame::trailers(grpc_status(code)))]))))
        });
        let layer = ConcurrencyLayer::new(limit.clone()).min_budget(min_budget);
        let response = layer.layer(service).oneshot(with_time_left(LONG / 2)).await.unwrap();
        response.into_body().collect().await.unwrap();
        assert_eq!(limit.events(), expected, "{code} in trailers, {min_budget:?}");
    }
}

/// A rule that has a baseline.
#[derive(Clone, Copy, Debug)]
struct Known;

impl LimitRule for Known {
    fn first(&self) -> WindowPlan {
        WindowPlan::new(8)
    }

    fn next(&mut self, _: &WindowSummary) -> WindowPlan {
        self.first()
    }

    fn baseline(&self) -> Option<Duration> {
        Some(LONG)
    }
}

/// Returns the permit of a call at a gate that lets it pass.
fn permit_of<G: Ask<()>>(gate: &G) -> G::Permit {
    match gate.ask(&()) {
        GateAnswer::Pass(permit) => permit,
        _ => panic!("it lets the call pass"),
    }
}

#[test]
fn usual_latency_of_an_adaptive_limit_is_its_baseline() {
    let limit = Arc::new(AdaptiveLimit::with_rule(Known, Monotonic));
    assert_eq!(permit_of(&limit).usual_latency(), Some(LONG));
    assert_eq!(permit_of(&Arc::new(AdaptiveLimit::default())).usual_latency(), None, "no baseline yet");
    assert_eq!(permit_of(&Arc::new(Bulkhead::new(1))).usual_latency(), None);
}

/// The status behind an adaptive limit, whether it is marked, and the outcome that the limit records.
async fn outcome_of<S, R>(inner: S) -> (u16, bool, Vec<Event>)
where
    S: Service<Request<Empty<Bytes>>, Response = Response<R>, Error = Infallible> + Clone,
    R: http_body::Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let limit = Watched::default();
    let response = ConcurrencyLayer::new(limit.clone()).layer(inner).oneshot(with_time_left(LONG)).await.unwrap();
    let (status, is_marked) = (response.status().as_u16(), Refused::is_in(response.extensions()));
    drop(response);
    (status, is_marked, limit.events())
}

/// Refusals by inner layers of this process, although their statuses are those of overload.
#[tokio::test]
async fn refusal_of_an_inner_layer_is_no_sign_of_overload() {
    let answer = |status: u16| {
        service_fn(move |_: Request<Empty<Bytes>>| {
            ready(Ok::<_, Infallible>(Response::builder().status(status).body(Empty::<Bytes>::new()).unwrap()))
        })
    };
    let ignored = vec![Recorded(Outcome::Ignored), Freed];
    let bulkhead = ConcurrencyLayer::bulkhead(0).layer(answer(200));
    assert_eq!(outcome_of(bulkhead).await, (503, true, ignored.clone()));
    let empty = RateLimiter::new(Quota::per_hour(1));
    empty.check().unwrap();
    let limited = RateLimitLayer::new(Arc::new(empty)).layer(answer(200));
    assert_eq!(outcome_of(limited).await, (429, true, ignored.clone()));
    let late = DeadlineLayer::new(Duration::ZERO).layer(answer(200));
    assert_eq!(outcome_of(late).await, (504, true, ignored));
    // The work itself took too long, or the service refused it.
    let overloaded = vec![Recorded(Outcome::Overloaded), Freed];
    let hanging = service_fn(|_: Request<Empty<Bytes>>| pending::<Answer>());
    let slow = DeadlineLayer::new(Duration::from_millis(5)).layer(hanging);
    assert_eq!(outcome_of(slow).await, (504, false, overloaded.clone()));
    assert_eq!(outcome_of(answer(503)).await, (503, false, overloaded));
}

/// At a server and at a client, with a slot free.
#[tokio::test]
async fn request_whose_deadline_has_passed_is_not_made() {
    let pool = Arc::new(Bulkhead::new(1).queue(1));
    let service = service_fn(|_: Request<Empty<Bytes>>| -> Ready<Answer> { unreachable!("its deadline has passed") });
    let server = ConcurrencyLayer::new(Arc::clone(&pool)).waiting(LONG).layer(service);
    let refusal = server.oneshot(with_time_left(Duration::ZERO)).await.unwrap();
    assert_eq!(refusal.status(), StatusCode::SERVICE_UNAVAILABLE);
    let client = ClientConcurrencyLayer::new(Arc::clone(&pool)).waiting(LONG).layer(service);
    let error = client.oneshot(with_time_left(Duration::ZERO)).await.map(drop).unwrap_err();
    let full = error.refusal().unwrap();
    assert_eq!((full.cause(), full.limit()), (RefusalCause::TimedOut, 1));
    assert_eq!((pool.in_flight(), pool.queued()), (0, 0));
}

/// A limit that is not `Clone`, whose layer's settings are changed, at a server.
#[tokio::test]
async fn settings_share_a_limit_and_need_no_clone_of_it() {
    #[derive(Debug)]
    struct Apart(Bulkhead);

    impl Gate for Apart {
        type Permit = ();
        type Refusal = BulkheadFull;
        type Wait = Never<(), BulkheadFull>;
    }

    impl Ask<Head<'_>> for Apart {
        fn ask(&self, _: &Head<'_>) -> AnswerOf<Self> {
            // Its slots are used up for good.
            self.0.try_acquire().map(std::mem::forget).into()
        }
    }

    let service = service_fn(|_: Request<Empty<Bytes>>| ready(Ok::<_, Infallible>(Response::new(Full::from("done")))));
    let first = ConcurrencyLayer::new(Apart(Bulkhead::new(1)));
    let second = first.clone().retry_after(LONG).named("second").exempt(|head| head.uri.path() == "/healthz");
    assert_eq!(first.layer(service).oneshot(get("/")).await.unwrap().status(), StatusCode::OK);
    let refusal = second.layer(service).oneshot(get("/")).await.unwrap();
    assert_eq!(
        (refusal.status(), &refusal.headers()["retry-after"]),
        (StatusCode::SERVICE_UNAVAILABLE, &"60".parse().unwrap())
    );
}

/// A limit of a user, whose callers have used up what they may.
struct UsedUp;

impl Gate for UsedUp {
    type Permit = ();
    type Refusal = Denied;
    type Wait = Never<(), Denied>;
}

impl Ask<Head<'_>> for UsedUp {
    fn ask(&self, _: &Head<'_>) -> AnswerOf<Self> {
        let limit = RateLimiter::new(Quota::per_hour(1));
        limit.check().unwrap();
        GateAnswer::Refuse(limit.check().unwrap_err())
    }
}

#[tokio::test]
async fn kind_of_a_refusal_gives_its_status() {
    let service = service_fn(|_: Request<Empty<Bytes>>| ready(Ok::<_, Infallible>(Response::new(Full::from("done")))));
    let service = ConcurrencyLayer::new(UsedUp).layer(service);
    let refusal = service.clone().oneshot(get("/")).await.unwrap();
    assert_eq!(refusal.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refusal.headers()["retry-after"], "3600");
    let call = Request::post("/").header("content-type", "application/grpc").body(Empty::new()).unwrap();
    let refusal = service.oneshot(call).await.unwrap();
    assert_eq!((refusal.status(), &refusal.headers()["grpc-status"]), (StatusCode::OK, &"8".parse().unwrap()));
}

/// With the two layers in either order.
#[tokio::test]
async fn call_that_its_deadline_ends_is_overload() {
    let limit = Watched { usual_latency: Some(SHORT / 2), ..Watched::default() };
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(SHORT))
        .layer(ConcurrencyLayer::new(limit.clone()))
        .service_fn(|_: Request<Empty<Bytes>>| pending::<Answer>());
    assert_eq!(service.oneshot(get("/")).await.unwrap().status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(limit.events(), [Recorded(Outcome::Overloaded), Freed]);
}

async fn attempt_timed_out() -> AttemptTimedOut {
    let hangs = service_fn(|(): ()| pending::<Result<(), Infallible>>());
    let timed_out = AttemptTimeoutLayer::new(Duration::ZERO).layer(hangs).oneshot(()).await.unwrap_err();
    *timed_out.downcast().unwrap()
}

#[tokio::test]
async fn errors_are_ignored_except_timeouts() {
    type BoxError = Box<dyn Error + Send + Sync>;
    let full = Bulkhead::new(0).try_acquire().unwrap_err();
    let exceeded: DeadlineExceeded = Deadline::after(Duration::ZERO).check().unwrap_err();
    for (error, outcome) in [
        (io::Error::other("broken"), Outcome::Ignored),
        (io::Error::other(full), Outcome::Ignored),
        (io::Error::other(exceeded), Outcome::Overloaded),
        (io::Error::other(attempt_timed_out().await), Outcome::Overloaded),
    ] {
        let limit = Watched::default();
        let message = error.to_string();
        let error = Arc::new(Mutex::new(Some(error)));
        let fails = service_fn(move |_: Request<Empty<Bytes>>| {
            ready(Err::<Response<Empty<Bytes>>, io::Error>(error.lock().unwrap().take().unwrap()))
        });
        let client = ClientConcurrencyLayer::new(limit.clone()).layer(fails);
        let error = client.oneshot(get("/")).await.unwrap_err();
        assert_eq!(error.into_failed().unwrap().to_string(), message);
        assert_eq!(limit.events(), [Recorded(outcome), Freed], "{message}");
    }
    // Boxed, as the errors of an inner deadline layer are.
    let limit = Watched::default();
    let client = ServiceBuilder::new()
        .layer(ClientConcurrencyLayer::new(limit.clone()).classify(EveryStatus::judge_boxed))
        .layer(ClientDeadlineLayer::new(SHORT))
        .service_fn(|_: Request<Empty<Bytes>>| pending::<Result<Response<Empty<Bytes>>, BoxError>>());
    let error = client.oneshot(get("/")).await.map(|_| ()).unwrap_err().into_boxed();
    assert!(DeadlineExceeded::find_in(&*error).is_some());
    assert_eq!(limit.events(), [Recorded(Outcome::Overloaded), Freed]);
}

#[tokio::test]
async fn classify_judges_heads() {
    let limit = Watched::default();
    let layer = ConcurrencyLayer::new(limit.clone()).classify(|response: Result<&ResponseHead, &Infallible>| {
        match response.map(|head| head.status) {
            Ok(StatusCode::IM_A_TEAPOT) => Ending::Unavailable,
            _ => Ending::Declined,
        }
    });
    for (status, outcome) in [(418, Outcome::Overloaded), (200, Outcome::Ignored)] {
        let service = layer.layer(service_fn(move |_: Request<Empty<Bytes>>| {
            ready(Ok::<_, Infallible>(Response::builder().status(status).body(Empty::<Bytes>::new()).unwrap()))
        }));
        drop(service.oneshot(get("/")).await.unwrap());
        assert_eq!(limit.events(), [Recorded(outcome), Freed]);
    }
}

#[tokio::test]
async fn refusals_have_the_body_and_the_wait_that_were_set() {
    let service = service_fn(|_| ready(Ok::<_, Infallible>(Response::new(Full::from("done")))));
    let layer = ConcurrencyLayer::bulkhead(0).retry_after(Duration::from_millis(2_500));
    let refusal = layer.clone().problem_json().layer(service).oneshot(get("/")).await.unwrap();
    assert_eq!(refusal.headers()["retry-after"], "3", "rounded up");
    assert_eq!(refusal.headers()["content-type"], "application/problem+json");
    let text = refusal.into_body().collect().await.unwrap().to_bytes();
    let expected = r#"{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"too many calls in flight, limit 0"}"#;
    assert_eq!(text, expected);
    let layer = layer.body(|head, full| ("text/html", format!("<p>{}: {full}", head.uri.path())));
    let refusal = layer.layer(service).oneshot(get("/report")).await.unwrap();
    assert_eq!(
        (refusal.status(), &refusal.headers()["content-type"]),
        (StatusCode::SERVICE_UNAVAILABLE, &"text/html".parse().unwrap())
    );
    assert_eq!(
        refusal.into_body().collect().await.unwrap().to_bytes(),
        "<p>/report: too many calls in flight, limit 0"
    );
}

#[tokio::test]
async fn exempt_requests_take_no_permit() {
    let pool = Arc::new(Bulkhead::new(0));
    let layer = ConcurrencyLayer::new(Arc::clone(&pool)).exempt(|head| head.uri.path() == "/healthz");
    let service = layer.layer(service_fn(|_| ready(Ok::<_, Infallible>(Response::new(Full::from("done"))))));
    for (path, status) in [("/healthz", StatusCode::OK), ("/", StatusCode::SERVICE_UNAVAILABLE)] {
        assert_eq!(service.clone().oneshot(get(path)).await.unwrap().status(), status);
    }
}

/// The setters may come in any order.
#[tokio::test]
async fn exemption_outlives_later_settings() {
    let layer = ConcurrencyLayer::new(Arc::new(Bulkhead::new(0))).exempt(|head| head.uri.path() == "/healthz");
    let layer = layer.shadow(Arc::new(Bulkhead::new(0)));
    let service = layer.layer(service_fn(|_| ready(Ok::<_, Infallible>(Response::new(Full::from("done"))))));
    assert_eq!(service.oneshot(get("/healthz")).await.unwrap().status(), StatusCode::OK);
    assert_eq!(layer.shadow_report().by_both, 0);
}

#[tokio::test]
async fn queue_of_a_built_limit_has_at_most_128_places() {
    let hanging = service_fn(|_: Request<Empty<Bytes>>| pending::<Answer>());
    let service = ConcurrencyLayer::bulkhead(200).waiting(LONG).layer(hanging);
    let mut calls: Vec<_> = (0..328).map(|_| Box::pin(service.clone().oneshot(get("/")))).collect();
    assert!(calls.iter_mut().all(|call| poll_once(call.as_mut()).is_pending()), "200 slots, 128 places");
    assert!(poll_once(service.oneshot(get("/"))).is_ready(), "the next request is refused at once");
}

#[tokio::test]
async fn each_key_has_its_own_slots() {
    let handler = Handler::new();
    let server = handler.serve(ConcurrencyLayer::bulkhead_by(|head| head.headers.get("x-tenant").cloned(), 1)).await;
    let greedy =
        tokio::spawn(async move { Client::of(server).await.get_with("/", &[("x-tenant", "acme")]).await.status() });
    eventually("it is in flight", || handler.called().len() == 1).await;
    let mut client = Client::of(server).await;
    for (tenant, status) in [("acme", StatusCode::SERVICE_UNAVAILABLE), ("initech", StatusCode::OK)] {
        assert_eq!(client.get_with("/fast", &[("x-tenant", tenant)]).await.status(), status);
    }
    handler.release(1);
    assert_eq!(greedy.await.unwrap(), StatusCode::OK);
}

/// A caller may poll for readiness and go away.
#[tokio::test]
async fn readiness_takes_no_permit() {
    let pool = Arc::new(Bulkhead::new(1));
    let mut service = ConcurrencyLayer::new(Arc::clone(&pool))
        .layer(service_fn(|_: Request<Empty<Bytes>>| ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())))));
    service.ready().await.unwrap();
    assert_eq!(pool.in_flight(), 0);
    let call = service.call(get("/"));
    assert_eq!(pool.in_flight(), 1);
    drop(call);
    assert_eq!(pool.in_flight(), 0);
}

/// A closure need not be pure, so a waiting request keeps the limit that it found full.
#[tokio::test]
async fn key_of_a_waiting_request_is_read_once() {
    let reads = Arc::new(AtomicUsize::new(0));
    let limits = Arc::new(KeyedBulkhead::new(1, 16).unwrap().queue(1));
    let of_layer = Arc::clone(&reads);
    let key = move |_: &Head<'_>| of_layer.fetch_add(1, Ordering::SeqCst) % 2;
    let layer = ConcurrencyLayer::new(PerKey::new(key, Arc::clone(&limits))).waiting(LONG);
    let held = limits.try_acquire(&0).unwrap();
    let service = service_fn(|_: Request<Empty<Bytes>>| ready(Ok::<_, Infallible>(Response::new(Full::from("done")))));
    let mut call = Box::pin(layer.layer(service).oneshot(get("/")));
    assert!(poll_once(call.as_mut()).is_pending());
    assert_eq!((reads.load(Ordering::SeqCst), limits.status(&0).unwrap().queued()), (1, 1));
    drop(held);
    assert_eq!(call.await.unwrap().status(), StatusCode::OK);
}

/// At a client. One waiting call is dropped, and the service of another panics after the wait.
#[tokio::test]
async fn dropped_or_panicking_call_of_a_client_frees_its_place_and_slot() {
    let pool = Arc::new(Bulkhead::new(1).queue(1));
    let panics = service_fn(async |_: Request<Empty<Bytes>>| -> Answer { panic!("as scripted") });
    let client = ClientConcurrencyLayer::new(Arc::clone(&pool)).waiting(LONG).layer(panics);
    let held = pool.try_acquire().unwrap();
    let mut dropped = Box::pin(client.clone().oneshot(get("/")));
    assert!(poll_once(dropped.as_mut()).is_pending());
    assert_eq!(pool.queued(), 1);
    drop(dropped);
    assert_eq!(pool.queued(), 0);
    let mut panicking = Box::pin(client.oneshot(get("/")));
    assert!(poll_once(panicking.as_mut()).is_pending());
    drop(held);
    assert_eq!(pool.in_flight(), 1, "granted");
    assert!(catch_unwind(AssertUnwindSafe(|| poll_once(panicking.as_mut()))).is_err());
    assert_eq!((pool.in_flight(), pool.queued()), (0, 0));
}
