//! Clients that do not read their responses, and the slots that these hold.

use crate::support::{Client, serve};
use bytes::Bytes;
use damper::concurrency::{Admission, LimitBounds};
use damper::gate::{Ask, Gate};
use damper::http::{ConcurrencyLayer, DeadlineLayer, Head, ReaderStalled, RequestClasses, STALL_LIMIT, server_stack};
use damper::time::TokioSleep;
use damper::{Bulkhead, Deadline, DeadlineExceeded};
use http::{Request, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower::{Service, ServiceExt, service_fn};

/// The time that calls over sockets may take.
const DEADLINE: Duration = Duration::from_millis(300);

const SLOTS: u32 = 20;

/// The least number of slots that have to be usable: 95 %.
const USABLE: usize = 19;

/// Waits until the condition holds.
async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Counts the bodies of a handler.
#[derive(Clone, Default)]
struct Live(Arc<Counts>);

#[derive(Default)]
struct Counts {
    made: AtomicUsize,
    dropped: AtomicUsize,
}

impl Live {
    /// Returns how many bodies have not been dropped.
    fn count(&self) -> usize {
        // In this order, because bodies are made meanwhile.
        let dropped = self.0.dropped.load(Ordering::SeqCst);
        self.made() - dropped
    }

    fn made(&self) -> usize {
        self.0.made.load(Ordering::SeqCst)
    }

    /// Returns a body that ends after these frames; `None` is a pause without an end.
    fn body(&self, frames: impl IntoIterator<Item = Option<Bytes>, IntoIter: Send + 'static>) -> LiveBody {
        self.0.made.fetch_add(1, Ordering::SeqCst);
        LiveBody { frames: Box::new(frames.into_iter()), live: self.clone(), panics: false }
    }

    /// Returns a body without an end, which always has data.
    fn endless(&self) -> LiveBody {
        self.body(std::iter::repeat(Some(Bytes::from(vec![b'x'; 64 * 1024]))))
    }
}

/// A body of a handler.
struct LiveBody {
    frames: Box<dyn Iterator<Item = Option<Bytes>> + Send>,
    live: Live,
    /// Whether it panics when it is dropped.
    panics: bool,
}

impl http_body::Body for LiveBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.frames.next() {
            Some(Some(data)) => Poll::Ready(Some(Ok(Frame::data(data)))),
            Some(None) => Poll::Pending,
            None => Poll::Ready(None),
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl Drop for LiveBody {
    fn drop(&mut self) {
        self.live.0.dropped.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics || std::thread::panicking(), "as scripted");
    }
}

/// Serves endless bodies at `/endless`, and small ones elsewhere, behind a deadline and a limit.
async fn serve_behind<L>(live: &Live, layer: ConcurrencyLayer<L>) -> SocketAddr
where
    L: Gate<Permit: Send, Wait: Send> + for<'a> Ask<Head<'a>> + Send + Sync + 'static,
{
    let live = live.clone();
    serve(move |_| {
        let live = live.clone();
        let handler = hyper::service::service_fn(move |request: Request<Incoming>| {
            let body = match request.uri().path() {
                "/endless" => live.endless(),
                _ => live.body([Some(Bytes::from_static(b"hello"))]),
            };
            async move { Ok::<_, Infallible>(Response::new(body)) }
        });
        DeadlineLayer::new(DEADLINE).layer(layer.layer(handler))
    })
    .await
}

/// Connects and asks for a path, without reading the response.
async fn ask_without_reading(server: SocketAddr, path: &str) -> TcpStream {
    let mut connection = TcpStream::connect(server).await.unwrap();
    connection.write_all(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes()).await.unwrap();
    connection
}

/// Returns how many of as many calls as there are slots are served at the same time.
async fn served_at_once(server: SocketAddr) -> usize {
    let mut calls = Vec::new();
    for _ in 0..SLOTS {
        calls.push(tokio::spawn(async move { Client::of(server).await.get("/").await.status() }));
    }
    let mut passed = 0;
    for call in calls {
        passed += usize::from(call.await.unwrap() == StatusCode::OK);
    }
    passed
}

/// Clients that read nothing take all slots, and others are served once their deadlines have passed.
///
/// All connections are still open then.
async fn slots_are_usable_after_the_deadline<L>(layer: ConcurrencyLayer<L>, in_flight: impl Fn() -> u32)
where
    L: Gate<Permit: Send, Wait: Send> + for<'a> Ask<Head<'a>> + Send + Sync + 'static,
{
    let live = Live::default();
    let server = serve_behind(&live, layer).await;

    let mut connections = Vec::new();
    for _ in 0..SLOTS {
        connections.push(ask_without_reading(server, "/endless").await);
    }
    eventually("HTTP/1: all slots were taken", || live.made() == SLOTS as usize).await;
    eventually("HTTP/1: the bodies are dropped", || live.count() == 0 && in_flight() == 0).await;
    let usable = served_at_once(server).await;
    assert!(usable >= USABLE, "HTTP/1: {usable} of {SLOTS} slots are usable");

    // A body that is never polled, and one of a single frame.
    for path in ["/endless", "/"] {
        let stream = TokioIo::new(TcpStream::connect(server).await.unwrap());
        let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(0)
            .handshake::<_, Empty<Bytes>>(stream)
            .await
            .unwrap();
        tokio::spawn(connection);
        let mut unread = Vec::new();
        for _ in 0..SLOTS {
            let request = Request::get(format!("http://{server}{path}")).body(Empty::new()).unwrap();
            let response = sender.send_request(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK, "HTTP/2 {path}");
            unread.push(response);
        }
        eventually("HTTP/2: the bodies are dropped", || live.count() == 0 && in_flight() == 0).await;
        let usable = served_at_once(server).await;
        assert!(usable >= USABLE, "HTTP/2 {path}: {usable} of {SLOTS} slots are usable");
        drop(unread);
    }
    drop(connections);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_of_a_bulkhead_are_usable_after_the_deadline_of_calls_that_nobody_reads() {
    let pool = Arc::new(Bulkhead::new(SLOTS));
    let layer = ConcurrencyLayer::new(Arc::clone(&pool));
    slots_are_usable_after_the_deadline(layer, || pool.in_flight()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_of_an_admission_are_usable_after_the_deadline_of_calls_that_nobody_reads() {
    let gate = Arc::new(Admission::fixed(SLOTS));
    let layer = ConcurrencyLayer::new(RequestClasses::new().before(Arc::clone(&gate), TokioSleep));
    slots_are_usable_after_the_deadline(layer, || gate.in_flight()).await;
}

/// Runs a request on a service of endless bodies, and returns the response, which holds its slot.
async fn respond<S, R>(service: S, request: Request<Empty<Bytes>>) -> R
where
    S: Service<Request<Empty<Bytes>>, Response = Response<R>, Error = Infallible>,
{
    service.oneshot(request).await.unwrap().into_body()
}

fn request() -> Request<Empty<Bytes>> {
    Request::new(Empty::new())
}

/// A limit of `stall` for readers, and the time that a sweep may be late.
const STALL: Duration = Duration::from_secs(10);
const LATE: Duration = Duration::from_millis(10);

fn just_before(limit: Duration) -> Duration {
    limit.saturating_sub(LATE)
}

/// Returns a handler whose responses have these frames.
fn handler<const FRAMES: usize>(
    live: &Live,
    frames: [Option<&'static str>; FRAMES],
) -> impl Fn(Request<Empty<Bytes>>) -> std::future::Ready<Result<Response<LiveBody>, Infallible>> + Clone {
    let live = live.clone();
    move |_| std::future::ready(Ok(Response::new(live.body(frames.map(|frame| frame.map(Bytes::from))))))
}

#[tokio::test(start_paused = true)]
async fn stalled_reader_frees_the_slot_after_the_limit_and_gets_an_error() {
    let (live, pool) = (Live::default(), Arc::new(Bulkhead::new(1)));
    let layer = ConcurrencyLayer::new(Arc::clone(&pool)).stall_limit(STALL);
    let service = layer.layer(service_fn(handler(&live, [Some("first"), Some("second"), None])));
    // A reader that never begins, and one that stalls after a frame.
    for frames in [0, 1] {
        let mut body = respond(service.clone(), request()).await;
        for _ in 0..frames {
            tokio::time::sleep(STALL / 2).await;
            body.frame().await.unwrap().unwrap();
        }
        tokio::time::sleep(just_before(STALL)).await;
        assert_eq!((pool.in_flight(), live.count()), (1, 1), "{frames} frames: too early");
        tokio::time::sleep(LATE * 2).await;
        assert_eq!((pool.in_flight(), live.count()), (0, 0), "{frames} frames: too late");
        assert!(!body.is_end_stream(), "it would pass for a whole body");
        let error = body.frame().await.unwrap().unwrap_err();
        assert_eq!(error.downcast_ref::<ReaderStalled>().unwrap().limit(), STALL);
        assert_eq!(error.to_string(), "client took no data for 10s");
        assert!(body.frame().await.is_none());
    }
}

/// Time in which the service has no data is not the reader's.
#[tokio::test(start_paused = true)]
async fn silent_service_is_no_stalled_reader() {
    let (live, pool) = (Live::default(), Arc::new(Bulkhead::new(1)));
    let layer = ConcurrencyLayer::new(Arc::clone(&pool)).stall_limit(STALL);
    let mut body =
        respond(layer.layer(service_fn(handler(&live, [Some("first"), None, Some("second")]))), request()).await;
    body.frame().await.unwrap().unwrap();
    let silence = STALL * 7 / 2;
    assert!(std::pin::pin!(body.frame()).poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
    tokio::time::sleep(silence).await;
    assert_eq!((pool.in_flight(), live.count()), (1, 1));
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "second");
    // The limit begins with the frame, whatever the time of the last sweep.
    tokio::time::sleep(just_before(STALL)).await;
    assert_eq!(live.count(), 1);
    tokio::time::sleep(LATE * 2).await;
    assert_eq!(live.count(), 0);
}

/// A limit that is absent has no slots that a slow reader could hold.
#[tokio::test(start_paused = true)]
async fn absent_limit_cuts_no_body_off() {
    let live = Live::default();
    let layer = ConcurrencyLayer::new(None::<Arc<Bulkhead>>).stall_limit(STALL);
    let mut body = respond(layer.layer(service_fn(handler(&live, [Some("first"), Some("second")]))), request()).await;
    tokio::time::sleep(STALL * 2).await;
    assert_eq!(live.count(), 1);
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
}

/// The reader takes the whole body, and writes it for longer than the limit.
#[tokio::test(start_paused = true)]
async fn whole_body_is_not_cut_off() {
    let (live, pool) = (Live::default(), Arc::new(Bulkhead::new(1)));
    let layer = ConcurrencyLayer::new(Arc::clone(&pool)).stall_limit(STALL);
    let full = service_fn(|_: Request<Empty<Bytes>>| async { Ok(Response::new(Full::from("whole"))) });
    let mut body = respond(layer.layer(full), request()).await;
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "whole");
    assert!(body.is_end_stream() && body.size_hint().exact() == Some(0));
    tokio::time::sleep(STALL * 2).await;
    assert!(body.is_end_stream() && body.frame().await.is_none());

    let mut body = respond(layer.layer(service_fn(handler(&live, [Some("whole")]))), request()).await;
    body.frame().await.unwrap().unwrap();
    assert!(body.frame().await.is_none());
    tokio::time::sleep(STALL * 2).await;
    assert!(body.is_end_stream() && body.frame().await.is_none());
    assert_eq!(live.count(), 0);
}

/// Admission and bulkheads of a stack have the limit without being told.
#[tokio::test(start_paused = true)]
async fn server_stack_has_a_stall_limit() {
    let live = Live::default();
    let handler = || service_fn(handler(&live, [Some("first"), None]));
    let bulkhead = respond(server_stack().bulkhead(1).service(handler()), request()).await;
    let adaptive = respond(server_stack().adaptive(LimitBounds::DEFAULT).service(handler()), request()).await;
    let admission = respond(server_stack().admission(Admission::fixed(1)).service(handler()), request()).await;
    tokio::time::sleep(just_before(STALL_LIMIT)).await;
    assert_eq!(live.count(), 3);
    tokio::time::sleep(LATE * 2).await;
    assert_eq!(live.count(), 0);
    drop((bulkhead, adaptive, admission));
}

/// The deadline ends a body that waits for its service, too. Its reader gets the deadline's own end.
#[tokio::test]
async fn reader_learns_that_the_deadline_has_passed() {
    let live = Live::default();
    let layer = ConcurrencyLayer::bulkhead(1);
    let service = layer.layer(service_fn(handler(&live, [Some("first"), Some("second")])));
    let mut with_deadline = request();
    with_deadline.extensions_mut().insert(Deadline::after(DEADLINE));
    let mut body = respond(service.clone(), with_deadline).await;
    eventually("the body is dropped", || live.count() == 0).await;
    let error = body.frame().await.unwrap().unwrap_err();
    assert_eq!(error.downcast_ref::<DeadlineExceeded>().unwrap().specified(), DEADLINE);

    let service = DeadlineLayer::new(DEADLINE).layer(service);
    let mut body = respond(service, request()).await;
    eventually("the body is dropped", || live.count() == 0).await;
    let error = body.frame().await.unwrap().unwrap_err();
    assert_eq!(error.downcast_ref::<DeadlineExceeded>().unwrap().specified(), DEADLINE);
}

/// The service's body, which would have woken it, is dropped.
#[tokio::test]
async fn deadline_wakes_the_reader_that_waits_for_data() {
    let live = Live::default();
    let service = ConcurrencyLayer::bulkhead(1).layer(service_fn(handler(&live, [Some("first"), None])));
    let mut with_deadline = request();
    with_deadline.extensions_mut().insert(Deadline::after(DEADLINE));
    let mut body = respond(service, with_deadline).await;
    body.frame().await.unwrap().unwrap();
    let reader = tokio::spawn(async move { body.frame().await.unwrap().unwrap_err() });
    eventually("the reader is woken", || reader.is_finished()).await;
    let error = reader.await.unwrap();
    assert_eq!(error.downcast_ref::<DeadlineExceeded>().unwrap().specified(), DEADLINE);
}

/// A client that reads on after the deadline must not take the response for a whole one.
#[tokio::test]
async fn response_that_was_cut_off_has_no_last_chunk() {
    let (live, pool) = (Live::default(), Arc::new(Bulkhead::new(1)));
    let server = serve_behind(&live, ConcurrencyLayer::new(Arc::clone(&pool))).await;
    let mut connection = ask_without_reading(server, "/endless").await;
    eventually("the call was made", || live.made() == 1).await;
    eventually("the body is dropped", || live.count() == 0 && pool.in_flight() == 0).await;
    let mut read = Vec::new();
    // The server closes the connection, whether by a FIN or a reset.
    _ = connection.read_to_end(&mut read).await;
    assert!(read.starts_with(b"HTTP/1.1 200 OK\r\n"));
    assert!(!read.ends_with(b"0\r\n\r\n"), "the last chunk says that the body is whole");
}

/// One of many expired bodies panics when it is dropped.
#[tokio::test(start_paused = true)]
async fn body_that_panics_does_not_keep_the_others() {
    let live = Live::default();
    let layer = ConcurrencyLayer::bulkhead(9).stall_limit(STALL);
    let mut bodies = Vec::new();
    for number in 0..9 {
        let mut body = live.endless();
        body.panics = number == 4;
        let body = Arc::new(std::sync::Mutex::new(Some(body)));
        let service = layer.layer(service_fn(move |_: Request<Empty<Bytes>>| {
            let body = body.lock().unwrap().take().unwrap();
            async move { Ok(Response::new(body)) }
        }));
        bodies.push(respond(service, request()).await);
    }
    tokio::time::sleep(STALL + LATE).await;
    assert_eq!(live.count(), 0);
    // The timer goes on.
    let late = respond(layer.layer(service_fn(handler(&live, [Some("first"), None]))), request()).await;
    tokio::time::sleep(STALL + LATE).await;
    assert_eq!(live.count(), 0);
    drop(late);
}

/// A thread may leave a runtime and enter another.
#[test]
fn limit_outlives_the_runtime_of_its_timer() {
    let live = Live::default();
    let layer = ConcurrencyLayer::bulkhead(9).stall_limit(STALL);
    let service = layer.layer(service_fn(handler(&live, [Some("first"), None])));
    let paused = || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    // The first runtime stands still, and its body stays. The others end.
    let standing = paused();
    let kept = standing.block_on(respond(service.clone(), request()));
    for _ in 0..3 {
        paused().block_on(async {
            let body = respond(service.clone(), request()).await;
            tokio::time::sleep(STALL + LATE).await;
            assert_eq!(live.count(), 1, "only the body of the first runtime is there");
            drop(body);
        });
    }
    standing.block_on(async { tokio::time::sleep(STALL + LATE).await });
    assert_eq!(live.count(), 0);
    drop(kept);
}

/// Such a runtime cannot drop bodies, and serves them all the same.
///
/// The timer panics once, in a task of its own.
#[test]
fn runtime_without_a_timer_serves_bodies() {
    let (live, pool) = (Live::default(), Arc::new(Bulkhead::new(2)));
    let layer = ConcurrencyLayer::new(Arc::clone(&pool)).stall_limit(STALL);
    let service = layer.layer(service_fn(handler(&live, [Some("first")])));
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
        for _ in 0..3 {
            let mut body = respond(service.clone(), request()).await;
            tokio::task::yield_now().await;
            assert_eq!((pool.in_flight(), live.count()), (1, 1));
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
            assert!(body.frame().await.is_none());
            assert_eq!((pool.in_flight(), live.count()), (0, 0));
        }
    });
}

/// Without a runtime no timer runs, and the body is its reader's.
#[test]
fn body_outside_of_a_runtime_is_dropped_by_its_reader() {
    let (live, pool) = (Live::default(), Arc::new(Bulkhead::new(1)));
    let layer = ConcurrencyLayer::new(Arc::clone(&pool)).stall_limit(STALL);
    let service = layer.layer(service_fn(handler(&live, [Some("first"), None])));
    let mut call = std::pin::pin!(respond(service, request()));
    let mut context = Context::from_waker(std::task::Waker::noop());
    let Poll::Ready(body) = call.as_mut().poll(&mut context) else { panic!("the handler is ready at once") };
    assert_eq!((pool.in_flight(), live.count()), (1, 1));
    drop(body);
    assert_eq!((pool.in_flight(), live.count()), (0, 0));
}
