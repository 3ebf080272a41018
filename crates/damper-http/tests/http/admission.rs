//! Admission gates before HTTP and gRPC servers: classes, tenants and deadlines.

use crate::support::{Client, serve};
use bytes::Bytes;
use damper::concurrency::{Admission, AdmissionRequest, Criticality, FixedLimit, NotAdmitted};
use damper::gate::{Answer, Ask, Ending, Permit};
use damper::http::{ConcurrencyLayer, DeadlineLayer, Head, ResponseHead};
use damper::{Deadline, ManualClock};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use std::convert::Infallible;
use std::future::{Ready, pending, ready};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

const SECOND: Duration = Duration::from_secs(1);

/// Waits until the condition holds.
async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://test.example{path}")).body(Empty::new()).unwrap()
}

/// The first segment of the path is the class, and the second the tenant.
fn class_of(head: &Head<'_>) -> Criticality {
    match head.uri.path().split('/').nth(1) {
        Some("top") => Criticality::CriticalPlus,
        Some("low") => Criticality::Sheddable,
        _ => Criticality::Critical,
    }
}

fn tenant_of(head: &Head<'_>) -> Option<String> {
    head.uri.path().split('/').nth(2).map(str::to_owned)
}

/// A server whose calls end when the test lets them.
struct Server {
    gate: Arc<Admission<FixedLimit>>,
    go: Arc<Semaphore>,
    /// The paths of the calls, in order.
    called: Arc<Mutex<Vec<String>>>,
    address: SocketAddr,
}

impl Server {
    async fn start(limit: u32) -> Self {
        let gate = Arc::new(Admission::fixed(limit));
        let (go, called) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(Vec::new())));
        let layer = ConcurrencyLayer::admission(Arc::clone(&gate)).criticality(class_of).tenant(tenant_of);
        let (of_handler, paths) = (Arc::clone(&go), Arc::clone(&called));
        let address = serve(move |_| {
            let (go, called) = (Arc::clone(&of_handler), Arc::clone(&paths));
            layer.layer(hyper::service::service_fn(move |request: Request<Incoming>| {
                let go = Arc::clone(&go);
                called.lock().unwrap().push(request.uri().path().to_owned());
                async move {
                    go.acquire().await.unwrap().forget();
                    Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("done")))
                }
            }))
        })
        .await;
        Self { gate, go, called, address }
    }

    /// Sends a request in a separate task.
    fn get(&self, path: &'static str) -> JoinHandle<Response<Bytes>> {
        let address = self.address;
        tokio::spawn(async move { Client::of(address).await.get(path).await })
    }

    /// Sends a request, and waits until this many calls are in flight or queued.
    async fn get_as(&self, calls: u32, path: &'static str) -> JoinHandle<Response<Bytes>> {
        let call = self.get(path);
        eventually(path, || self.gate.in_flight() + self.gate.queued() == calls).await;
        call
    }
}

#[tokio::test]
async fn higher_class_is_served_first() {
    let server = Server::start(2).await;
    let mut calls = Vec::new();
    for (number, path) in [(1, "/x/1"), (2, "/x/2"), (3, "/top/4"), (4, "/low/3")] {
        calls.push(server.get_as(number, path).await);
    }
    for (released, path) in [(1, "/top/4"), (2, "/low/3")] {
        server.go.add_permits(1);
        eventually(path, || server.called.lock().unwrap().len() == 2 + released).await;
        assert_eq!(server.called.lock().unwrap().last().unwrap(), path);
    }
    server.go.add_permits(2);
    for call in calls {
        assert_eq!(call.await.unwrap().status(), StatusCode::OK);
    }
    eventually("all slots are free", || server.gate.in_flight() == 0).await;
}

#[tokio::test]
async fn lower_class_gives_way_in_a_full_queue() {
    let server = Server::start(1).await;
    let first = server.get_as(1, "/x/1").await;
    let low = server.get_as(2, "/low/2").await;
    let top = server.get("/top/3");
    let refusal = low.await.unwrap();
    assert_eq!(refusal.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refusal.headers()["retry-after"], "1", "the layer's default, because the gate has no estimate yet");
    assert_eq!(refusal.body(), "not admitted, limit 1 reached, displaced from the queue\n");
    server.go.add_permits(2);
    assert_eq!((first.await.unwrap().status(), top.await.unwrap().status()), (StatusCode::OK, StatusCode::OK));
    assert_eq!(*server.called.lock().unwrap(), ["/x/1", "/top/3"]);
}

/// If all calls were of one tenant, the newest of a class would go first and `b` last.
#[tokio::test]
async fn tenants_of_a_class_alternate() {
    let server = Server::start(4).await;
    let mut calls = Vec::new();
    for (number, path) in
        [(1, "/x/a"), (2, "/x/a"), (3, "/x/a"), (4, "/x/a"), (5, "/x/b"), (6, "/x/a"), (7, "/x/a"), (8, "/x/a")]
    {
        calls.push(server.get_as(number, path).await);
    }
    for released in 1..=4 {
        server.go.add_permits(1);
        eventually("the next is called", || server.called.lock().unwrap().len() == 4 + released).await;
    }
    let called = server.called.lock().unwrap().clone();
    assert!(called[4..6].contains(&"/x/b".to_owned()), "{called:?}");
    server.go.add_permits(4);
    for call in calls {
        assert_eq!(call.await.unwrap().status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn disconnected_client_frees_its_place() {
    let server = Server::start(1).await;
    let first = server.get_as(1, "/x/1").await;
    let given_up = server.get_as(2, "/x/2").await;
    given_up.abort();
    eventually("its place in the queue is free", || server.gate.queued() == 0).await;
    server.go.add_permits(1);
    assert_eq!(first.await.unwrap().status(), StatusCode::OK);
    eventually("the slot is free", || server.gate.in_flight() == 0).await;
    assert_eq!(server.called.lock().unwrap().len(), 1);
}

type Clocked = Arc<Admission<FixedLimit, Arc<ManualClock>>>;

/// A gate of one slot on its own clock, whose calls take four seconds.
fn gate_of_slow_calls() -> (Arc<ManualClock>, Clocked) {
    let clock = Arc::new(ManualClock::new());
    let gate = Arc::new(Admission::fixed_with_clock(1, Arc::clone(&clock)));
    for _ in 0..200 {
        let permit = gate.try_acquire(AdmissionRequest::new()).unwrap();
        clock.advance(4 * SECOND);
        permit.success();
    }
    (clock, gate)
}

fn never<B>(_: Request<B>) -> std::future::Pending<Result<Response<Full<Bytes>>, Infallible>> {
    pending()
}

#[test]
fn usual_latency_of_a_gate_is_its_median() {
    let (_, gate) = gate_of_slow_calls();
    let Answer::Pass(permit) = gate.ask(&AdmissionRequest::new()) else { panic!("a slot is free") };
    assert_eq!(permit.usual_latency(), gate.median_service_time());
    assert!(permit.usual_latency().is_some_and(|latency| latency > SECOND));
}

/// The refusal's wait is the gate's own estimate.
#[tokio::test]
async fn refusal_names_the_wait_until_the_gate_has_room() {
    let (_, gate) = gate_of_slow_calls();
    let mut service = ConcurrencyLayer::admission(gate).criticality(class_of).layer(service_fn(never::<Empty<Bytes>>));
    let mut calls: Vec<_> = (0..2).map(|_| Box::pin(service.call(get("/x/1")))).collect();
    for call in &mut calls {
        assert!(poll_once(call.as_mut()).is_pending());
    }
    let Poll::Ready(Ok(refusal)) = poll_once(service.call(get("/low/1"))) else { panic!("it waits") };
    assert_eq!(refusal.status(), StatusCode::SERVICE_UNAVAILABLE);
    let seconds: u64 = refusal.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((7..=10).contains(&seconds), "two calls of four seconds, by an estimate: {seconds} s");
}

#[tokio::test]
async fn request_that_cannot_finish_in_time_is_refused() {
    let (_, gate) = gate_of_slow_calls();
    let _busy = gate.try_acquire(AdmissionRequest::new()).unwrap();
    let service = ConcurrencyLayer::admission(Arc::clone(&gate)).layer(service_fn(never::<Empty<Bytes>>));
    let mut request = get("/top/1");
    request.extensions_mut().insert(Deadline::after(3 * SECOND));
    let refusal = service.oneshot(request).await.unwrap();
    assert_eq!(refusal.status(), StatusCode::SERVICE_UNAVAILABLE);
    let text = refusal.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(text, "not admitted, too little time is left before its deadline\n");
}

#[tokio::test]
async fn request_without_a_deadline_does_not_wait_for_ever() {
    let gate = Arc::new(Admission::fixed(1));
    let _held = gate.try_acquire_owned(AdmissionRequest::new()).unwrap();
    let layer = ConcurrencyLayer::admission(Arc::clone(&gate)).longest_wait(Duration::from_millis(20));
    let service = layer.layer(hyper::service::service_fn(done));
    // A deadline layer that only passes deadlines on gives such a request the deadline that never comes.
    let mut propagated = get("/");
    propagated.extensions_mut().insert(Deadline::NEVER);
    for request in [get("/"), propagated] {
        let mut waiting = Box::pin(hyper::service::Service::call(&service, request));
        assert!(poll_once(waiting.as_mut()).is_pending());
        assert_eq!(gate.queued(), 1);
        let response = tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap().unwrap();
        assert_eq!((response.status(), gate.queued()), (StatusCode::SERVICE_UNAVAILABLE, 0));
        let text = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(text, "not admitted, limit 1 reached, no slot in time\n");
    }
}

/// A longest wait below the service time still queues the call.
///
/// The refusal keeps the gate's estimate.
#[tokio::test]
async fn longest_wait_is_not_the_time_that_a_call_may_take() {
    let (_, gate) = gate_of_slow_calls();
    let _held = gate.try_acquire_owned(AdmissionRequest::new()).unwrap();
    let layer = ConcurrencyLayer::admission(Arc::clone(&gate)).longest_wait(SECOND);
    let mut service = layer.layer(service_fn(never::<Empty<Bytes>>));
    let mut waiting = Box::pin(service.call(get("/")));
    assert!(poll_once(waiting.as_mut()).is_pending());
    assert_eq!(gate.queued(), 1);
}

/// A deadline layer outside ends the work.
#[tokio::test]
async fn work_ends_at_its_deadline_and_frees_its_slot() {
    let gate = Arc::new(Admission::fixed(1));
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(Duration::from_millis(50)))
        .layer(ConcurrencyLayer::admission(Arc::clone(&gate)))
        .service_fn(never::<Empty<Bytes>>);
    assert_eq!(service.oneshot(get("/")).await.unwrap().status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(gate.in_flight(), 0);
}

fn done(_: Request<Empty<Bytes>>) -> Ready<Result<Response<Full<Bytes>>, Infallible>> {
    ready(Ok(Response::new(Full::from("done"))))
}

#[tokio::test]
async fn settings_are_those_of_a_concurrency_layer() {
    let layer = ConcurrencyLayer::admission(Admission::fixed(0))
        .exempt(|head| head.uri.path() == "/healthz")
        .retry_after(5 * SECOND);
    let service = layer.clone().problem_json().layer(service_fn(done));
    assert_eq!(service.clone().oneshot(get("/healthz")).await.unwrap().status(), StatusCode::OK);
    let refusal = service.oneshot(get("/")).await.unwrap();
    assert_eq!(refusal.headers()["retry-after"], "5");
    assert_eq!(refusal.headers()["content-type"], "application/problem+json");
    let service = layer.body(|_, refused: &NotAdmitted| ("text/html", format!("<p>{refused}"))).layer(service_fn(done));
    let text = service.oneshot(get("/")).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    assert!(text.starts_with(b"<p>not admitted, the limit is 0"), "{text:?}");
}

/// The duration of an ignored response does not count as service time.
#[tokio::test]
async fn classify_chooses_the_responses_that_count() {
    let classify = |ending: Ending| move |_: Result<&ResponseHead, &Infallible>| ending;
    for (ending, has_median) in [(Ending::Declined, false), (Ending::Success, true)] {
        let gate = Arc::new(Admission::fixed(1));
        let service = ConcurrencyLayer::admission(Arc::clone(&gate)).classify(classify(ending)).layer(service_fn(done));
        for _ in 0..200 {
            service.clone().oneshot(get("/")).await.unwrap();
        }
        assert_eq!(gate.median_service_time().is_some(), has_median, "{ending:?}");
    }
}
