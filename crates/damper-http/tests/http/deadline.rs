//! Deadlines of HTTP servers and clients.

use crate::support::{Client, serve};
use bytes::Bytes;
use damper::deadline::SkewGuard;
use damper::http::{
    ClientConcurrencyLayer, ClientDeadlineLayer, DeadlineLayer, RateLimitLayer, RequestDeadline, ResponseHead,
    RetryLayer, TimeoutUnit,
};
use damper::retry::{Failure, GaveUp, Jitter, Unlimited};
use damper::tower::GateLayer;
use damper::{Backoff, Bulkhead, Deadline, DeadlineExceeded, Quota, RateLimiter, Retry, RetryError, is_refusal};
use futures_util::{StreamExt, stream};
use http::header::RETRY_AFTER;
use http::{HeaderName, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper_util::client::legacy::Client as PooledClient;
use hyper_util::rt::TokioExecutor;
use std::convert::Infallible;
use std::error::Error;
use std::future::{Ready, pending, ready};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

const TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");
const INSTANT: HeaderName = HeaderName::from_static("x-deadline-unix-ms");
const SHORT: Duration = Duration::from_millis(150);
/// A deadline, and the part of it that the head takes before the body stalls.
const DEADLINE: Duration = Duration::from_millis(400);
const HEAD: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);

type BoxError = Box<dyn Error + Send + Sync>;

fn server(timeout: Duration) -> DeadlineLayer<damper::time::TokioSleep> {
    DeadlineLayer::new(timeout).header(TIMEOUT, TimeoutUnit::Milliseconds)
}

fn client(timeout: Duration) -> ClientDeadlineLayer<damper::time::TokioSleep> {
    ClientDeadlineLayer::new(timeout).header(TIMEOUT, TimeoutUnit::Milliseconds)
}

fn request(timeout: Option<&str>) -> Request<Empty<Bytes>> {
    let mut request = Request::get("http://test.example/").body(Empty::new()).unwrap();
    if let Some(timeout) = timeout {
        request.headers_mut().insert(TIMEOUT, timeout.parse().unwrap());
    }
    request
}

/// Sets the flag when it is dropped.
struct DropFlag(Arc<AtomicBool>);

impl Drop for DropFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A body of one frame that then stalls for ever.
fn stalled_body(dropped: Arc<AtomicBool>) -> impl http_body::Body<Data = Bytes, Error = Infallible> + Send {
    let flag = DropFlag(dropped);
    let frames = stream::iter([Ok(Frame::data(Bytes::from("first")))]).chain(stream::pending());
    StreamBody::new(frames.inspect(move |_| _ = &flag))
}

/// Responds with the deadline that the handler received.
#[allow(clippy::needless_pass_by_value, reason = "the signature of a service function")]
fn respond_with_deadline<B>(request: Request<B>) -> Ready<Result<Response<Full<Bytes>>, Infallible>> {
    let deadline = request.extensions().get::<Deadline>().unwrap();
    ready(Ok(Response::new(Full::from(deadline.specified().as_millis().to_string()))))
}

async fn text<B: http_body::Body<Data = Bytes, Error: std::fmt::Debug>>(response: Response<B>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn handler_gets_the_smaller_of_header_and_default() {
    let service = server(Duration::from_secs(2)).layer(service_fn(respond_with_deadline));
    for (header, expected) in [
        (None, "2000"),
        (Some("500"), "500"),
        (Some(" 500 "), "500"),
        (Some("5000"), "2000"),
        // Malformed values are ignored.
        (Some(""), "2000"),
        (Some("+500"), "2000"),
        (Some("-1"), "2000"),
        (Some("0.5"), "2000"),
        (Some("500ms"), "2000"),
        (Some("99999999999999999999999"), "2000"),
    ] {
        let response = service.clone().oneshot(request(header)).await.unwrap();
        assert_eq!(text(response).await, expected, "{header:?}");
    }
}

#[tokio::test]
async fn each_unit_of_a_header_is_read_and_written() {
    for (unit, sent) in
        [(TimeoutUnit::Seconds, "7"), (TimeoutUnit::Milliseconds, "7000"), (TimeoutUnit::Microseconds, "7000000")]
    {
        let service = DeadlineLayer::new(LONG).header(TIMEOUT, unit).layer(service_fn(respond_with_deadline));
        assert_eq!(text(service.oneshot(request(Some(sent))).await.unwrap()).await, "7000");
        let seen = sent_timeout(ClientDeadlineLayer::new(LONG).header(TIMEOUT, unit), request(Some(sent))).await;
        let (seen, sent): (u64, u64) = (seen.unwrap().unwrap(), sent.parse().unwrap());
        assert!(seen <= sent && seen >= sent * 6 / 7, "{unit:?}: {seen} of {sent}");
    }
}

#[tokio::test]
async fn inner_layer_cannot_lengthen_the_deadline() {
    let inner = ServiceBuilder::new().layer(server(Duration::from_secs(2))).layer(server(LONG));
    let response = inner.service_fn(respond_with_deadline).oneshot(request(None)).await.unwrap();
    assert_eq!(text(response).await, "2000");
}

#[tokio::test]
async fn expired_request_gets_a_response_without_a_call() {
    let hits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&hits);
    let service = server(LONG).layer(service_fn(move |request| {
        counted.fetch_add(1, Ordering::SeqCst);
        respond_with_deadline::<Empty<Bytes>>(request)
    }));
    let response = service.oneshot(request(Some("0"))).await.unwrap();
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert!(text(response).await.starts_with("deadline of 0"));
    assert_eq!(hits.load(Ordering::SeqCst), 0);
}

/// Over real sockets, by HTTP/1.1 and HTTP/2.
#[tokio::test]
async fn slow_handler_is_dropped_with_a_504() {
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&dropped);
    let address = serve(move |_| {
        let flag = Arc::clone(&flag);
        server(LONG).layer(hyper::service::service_fn(move |_| {
            let flag = DropFlag(Arc::clone(&flag));
            async move {
                let _flag = flag;
                pending::<Result<Response<Full<Bytes>>, Infallible>>().await
            }
        }))
    })
    .await;
    for mut client in [Client::of(address).await, Client::http2(address).await] {
        dropped.store(false, Ordering::SeqCst);
        let began = Instant::now();
        let response = client.get_with("/", &[("x-timeout-ms", "150")]).await;
        assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
        assert!(began.elapsed() >= SHORT);
        assert!(dropped.load(Ordering::SeqCst));
    }
}

/// A handler that blocks its thread is ready at the next poll.
#[tokio::test]
async fn late_result_is_discarded() {
    let service = service_fn(|_: Request<Empty<Bytes>>| async {
        std::thread::sleep(SHORT * 2);
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("late")))
    });
    let response = server(SHORT).layer(service).oneshot(request(None)).await.unwrap();
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    let error = client(SHORT).layer(service).oneshot(request(None)).await.unwrap_err();
    assert_eq!(DeadlineExceeded::find_in(&*error).unwrap().specified(), SHORT);
}

/// The head takes most of the time, so a separate timeout of the body would last longer.
#[tokio::test]
async fn stalled_body_is_cut_off_by_the_deadline_of_its_head() {
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&dropped);
    let address = serve(move |_| {
        let flag = Arc::clone(&flag);
        server(DEADLINE).layer(hyper::service::service_fn(move |_| {
            let flag = Arc::clone(&flag);
            async move {
                tokio::time::sleep(HEAD).await;
                Ok::<_, Infallible>(Response::new(stalled_body(flag)))
            }
        }))
    })
    .await;
    let began = Instant::now();
    let client = PooledClient::builder(TokioExecutor::new()).build_http();
    let get = Request::get(format!("http://{address}/")).body(Empty::<Bytes>::new()).unwrap();
    let mut body = client.request(get).await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
    assert!(body.frame().await.unwrap().is_err());
    let elapsed = began.elapsed();
    assert!(elapsed >= DEADLINE && elapsed < DEADLINE + HEAD, "{elapsed:?}");
    assert!(dropped.load(Ordering::SeqCst));
}

#[tokio::test]
async fn frame_that_is_late_is_discarded() {
    let service = service_fn(|_: Request<Empty<Bytes>>| {
        let frames = stream::iter(["in time", "late"]).map(|text| Ok::<_, Infallible>(Frame::data(Bytes::from(text))));
        ready(Ok::<_, Infallible>(Response::new(StreamBody::new(frames))))
    });
    let mut body = server(SHORT).layer(service).oneshot(request(None)).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().is_ok());
    std::thread::sleep(SHORT);
    let error = body.frame().await.unwrap().unwrap_err();
    assert!(DeadlineExceeded::find_in(&*error).is_some());
    assert!(body.frame().await.is_none());
    assert!(http_body::Body::is_end_stream(&body));
}

#[tokio::test]
async fn body_that_was_read_in_time_may_end_late() {
    let service = service_fn(|_: Request<Empty<Bytes>>| {
        let frames = stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from("all of it")))]);
        ready(Ok::<_, Infallible>(Response::new(StreamBody::new(frames))))
    });
    let mut body = server(SHORT).layer(service).oneshot(request(None)).await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "all of it");
    std::thread::sleep(SHORT);
    assert!(body.frame().await.is_none());
}

/// The trailers of gRPC-Web are part of the body, which the layer does not write.
///
/// Media types are compared without case.
#[tokio::test]
async fn stalled_body_of_grpc_web_breaks_off_in_any_case_of_its_type() {
    let stalled = service_fn(|_: Request<Empty<Bytes>>| {
        let frames = stream::pending::<Result<Frame<Bytes>, Infallible>>();
        ready(Ok::<_, Infallible>(Response::new(StreamBody::new(frames))))
    });
    for content_type in ["application/grpc-web+proto", "Application/gRPC-Web+proto"] {
        let request = Request::post("/").header("content-type", content_type).body(Empty::new()).unwrap();
        let mut body = DeadlineLayer::new(SHORT).layer(stalled).oneshot(request).await.unwrap().into_body();
        let error = body.frame().await.unwrap().expect_err("no trailers");
        assert!(DeadlineExceeded::find_in(&*error).is_some());
    }
}

#[tokio::test]
async fn response_that_is_ready_needs_no_timer() {
    let sleeps = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sleeps);
    let sleep = move |duration| {
        counted.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(duration)
    };
    let service = ServiceBuilder::new()
        .layer(ClientDeadlineLayer::sleeping_by(LONG, sleep.clone()))
        .layer(DeadlineLayer::sleeping_by(LONG, sleep))
        .service_fn(respond_with_deadline);
    assert_eq!(text(service.oneshot(request(None)).await.unwrap()).await, "60000");
    assert_eq!(sleeps.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn early_timer_does_not_end_the_call() {
    let layer = DeadlineLayer::sleeping_by(SHORT, |duration: Duration| tokio::time::sleep(duration / 3));
    let began = Instant::now();
    let service = service_fn(|_: Request<Empty<Bytes>>| pending::<Result<Response<Full<Bytes>>, Infallible>>());
    let response = layer.layer(service).oneshot(request(None)).await.unwrap();
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    assert!(began.elapsed() >= SHORT);
}

#[tokio::test]
async fn spawned_work_outlives_the_deadline() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let sender = Mutex::new(Some(sender));
    let service = service_fn(|_: Request<Empty<Bytes>>| {
        let sender = sender.lock().unwrap().take().unwrap();
        async move {
            tokio::spawn(async move {
                tokio::time::sleep(SHORT * 2).await;
                sender.send("audited").unwrap();
            });
            pending::<Result<Response<Full<Bytes>>, Infallible>>().await
        }
    });
    let response = server(SHORT).layer(service).oneshot(request(None)).await.unwrap();
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(receiver.await.unwrap(), "audited");
}

/// Sends a request whose deadline is an instant, this many milliseconds from now.
///
/// Returns the timeout that the server receives, if the request is sent.
fn request_by(millis: i64) -> Request<Empty<Bytes>> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64;
    let mut request = request(None);
    request.headers_mut().insert(INSTANT, (now + millis).into());
    request
}

#[tokio::test]
async fn instant_is_read_as_the_time_that_is_left() {
    let service = server(Duration::from_secs(2)).instant_header(INSTANT).layer(service_fn(respond_with_deadline));
    for (millis, least, most) in [(1_500, 1_300, 1_500), (5_000, 2_000, 2_000), (i64::MAX / 4, 2_000, 2_000)] {
        let received: u64 = text(service.clone().oneshot(request_by(millis)).await.unwrap()).await.parse().unwrap();
        assert!((least..=most).contains(&received), "{received} of {millis}");
    }
    for malformed in ["", "-1", "soon"] {
        let mut request = request(None);
        request.headers_mut().insert(INSTANT, malformed.parse().unwrap());
        assert_eq!(text(service.clone().oneshot(request).await.unwrap()).await, "2000");
    }
}

#[tokio::test]
async fn expired_instants_are_refused_until_there_are_too_many() {
    let guard = Arc::new(SkewGuard::new());
    let believing = server(Duration::from_secs(2)).instant_header(INSTANT).layer(service_fn(respond_with_deadline));
    let guarded = server(Duration::from_secs(2)).skew_guard(Arc::clone(&guard)).instant_header(INSTANT);
    let guarded = guarded.layer(service_fn(respond_with_deadline));
    let (mut served, mut served_by_own) = (0, 0);
    for _ in 0..200 {
        // The clocks of all clients are behind by more than their timeouts.
        let response = believing.clone().oneshot(request_by(-1_000)).await.unwrap();
        assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
        let response = guarded.clone().oneshot(request_by(-1_000)).await.unwrap();
        if response.status() == StatusCode::OK {
            served += 1;
            served_by_own += u64::from(text(response).await == "2000");
        }
    }
    assert!(served >= 150, "49 are refused at once, then a fifth: {served}");
    assert_eq!((served_by_own, guard.served_expired()), (served, served));
    // An expired timeout needs no clock, and is refused whatever the guard decides.
    assert_eq!(guarded.oneshot(request(Some("0"))).await.unwrap().status(), StatusCode::GATEWAY_TIMEOUT);
}

/// The layer puts its deadline in the extensions of the request, so retries inside honour it.
#[tokio::test]
async fn retries_inside_keep_to_the_clients_deadline() {
    let attempts = AtomicUsize::new(0);
    let seen = Mutex::new(Vec::new());
    // Without jitter, so that no wait ends at the deadline by chance.
    let wait = Backoff::constant(Duration::from_millis(60)).jitter(Jitter::None);
    let retry = Retry::new(100).backoff(wait).budget(Unlimited);
    let service = ServiceBuilder::new().layer(client(SHORT)).layer(RetryLayer::new(retry)).service_fn(
        |request: Request<Empty<Bytes>>| {
            attempts.fetch_add(1, Ordering::SeqCst);
            seen.lock().unwrap().push(request.extensions().get::<Deadline>().unwrap().specified());
            let status = StatusCode::SERVICE_UNAVAILABLE;
            ready(Ok::<_, std::io::Error>(Response::builder().status(status).body(Full::<Bytes>::default()).unwrap()))
        },
    );
    // The last response is returned, because no retry waits past the deadline.
    let response = service.oneshot(request(None)).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!((2..=3).contains(&attempts.load(Ordering::SeqCst)), "{attempts:?}");
    assert!(seen.lock().unwrap().iter().all(|specified| *specified == SHORT));
}

async fn sent_timeout(
    layer: ClientDeadlineLayer<damper::time::TokioSleep>,
    request: Request<Empty<Bytes>>,
) -> Result<Option<u64>, BoxError> {
    let sent = Mutex::new(None);
    let service = service_fn(|request: Request<Empty<Bytes>>| {
        let timeout = request.headers().get(TIMEOUT).map(|value| value.to_str().unwrap().parse().unwrap());
        *sent.lock().unwrap() = Some(timeout);
        ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())))
    });
    let result = layer.layer(service).oneshot(request).await;
    let sent = sent.lock().unwrap().take();
    assert_eq!(result.is_ok(), sent.is_some());
    result.map(|_| sent.unwrap())
}

// CLAIM: Deadline
#[tokio::test]
async fn client_sends_the_smallest_remaining_time() {
    let of = |millis| Deadline::after(Duration::from_millis(millis));
    for (own, header, extension, least, most) in [
        (2_000, None, None, 1_900, 2_000),
        (2_000, None, Some(5_000), 1_900, 2_000),
        (2_000, None, Some(1_000), 900, 1_000),
        (2_000, Some("500"), Some(1_000), 400, 500),
        (2_000, Some("5000"), None, 1_900, 2_000),
        (2_000, Some("x"), None, 1_900, 2_000),
    ] {
        let mut request = request(header);
        if let Some(millis) = extension {
            request.extensions_mut().insert(of(millis));
        }
        let sent = sent_timeout(client(Duration::from_millis(own)), request).await.unwrap().unwrap();
        assert!((least..=most).contains(&sent), "{sent} of {own}, {header:?}, {extension:?}");
    }
}

#[tokio::test]
async fn client_subtracts_the_margin() {
    let layer = client(Duration::from_secs(2)).margin(Duration::from_millis(500));
    let sent = sent_timeout(layer.clone(), request(None)).await.unwrap().unwrap();
    assert!((1_400..1_500).contains(&sent), "{sent}");
    // The remaining time does not exceed the margin.
    let error = sent_timeout(layer, request(Some("500"))).await.unwrap_err();
    assert_eq!(DeadlineExceeded::find_in(&*error).unwrap().specified(), Duration::from_millis(500));
}

#[tokio::test]
async fn client_without_a_timeout_only_passes_deadlines_on() {
    let layer = ClientDeadlineLayer::propagating().header(TIMEOUT, TimeoutUnit::Milliseconds);
    assert_eq!(sent_timeout(layer.clone(), request(None)).await.unwrap(), None);
    let mut with_deadline = request(None);
    with_deadline.extensions_mut().insert(Deadline::after(Duration::from_secs(1)));
    assert!(sent_timeout(layer, with_deadline).await.unwrap().unwrap() < 1_000);
}

#[tokio::test]
async fn less_than_one_unit_is_sent_as_one() {
    let layer = ClientDeadlineLayer::new(Duration::from_millis(900)).header(TIMEOUT, TimeoutUnit::Seconds);
    assert_eq!(sent_timeout(layer, request(None)).await.unwrap(), Some(1));
}

#[tokio::test]
async fn client_sends_nothing_once_the_deadline_has_passed() {
    let deadline = Deadline::after(SHORT);
    tokio::time::sleep(SHORT).await;
    let mut request = request(None);
    request.extensions_mut().insert(deadline);
    let error = sent_timeout(client(LONG), request).await.unwrap_err();
    let exceeded = DeadlineExceeded::find_in(&*error).unwrap();
    assert_eq!(exceeded.specified(), SHORT);
    assert!(exceeded.elapsed() >= SHORT);
}

/// A call that waited for a slot names the time that is left then.
// CLAIM: Deadline
#[tokio::test]
async fn client_sends_the_time_left_after_a_wait() {
    let pool = Arc::new(Bulkhead::new(1).queue(1));
    let held = pool.try_acquire_owned().unwrap();
    let sent = Mutex::new(0);
    let service = ServiceBuilder::new()
        .layer(client(Duration::from_secs(2)))
        .layer(ClientConcurrencyLayer::new(pool).waiting(LONG))
        .service_fn(|request: Request<Empty<Bytes>>| {
            *sent.lock().unwrap() = request.headers()[TIMEOUT].to_str().unwrap().parse().unwrap();
            ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())))
        });
    let free = async {
        tokio::time::sleep(HEAD).await;
        drop(held);
    };
    let (response, ()) = tokio::join!(service.oneshot(request(None)), free);
    assert!(response.is_ok());
    assert!((1_000..=1_700).contains(&*sent.lock().unwrap()), "{sent:?}");
}

/// A call that waited for a token names the time that is left then.
#[tokio::test]
async fn client_sends_the_time_left_after_a_wait_for_a_token() {
    let limiter = RateLimiter::new(Quota::per_second(1));
    limiter.check().unwrap();
    let sent = Mutex::new(0);
    let service = ServiceBuilder::new()
        .layer(client(Duration::from_secs(20)))
        .layer(RateLimitLayer::new(Arc::new(limiter)).wait(LONG))
        .service_fn(|request: Request<Empty<Bytes>>| {
            *sent.lock().unwrap() = request.headers()[TIMEOUT].to_str().unwrap().parse().unwrap();
            ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())))
        });
    assert!(service.oneshot(request(None)).await.is_ok());
    assert!((1..=19_500).contains(&*sent.lock().unwrap()), "{sent:?}");
}

/// A wait that leaves the server no time is refused at once, although it would end before the deadline.
#[tokio::test]
async fn no_wait_of_a_client_reaches_into_the_margin() {
    let layer = client(LONG).margin(LONG.saturating_sub(SHORT));
    let pool = Arc::new(Bulkhead::new(1).queue(1));
    let _held = pool.try_acquire_owned().unwrap();
    let called = |_: Request<Empty<Bytes>>| -> Ready<Result<Response<Empty<Bytes>>, Infallible>> { unreachable!() };
    let limited = ServiceBuilder::new()
        .layer(layer.clone())
        .layer(ClientConcurrencyLayer::new(pool).waiting(LONG))
        .service_fn(called);
    let limited = tokio::time::timeout(LONG / 10, limited.oneshot(request(None))).await;
    assert!(is_refusal(&*limited.expect("it waits for no longer").unwrap_err()));

    let hourly = RateLimiter::new(Quota::per_hour(1_000).burst(1));
    hourly.check().unwrap();
    let hourly = Arc::new(hourly);
    let limit = GateLayer::limit(Arc::clone(&hourly)).waiting(LONG).time_left(RequestDeadline);
    let limited = ServiceBuilder::new().layer(layer.clone()).layer(limit).service_fn(called);
    let limited = tokio::time::timeout(LONG / 10, limited.oneshot(request(None))).await;
    assert!(is_refusal(&*limited.expect("it does not wait").unwrap_err()));

    let limit = RateLimitLayer::new(hourly).wait(LONG);
    let limited = ServiceBuilder::new().layer(layer).layer(limit).service_fn(called);
    let limited = tokio::time::timeout(LONG / 10, limited.oneshot(request(None))).await;
    assert_eq!(limited.expect("it does not wait").unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
}

/// A failed response is returned at once if the wait would leave a retry no time.
#[tokio::test(start_paused = true)]
async fn no_backoff_reaches_into_the_margin() {
    let began = tokio::time::Instant::now();
    let wait = Backoff::constant(Duration::from_secs(2)).jitter(Jitter::None);
    let retries = RetryLayer::new(Retry::new(3).backoff(wait).budget(Unlimited));
    for (margin, attempts) in [(LONG.saturating_sub(Duration::from_secs(1)), 1), (Duration::ZERO, 3)] {
        let made = AtomicUsize::new(0);
        let service = ServiceBuilder::new().layer(client(LONG).margin(margin)).layer(retries.clone()).service_fn(
            |_: Request<Empty<Bytes>>| {
                made.fetch_add(1, Ordering::SeqCst);
                let failed = Response::builder().status(StatusCode::SERVICE_UNAVAILABLE);
                ready(Ok::<_, std::io::Error>(failed.body(Full::<Bytes>::default()).unwrap()))
            },
        );
        assert_eq!(service.oneshot(request(None)).await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(made.into_inner(), attempts, "{margin:?}");
    }
    assert_eq!(began.elapsed(), Duration::from_secs(4), "the first call did not wait");
}

/// A `Retry-After` that ends before the margin is honoured, even if its spread does not.
#[tokio::test(start_paused = true)]
async fn hint_is_spread_within_the_margin() {
    let layer = client(LONG).margin(LONG.saturating_sub(Duration::from_millis(31_500)));
    let layers = ServiceBuilder::new().layer(layer).layer(RetryLayer::new(Retry::new(2).budget(Unlimited)));
    for _ in 0..40 {
        let made = AtomicUsize::new(0);
        let service = layers.clone().service_fn(|_: Request<Empty<Bytes>>| {
            made.fetch_add(1, Ordering::SeqCst);
            let failed = Response::builder().status(StatusCode::SERVICE_UNAVAILABLE).header(RETRY_AFTER, "30");
            ready(Ok::<_, std::io::Error>(failed.body(Full::<Bytes>::default()).unwrap()))
        });
        assert_eq!(service.oneshot(request(None)).await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(made.into_inner(), 2);
    }
}

#[tokio::test]
async fn hint_that_reaches_into_the_margin_is_in_the_error() {
    let hint = LONG / 2;
    let retries = RetryLayer::new(Retry::new(2).budget(Unlimited));
    let retries = retries.when(move |response: Result<&ResponseHead<'_>, &std::io::Error>| {
        response.is_err().then(|| Failure::TRANSIENT.retry_after(Some(hint)))
    });
    let service =
        ServiceBuilder::new().layer(client(LONG).margin(LONG.saturating_sub(hint))).layer(retries).service_fn(
            |_: Request<Empty<Bytes>>| ready(Err::<Response<Empty<Bytes>>, _>(std::io::Error::other("as scripted"))),
        );
    let error = service.oneshot(request(None)).await.unwrap_err();
    let error = error.downcast_ref::<RetryError<std::io::Error>>().expect("that of the retries");
    assert_eq!(error.reason(), GaveUp::Deadline { hint: Some(hint) });
}

/// The server has no deadlines. It sends its head and then stalls.
#[tokio::test]
async fn client_cuts_off_calls_and_bodies_by_one_deadline() {
    let is_silent = Arc::new(AtomicBool::new(true));
    let silent = Arc::clone(&is_silent);
    let address = serve(move |_| {
        let silent = Arc::clone(&silent);
        hyper::service::service_fn(move |_| {
            let silent = silent.load(Ordering::SeqCst);
            async move {
                if silent {
                    pending::<()>().await;
                }
                tokio::time::sleep(HEAD).await;
                Ok::<_, Infallible>(Response::new(stalled_body(Arc::default())))
            }
        })
    })
    .await;
    let get = || Request::get(format!("http://{address}/")).body(Empty::<Bytes>::new()).unwrap();
    let mut client = client(DEADLINE).layer(PooledClient::builder(TokioExecutor::new()).build_http());

    let error = client.ready().await.unwrap().call(get()).await.unwrap_err();
    assert_eq!(DeadlineExceeded::find_in(&*error).unwrap().specified(), DEADLINE);

    is_silent.store(false, Ordering::SeqCst);
    let began = Instant::now();
    let mut body = client.ready().await.unwrap().call(get()).await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
    let error = body.frame().await.unwrap().unwrap_err();
    assert!(DeadlineExceeded::find_in(&*error).is_some(), "{error}");
    let elapsed = began.elapsed();
    assert!(elapsed >= DEADLINE && elapsed < DEADLINE + HEAD, "{elapsed:?}");
}

#[tokio::test]
async fn other_errors_reach_the_caller() {
    let service = service_fn(|_: Request<Empty<Bytes>>| {
        ready(Err::<Response<Empty<Bytes>>, _>(std::io::Error::other("refused")))
    });
    let error = client(LONG).layer(service).oneshot(request(None)).await.unwrap_err();
    assert_eq!(error.downcast_ref::<std::io::Error>().unwrap().to_string(), "refused");
}
