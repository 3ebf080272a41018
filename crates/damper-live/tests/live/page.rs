//! The live page, over real sockets.

use bytes::Bytes;
use damper::breaker::State;
use damper::decision_log::{DecisionLog, Logged};
use damper::http::{Head, PeerAddress, PerClient, PerHost, RateLimitLayer, ReaderStalled, Single};
use damper::live::{Latencies, LivePage, LivePageError, LiveRecorder, LiveService, LiveToken};
use damper::metrics::{Readings, Source};
use damper::shadow::Shadowed;
use damper::{
    BreakerConfig, CircuitBreaker, ClientAddress, Clock, KeyedCircuitBreaker, KeyedLimiter, ManualClock, Quota,
    RateLimiter, Striped,
};
use http::header::{ALLOW, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use proptest::prelude::*;
use std::convert::Infallible;
use std::error::Error;
use std::future::ready;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout};

const TOKEN: &str = "a token for tests only";

/// Long enough for the slowest machine.
const LONG: Duration = Duration::from_secs(60);

fn token() -> LiveToken {
    LiveToken::new(TOKEN).unwrap()
}

/// A page whose samples follow one another quickly.
fn quick() -> LivePage {
    LivePage::new().interval(Duration::from_millis(100)).token(token())
}

/// Serves a page beside a service that says hello.
async fn serve(page: LiveService) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            let hello = |_: Request<Incoming>| ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("hello"))));
            let service = page.for_peer(peer).beside(service_fn(hello));
            tokio::spawn(async move {
                let server = auto::Builder::new(TokioExecutor::new());
                // An error means that the client went away.
                _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

/// A request to a page at this address.
fn request(method: &str, address: SocketAddr, path: &str, body: &str) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(path).header("host", address.to_string());
    request.body(Full::from(body.to_owned())).unwrap()
}

fn control(address: SocketAddr, body: &str) -> Request<Full<Bytes>> {
    let mut request = request("POST", address, "/damper/control", body);
    request.headers_mut().insert("authorization", format!("Bearer {TOKEN}").parse().unwrap());
    request.headers_mut().insert(CONTENT_TYPE, "application/json".parse().unwrap());
    request
}

/// Sends a request on a connection of its own.
async fn send(address: SocketAddr, request: Request<Full<Bytes>>) -> Response<Incoming> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender.send_request(request).await.unwrap()
}

async fn status_and_text(address: SocketAddr, request: Request<Full<Bytes>>) -> (u16, String) {
    let (head, body) = send(address, request).await.into_parts();
    let text = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), String::from_utf8(text.into()).unwrap())
}

/// An open stream of events.
struct Events(Incoming, String);

impl Events {
    async fn open(address: SocketAddr) -> Self {
        Self::of(send(address, request("GET", address, "/damper/events", "")).await)
    }

    fn of(response: Response<Incoming>) -> Self {
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        Self(response.into_body(), String::new())
    }

    /// Returns the next event: its name and its value.
    async fn next(&mut self) -> (String, serde_json::Value) {
        loop {
            if let Some((event, rest)) = self.1.split_once("\n\n") {
                let (name, value) = event.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
                let next = (name.to_owned(), serde_json::from_str(value).unwrap());
                let left = rest.len();
                self.1.drain(..self.1.len() - left);
                return next;
            }
            let frame = timeout(LONG, self.0.frame()).await.expect("an event comes").unwrap().unwrap();
            self.1.push_str(str::from_utf8(&frame.into_data().unwrap()).unwrap());
        }
    }

    async fn sample(&mut self) -> serde_json::Value {
        loop {
            if let (name, sample) = self.next().await
                && name == "sample"
            {
                return sample;
            }
        }
    }
}

/// A source that counts how often it is read.
#[derive(Clone, Default)]
struct Reads(Arc<AtomicUsize>);

impl Source for Reads {
    fn read(&self, _: &Readings<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Reads {
    fn so_far(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn files_are_served_beside_a_service_of_hyper() {
    let page = quick().title("<damper> & \"co\"").build().unwrap();
    let address = serve(page).await;
    let mut files = vec!["/damper".to_owned(), "/damper/".to_owned()];
    let (status, html) = status_and_text(address, request("GET", address, "/damper", "")).await;
    assert_eq!(status, 200);
    assert!(html.contains("<title>&lt;damper&gt; &amp; &quot;co&quot;</title>") && !html.contains("{title}"), "{html}");
    // Beside the page, wherever that is.
    assert!(!html.contains("/damper"), "{html}");
    files.extend(["icon.svg", "live.css", "live.js"].map(|file| format!("/damper/{file}")));
    let (_, script) = status_and_text(address, request("GET", address, "/damper/live.js", "")).await;
    files.extend(script.split("from \"./").skip(1).map(|rest| format!("/damper/{}", rest.split('"').next().unwrap())));
    assert!(files.len() >= 9, "{files:?}");
    for path in files {
        let response = send(address, request("GET", address, &path, "")).await;
        assert_eq!(response.status(), 200, "{path}");
        let headers = response.headers();
        assert!(headers[CONTENT_SECURITY_POLICY].to_str().unwrap().starts_with("default-src 'none'; "));
        assert_eq!(headers["x-content-type-options"], "nosniff");
        let of_type = headers[CONTENT_TYPE].to_str().unwrap();
        let expected = match path.rsplit('.').next().unwrap() {
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "svg" => "image/svg+xml",
            _ => "text/html; charset=utf-8",
        };
        assert_eq!(of_type, expected, "{path}");
        assert!(!headers.contains_key("access-control-allow-origin"));
    }
    for (method, path, status, allow) in [
        ("GET", "/", 200, None),
        ("GET", "/damperx", 200, None),
        ("GET", "/damper/nothing", 404, None),
        ("GET", "/damper/../Cargo.toml", 404, None),
        ("HEAD", "/damper/live.css", 200, None),
        ("HEAD", "/damper/events", 200, None),
        ("POST", "/damper", 405, Some("GET")),
        ("POST", "/damper/events", 405, Some("GET")),
        ("OPTIONS", "/damper/control", 405, Some("POST")),
        ("GET", "/damper/control", 405, Some("POST")),
    ] {
        let response = send(address, request(method, address, path, "")).await;
        assert_eq!(response.status(), status, "{method} {path}");
        assert_eq!(response.headers().get(ALLOW).map(|allow| allow.to_str().unwrap()), allow, "{method} {path}");
        if let Some(allow) = allow {
            let text = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(text, format!("the method {method} is not allowed here, {allow} is\n"));
        }
    }
    assert_eq!(status_and_text(address, request("GET", address, "/", "")).await.1, "hello");
}

#[tokio::test]
async fn axum_serves_it_under_any_path() {
    let page = quick().path("/ops/live/").build().unwrap();
    assert_eq!(page.path(), "/ops/live");
    let app: axum::Router = axum::Router::new().nest_service("/ops/live", page);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    for path in ["/ops/live", "/ops/live/"] {
        let (status, html) = status_and_text(address, request("GET", address, path, "")).await;
        assert_eq!(status, 200, "{path}: {html}");
        assert!(html.contains("live.js"), "{html}");
    }
    assert_eq!(status_and_text(address, request("GET", address, "/ops/live/live.js", "")).await.0, 200);
    let mut events = Events::of(send(address, request("GET", address, "/ops/live/events", "")).await);
    assert_eq!(events.next().await.0, "hello");
    assert_eq!(events.sample().await["number"], 1);
}

/// The page was built for another path than the router mounts it under.
#[tokio::test]
async fn router_may_mount_it_elsewhere_if_it_takes_its_path_away() {
    let page = quick().build().unwrap();
    let app: axum::Router = axum::Router::new()
        .nest("/a", axum::Router::new().nest_service("/b", page.clone()))
        .route_service("/bare", page.clone())
        .route_service("/bare/{*file}", page);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    for path in ["/a/b", "/a/b/", "/a/b/live.js", "/a/b/live.css"] {
        assert_eq!(send(address, request("GET", address, path, "")).await.status(), 200, "{path}");
    }
    let mut events = Events::of(send(address, request("GET", address, "/a/b/events", "")).await);
    assert_eq!(events.next().await.0, "hello");
    for path in ["/bare", "/bare/live.js"] {
        let (status, why) = status_and_text(address, request("GET", address, path, "")).await;
        assert_eq!(status, 404);
        assert!(why.contains("it answers below \"/damper\"") && why.contains("`nest_service`"), "{why}");
    }
}

/// The layers of the example in the documentation of `LivePage`.
#[tokio::test]
async fn log_behind_the_layer_gives_a_limit_rates_and_hottest_keys() {
    let log = Arc::new(DecisionLog::new(1024));
    let clients = Arc::new(KeyedLimiter::<ClientAddress>::builder(Quota::per_hour(1)).build().unwrap());
    let page = quick().limit("clients", Arc::clone(&clients)).decision_log("clients", Arc::clone(&log));
    let app: axum::Router = axum::Router::new()
        .route("/", axum::routing::get(|| ready("hello")))
        .layer(RateLimitLayer::new(PerClient::new(clients)).decision_log(log))
        .nest_service("/damper", page.build().unwrap());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    let mut events = Events::open(address).await;
    assert_eq!(events.next().await.1["recorder"], false);
    events.sample().await;
    for status in [200, 429] {
        assert_eq!(status_and_text(address, request("GET", address, "/", "")).await.0, status);
    }
    let began = Instant::now();
    let (mut allowed, mut refused) = (false, false);
    while !allowed || !refused {
        let sample = events.sample().await;
        let log = &sample["logs"][0];
        allowed |= log["allowed"].as_f64() > Some(0.0);
        refused |= log["refused"].as_f64() > Some(0.0) && log["hottest"][0]["refused"].as_f64() > Some(0.0);
        assert!(began.elapsed() < LONG, "{sample}");
    }
}

#[tokio::test]
async fn stream_goes_over_http2_too() {
    let address = serve(quick().build().unwrap()).await;
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(format!("http://{address}/damper/events")).body(Empty::<Bytes>::new()).unwrap();
    let mut events = Events::of(sender.send_request(request).await.unwrap());
    assert_eq!(events.next().await.0, "hello");
    for number in 1..=3 {
        assert_eq!(events.sample().await["number"], number);
    }
}

#[tokio::test]
async fn sources_are_read_once_for_all_pages_and_not_at_all_without_one() {
    let reads = Reads::default();
    let address = serve(quick().source("reads", reads.clone()).build().unwrap()).await;
    sleep(Duration::from_millis(300)).await;
    assert_eq!(reads.so_far(), 0, "no page is open");
    let mut pages = Vec::new();
    for _ in 0..5 {
        pages.push(Events::open(address).await);
    }
    let mut last = 0;
    for _ in 0..10 {
        for page in &mut pages {
            last = page.sample().await["number"].as_u64().unwrap().max(last);
        }
    }
    let read = reads.so_far() as u64;
    // A stream may be ahead of one that is not looked at yet.
    assert!(
        (last..=last + 2).contains(&read) && read < 30,
        "{read} readings for 5 pages of 10 samples, the last {last}"
    );
    drop(pages);
    // The server sees that the pages are gone when it writes to them.
    sleep(Duration::from_millis(500)).await;
    let read = reads.so_far();
    sleep(Duration::from_millis(500)).await;
    assert_eq!(reads.so_far(), read, "no page is open any more");
}

#[tokio::test]
async fn looking_changes_nothing() {
    let clock = Arc::new(ManualClock::new());
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(5).burst(10), Arc::clone(&clock)));
    let config = BreakerConfig::builder().failure_threshold(1).cooldown(Duration::from_secs(1)).build().unwrap();
    let breaker = Arc::new(CircuitBreaker::with_clock(config, Arc::clone(&clock)));
    let log = Arc::new(DecisionLog::with_clock(64, Arc::clone(&clock)));
    let keys =
        KeyedLimiter::<u32>::builder(Quota::per_second(5)).capacity(16).clock(Arc::clone(&clock)).build().unwrap();
    let keys = Arc::new(Logged::new(keys, Arc::clone(&log)));
    limiter.check_n(7).unwrap();
    (0..200).for_each(|key| _ = keys.check(&key));
    _ = breaker.call(|| Err::<(), _>("no"));
    // A probe is due, and looking must not be one.
    clock.advance(Duration::from_secs(2));
    let state = || {
        let limits = keys.limiter();
        let census: Vec<_> = limits.census().to_vec();
        let counts = (limits.evictions(), limits.overflows(), limits.refused_newcomers(), log.written());
        format!("{:?} {:?} {census:?} {counts:?} {:?}", limiter.peek(), breaker.status(), clock.now())
    };
    let before = state();
    let page = quick().limit("one", Arc::clone(&limiter)).limit("keys", Arc::clone(&keys));
    let page = page.decision_log("keys", Arc::clone(&log)).breaker("upstream", Arc::clone(&breaker)).build().unwrap();
    let address = serve(page).await;
    let mut pages = [Events::open(address).await, Events::open(address).await];
    for page in &mut pages {
        let mut sample = page.sample().await;
        for _ in 0..3 {
            sample = page.sample().await;
        }
        assert_eq!(sample["quotas"]["one"], "5/s burst 10");
        let series = sample["series"].as_array().unwrap();
        assert!(series.iter().any(|line| line[0] == "damper_limit_remaining_tokens"), "{sample}");
        assert!(series.iter().any(|line| line[0] == "damper_breaker_state" && line[2] == 1.0), "{sample}");
    }
    for request in
        ["", "{}", r#"{"action":"quota","name":"one","quota":"7/s"}"#, r#"{"action":"reset","name":"upstream"}"#]
    {
        let (status, _) = status_and_text(address, request_without_token(address, request)).await;
        assert_eq!(status, 401);
    }
    assert_eq!(state(), before);
}

fn request_without_token(address: SocketAddr, body: &str) -> Request<Full<Bytes>> {
    let mut request = control(address, body);
    request.headers_mut().remove("authorization");
    request
}

#[tokio::test]
async fn only_so_many_pages_are_open() {
    let address = serve(quick().most_open(2).build().unwrap()).await;
    let first = Events::open(address).await;
    let _second = Events::open(address).await;
    let refused = send(address, request("GET", address, "/damper/events", "")).await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (503, &"5".parse().unwrap()));
    drop(first);
    let began = Instant::now();
    while send(address, request("GET", address, "/damper/events", "")).await.status() != StatusCode::OK {
        assert!(began.elapsed() < LONG, "the place of a closed page is free again");
        sleep(Duration::from_millis(20)).await;
    }
}

/// No sample is due for a minute, so nothing is written to the pages that are gone.
#[tokio::test]
async fn place_is_free_as_soon_as_the_connection_ends() {
    let slow = || LivePage::new().interval(Duration::from_mins(1)).most_open(1).build().unwrap();
    let is_full = async |address| send(address, request("HEAD", address, "/damper/events", "")).await.status() == 503;
    for is_http2 in [false, true] {
        let address = serve(slow()).await;
        let mut events = if is_http2 {
            let stream = TcpStream::connect(address).await.unwrap();
            let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            let request = Request::get(format!("http://{address}/damper/events")).body(Empty::<Bytes>::new()).unwrap();
            Events::of(sender.send_request(request).await.unwrap())
        } else {
            Events::open(address).await
        };
        events.sample().await;
        assert!(is_full(address).await);
        let began = Instant::now();
        drop(events);
        while is_full(address).await {
            assert!(began.elapsed() < Duration::from_secs(30), "before anything is written; over HTTP/2: {is_http2}");
            sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Changes of before the page was opened, and changes between two samples.
#[tokio::test]
async fn samples_have_each_change_of_a_breaker_with_its_time() {
    let clock = Arc::new(ManualClock::new());
    let config = BreakerConfig::builder().failure_threshold(1).cooldown(Duration::from_millis(5)).build().unwrap();
    let breaker = Arc::new(CircuitBreaker::with_clock(config, Arc::clone(&clock)));
    let hosts = Arc::new(KeyedCircuitBreaker::<u32>::new(config, 1024).unwrap());
    _ = breaker.call(|| Err::<(), _>("no"));
    clock.advance(Duration::from_mins(1));
    let page = quick().breaker("one", Arc::clone(&breaker)).breaker("hosts", Arc::clone(&hosts));
    let address = serve(page.build().unwrap()).await;
    let mut events = Events::open(address).await;
    let sample = events.sample().await;
    let one = serde_json::json!({
        "name": "one", "breakers": 1, "openings": 1,
        "changes": [[1, 60.0, "closed", "open", "consecutive failures"]],
    });
    assert_eq!(sample["breakers"], serde_json::json!([one]), "there are no hosts yet");
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    assert!((now - sample["wall"].as_f64().unwrap()).abs() < LONG.as_secs_f64());
    // It opens twice and closes between two samples.
    _ = breaker.call(|| Err::<(), _>("no"));
    clock.advance(Duration::from_millis(5));
    _ = breaker.call(|| Ok::<_, &str>(()));
    (0..100).for_each(|host| _ = hosts.call(&host, || Err::<(), _>("no")));
    let began = Instant::now();
    let sample = loop {
        let sample = events.sample().await;
        if sample["breakers"][1]["openings"] == 100 {
            break sample;
        }
        assert!(began.elapsed() < LONG, "{sample}");
    };
    let changes = &sample["breakers"][0]["changes"];
    let states: Vec<&str> = changes.as_array().unwrap().iter().map(|change| change[3].as_str().unwrap()).collect();
    assert_eq!(states, ["open", "half-open", "open", "half-open", "closed"], "{changes}");
    assert_eq!(changes[2][1], 0.005);
    assert_eq!(sample["breakers"][0]["openings"], 2);
    assert_eq!(sample["breakers"][1]["breakers"], 100);
    assert_eq!(sample["breakers"][1]["changes"].as_array().unwrap().len(), 8);
}

/// A sample that is larger than what sockets keep, and a browser that reads nothing.
#[tokio::test]
async fn slow_reader_is_dropped_and_nothing_is_kept_for_it() {
    const SAMPLE: usize = 8 << 20;
    let reads = Reads::default();
    let page = quick().patience(Duration::from_millis(500)).source("reads", reads.clone());
    let page = page.status("large", || "x".repeat(SAMPLE)).build().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_send_buffer_size(16 << 10).unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let listener = socket.listen(8).unwrap();
    let address = listener.local_addr().unwrap();

    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    let mut browser = socket.connect(address).await.unwrap();
    let (stream, peer) = listener.accept().await.unwrap();
    let connection = hyper::server::conn::http1::Builder::new();
    let connection = connection.serve_connection(TokioIo::new(stream), page.for_peer(peer));
    let head = format!("GET /damper/events HTTP/1.1\r\nhost: {address}\r\n\r\n");
    browser.write_all(head.as_bytes()).await.unwrap();
    let error = timeout(LONG, connection).await.expect("the connection ends").expect_err("by an error");
    let slow = error.source().and_then(<dyn Error>::downcast_ref::<ReaderStalled>).expect("the browser is too slow");
    assert!(slow.limit() >= Duration::from_millis(500));
    assert_eq!(reads.so_far(), 1, "no sample was made that could not be written");
    drop(browser);
}

#[tokio::test]
async fn browser_that_reads_now_and_then_misses_samples_and_stays() {
    let page = quick().patience(LONG).status("large", || "x".repeat(4 << 20)).build().unwrap();
    let address = serve(page).await;
    let mut events = Events::open(address).await;
    let first = events.sample().await["number"].as_u64().unwrap();
    sleep(Duration::from_secs(1)).await;
    let mut last = first;
    for _ in 0..4 {
        let next = events.sample().await["number"].as_u64().unwrap();
        assert!(next > last);
        last = next;
    }
}

#[tokio::test]
async fn large_sample_comes_at_once() {
    let page = LivePage::new().interval(LONG).status("large", || "x".repeat(4 << 20)).build().unwrap();
    let mut events = Events::open(serve(page).await).await;
    assert_eq!(timeout(LONG, events.sample()).await.expect("each frame follows the last one")["number"], 1);
}

/// The status and the text for a request of this peer, without a socket.
async fn answer_to(page: &LiveService, peer: Option<&str>, headers: &[(&str, &str)]) -> (u16, String) {
    let mut request = Request::get("/damper");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Empty::<Bytes>::new()).unwrap();
    request.extensions_mut().extend(
        peer.map(|peer| {
            let mut extensions = http::Extensions::new();
            extensions.insert(PeerAddress(peer.parse().unwrap()));
            extensions
        })
        .unwrap_or_default(),
    );
    let response = tower::Service::call(&mut page.clone(), request).await.unwrap();
    let (head, body) = response.into_parts();
    let text = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), String::from_utf8(text.into()).unwrap())
}

#[tokio::test]
async fn other_machines_are_refused_with_a_plain_answer() {
    let page = quick().build().unwrap();
    let host = [("host", "localhost:8080")];
    assert_eq!(answer_to(&page, Some("127.0.0.1:5000"), &host).await.0, 200);
    let (status, why) = answer_to(&page, Some("192.0.2.1:5000"), &host).await;
    assert_eq!(status, 403);
    assert!(why.contains("for peers of the same machine"), "{why}");
    let (status, why) = answer_to(&page, None, &host).await;
    assert_eq!(status, 500);
    assert!(why.contains("into_make_service_with_connect_info"), "{why}");
    let (status, why) = answer_to(&page, Some("127.0.0.1:5000"), &[("host", "evil.example")]).await;
    assert_eq!(status, 421);
    assert!(why.contains("the host \"evil.example\": see `LivePage::open_to`"), "{why}");
    let forwarded = [host[0], ("x-forwarded-for", "192.0.2.1")];
    let (status, why) = answer_to(&page, Some("127.0.0.1:5000"), &forwarded).await;
    assert_eq!(status, 403);
    assert!(why.contains("a proxy forwarded the request: see `LivePage::open_to`"), "{why}");
    let open = quick().open_to(["Ops.example.com", "[2001:DB8:0::1]"]).build().unwrap();
    assert_eq!(answer_to(&open, Some("192.0.2.1:5000"), &[("host", "[2001:db8::1]:80")]).await.0, 200);
    assert_eq!(answer_to(&open, Some("192.0.2.1:5000"), &[("host", "ops.example.com")]).await.0, 200);
    assert_eq!(answer_to(&open, Some("192.0.2.1:5000"), &[("host", "evil.example")]).await.0, 421);
}

/// The peer and the host of such a request are those of the proxy, which is on the same machine.
#[tokio::test]
async fn request_that_a_proxy_forwarded_is_refused() {
    let page = quick().build().unwrap();
    let from = async |name, value| {
        let headers = [("host", "127.0.0.1:8080"), (name, value)];
        answer_to(&page, Some("127.0.0.1:5000"), &headers).await
    };
    for name in [
        "Forwarded",
        "Via",
        "X-Real-IP",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Forwarded-Proto",
        "X-Forwarded-Server",
        "CF-Ray",
        "CF-Connecting-IP",
        "CDN-Loop",
        "True-Client-IP",
        "Client-IP",
        "X-Client-IP",
        "X-Cluster-Client-IP",
        "X-Envoy-External-Address",
        "X-Amzn-Trace-Id",
        "X-Original-For",
        "X-Original-URI",
        "X-Azure-ClientIP",
        "Fly-Client-IP",
        "Fastly-Client-IP",
        "X-Cloud-Trace-Context",
        "Tailscale-User-Login",
        "X-ProxyUser-Ip",
    ] {
        let (status, why) = from(name, "192.0.2.1").await;
        assert_eq!(status, 403, "{name}");
        let sign = format!("a proxy forwarded the request: see `LivePage::open_to` ({})", name.to_ascii_lowercase());
        assert!(why.contains(&sign), "{why}");
    }
    for name in ["Accept", "User-Agent", "Sec-Fetch-Site", "X-Requested-With", "DNT", "Priority", "Cache-Control"] {
        assert_eq!(from(name, "none").await.0, 200, "{name}");
    }
    let open = quick().open_to(["ops.example.com"]).build().unwrap();
    let headers = [("host", "ops.example.com"), ("via", "1.1 proxy")];
    assert_eq!(answer_to(&open, Some("127.0.0.1:5000"), &headers).await.0, 200);
}

/// `proxy_pass http://127.0.0.1:8080;` and nothing else. nginx adds no header, and speaks HTTP/1.0.
#[tokio::test]
async fn plain_proxy_of_nginx_is_refused() {
    let address = serve(quick().build().unwrap()).await;
    for (version, connection, status) in [("1.0", "close", "403"), ("1.1", "close", "200")] {
        let mut proxy = TcpStream::connect(address).await.unwrap();
        let head =
            format!("GET /damper HTTP/{version}\r\nHost: {address}\r\nConnection: {connection}\r\nAccept: */*\r\n\r\n");
        proxy.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        proxy.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer.split(' ').nth(1), Some(status), "{answer}");
        assert_eq!(answer.contains("(it speaks HTTP/1.0)"), status == "403", "{answer}");
    }
}

const LOOK_TOKEN: &str = "0123456789abcdef";
/// The header of a browser whose user was asked for a name and a password: `ops` and the token.
const PASSWORD: &str = "Basic b3BzOjAxMjM0NTY3ODlhYmNkZWY=";

#[tokio::test]
async fn token_to_look_is_asked_for_by_the_browser() {
    let page = quick().look_token(LiveToken::new(LOOK_TOKEN).unwrap()).build().unwrap();
    let address = serve(page).await;
    let get = |path: &str, authorization: Option<&str>| {
        let mut request = request("GET", address, path, "");
        if let Some(authorization) = authorization {
            request.headers_mut().insert("authorization", authorization.parse().unwrap());
        }
        request
    };
    for path in ["/damper", "/damper/live.js", "/damper/events", "/damper/nothing"] {
        for authorization in [None, Some("Basic b3BzOjAxMjM0NTY3ODlhYmNkZWU="), Some("Bearer 0123456789abcdee")] {
            let response = send(address, get(path, authorization)).await;
            assert_eq!(response.status(), 401, "{path} {authorization:?}");
            assert_eq!(response.headers()["www-authenticate"], "Basic realm=\"damper\"");
        }
    }
    assert_eq!(status_and_text(address, get("/", None)).await.1, "hello", "the service beside it needs no token");
}

#[tokio::test]
async fn token_to_look_lets_look_and_changes_nothing() {
    let limiter = Arc::new(RateLimiter::new(Quota::per_second(5)));
    let page = quick().look_token(LiveToken::new(LOOK_TOKEN).unwrap()).limit("one", Arc::clone(&limiter));
    let address = serve(page.build().unwrap()).await;
    let with = |mut request: Request<Full<Bytes>>, authorization: &str| {
        request.headers_mut().insert("authorization", authorization.parse().unwrap());
        request
    };
    let bearer = format!("Bearer {LOOK_TOKEN}");
    // More often than wrong tokens may be sent. The token of controls lets look, too.
    for authorization in [PASSWORD, &bearer, &format!("Bearer {TOKEN}")].into_iter().cycle().take(30) {
        let request = with(request("GET", address, "/damper/live.css", ""), authorization);
        assert_eq!(status_and_text(address, request).await.0, 200, "{authorization}");
    }
    let mut events = Events::of(send(address, with(request("GET", address, "/damper/events", ""), PASSWORD)).await);
    assert_eq!(events.next().await.0, "hello");

    let quota = r#"{"action":"quota","name":"one","quota":"9/s"}"#;
    for authorization in [PASSWORD, &bearer] {
        let response = send(address, with(control(address, quota), authorization)).await;
        assert_eq!(response.status(), 401);
        assert_eq!(response.headers()["www-authenticate"], "Bearer", "the browser must not ask for a password");
    }
    assert_eq!(limiter.quota(), Quota::per_second(5));
    assert_eq!(status_and_text(address, control(address, quota)).await.0, 200);
}

/// An address that has sent too many wrong tokens is not listened to for a while. Others are.
#[tokio::test]
async fn wrong_tokens_are_slowed_for_their_address() {
    let proxies = damper::wire::TrustedProxies::new(["192.0.2.9"]).unwrap();
    let page = quick().open_to(["ops.example.com"]).look_token(LiveToken::new(LOOK_TOKEN).unwrap()).behind(proxies);
    let page = page.build().unwrap();
    let ask = async |peer: &str, client: &str, authorization: &str| {
        let headers = [("host", "ops.example.com"), ("authorization", authorization), ("x-forwarded-for", client)];
        answer_to(&page, Some(peer), &headers).await.0
    };
    let (mut wrong, mut status) = (0, 401);
    while status == 401 {
        status = ask("192.0.2.1:5000", "198.51.100.1", "Bearer 0123456789abcdee").await;
        wrong += 1;
        assert!(wrong < 100, "nothing slows them");
    }
    assert_eq!(status, 429);
    assert!(wrong > 10, "a typing error or two are no attack: {wrong}");
    assert_eq!(ask("192.0.2.1:5000", "198.51.100.2", PASSWORD).await, 429, "or guessing would cost nothing");
    assert_eq!(ask("192.0.2.2:5000", "198.51.100.1", PASSWORD).await, 200);
    // Behind the proxy, each browser has its own address.
    while ask("192.0.2.9:5000", "198.51.100.1", "Bearer 0123456789abcdee").await == 401 {}
    assert_eq!(ask("192.0.2.9:5000", "198.51.100.1", PASSWORD).await, 429);
    assert_eq!(ask("192.0.2.9:5000", "198.51.100.2", PASSWORD).await, 200);
}

#[tokio::test]
async fn one_address_has_only_so_many_streams() {
    let address = serve(quick().most_open(3).most_open_per_address(2).build().unwrap()).await;
    let (_first, second) = (Events::open(address).await, Events::open(address).await);
    for method in ["GET", "HEAD"] {
        let refused = send(address, request(method, address, "/damper/events", "")).await;
        assert_eq!(refused.status(), 429, "{method}");
    }
    let (_, why) = status_and_text(address, request("GET", address, "/damper/events", "")).await;
    assert!(why.contains("`LivePage::most_open_per_address`"), "{why}");
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::new(127, 0, 0, 2), 0).into()).unwrap();
    let stream = TokioIo::new(socket.connect(address).await.unwrap());
    let (mut sender, connection) = http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let neighbour = sender.send_request(request("GET", address, "/damper/events", "")).await.unwrap();
    assert_eq!(Events::of(neighbour).next().await.0, "hello");
    drop(second);
    let began = Instant::now();
    while send(address, request("HEAD", address, "/damper/events", "")).await.status() != StatusCode::OK {
        assert!(began.elapsed() < LONG, "the place of a closed page is free again");
        sleep(Duration::from_millis(20)).await;
    }
}

/// A client of HTTP/2 whose window is 0 keeps its connection open, and takes nothing.
#[tokio::test]
async fn streams_whose_client_takes_no_bytes_are_ended() {
    let page = quick().open_to(["ops.example.com"]).most_open(4).patience(Duration::from_millis(300));
    let address = serve(page.build().unwrap()).await;
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(0)
        .handshake::<_, Empty<Bytes>>(stream)
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut unread = Vec::new();
    for _ in 0..4 {
        let request = Request::get("http://ops.example.com/damper/events").body(Empty::new()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        unread.push(response);
    }
    let began = Instant::now();
    while send(address, request("HEAD", address, "/damper/events", "")).await.status() != StatusCode::OK {
        assert!(began.elapsed() < LONG, "streams that nobody reads hold all places");
        sleep(Duration::from_millis(20)).await;
    }
    let mut events = Events::open(address).await;
    assert_eq!(events.next().await.0, "hello");
    drop(unread);
}

#[tokio::test]
async fn controls_need_the_token_the_origin_and_the_type() {
    let limiter = Arc::new(RateLimiter::new(Quota::per_second(5)));
    let breaker = Arc::new(CircuitBreaker::default());
    let page = quick().limit("one", Arc::clone(&limiter)).breaker("upstream", Arc::clone(&breaker));
    let page = page.control("flood", "Flood", || Err::<(), _>("no load here"));
    let address = serve(page.build().unwrap()).await;
    let quota = r#"{"action":"quota","name":"one","quota":"9/s"}"#;
    let with = |name: &'static str, value: &str| {
        let mut request = control(address, quota);
        request.headers_mut().insert(name, value.parse().unwrap());
        request
    };
    for (request, status) in [
        (request_without_token(address, quota), 401),
        (with("authorization", "Bearer a token for tests onlY"), 401),
        (with("authorization", TOKEN), 401),
        (with("authorization", "Bearer"), 401),
        (with("authorization", &format!("Basic: {TOKEN}")), 401),
        (with("origin", "http://evil.example"), 403),
        (with("origin", "null"), 403),
        (with("sec-fetch-site", "cross-site"), 403),
        (with("content-type", "text/plain"), 415),
        (with("content-type", "application/x-www-form-urlencoded"), 415),
        (with("host", "evil.example"), 421),
        (control(address, &format!("{}{quota}", " ".repeat(4096))), 413),
        (control(address, "{"), 400),
        (control(address, r#"{"action":"quota","name":"one","quota":"soon"}"#), 422),
        (control(address, r#"{"action":"quota","name":"two","quota":"9/s"}"#), 404),
        (control(address, r#"{"action":"press","name":"flood"}"#), 500),
    ] {
        let shown = format!("{request:?}");
        assert_eq!(status_and_text(address, request).await.0, status, "{shown}");
        assert_eq!(limiter.quota(), Quota::per_second(5), "{shown}");
    }
    let (_, text) = status_and_text(address, with("content-type", "text/plain")).await;
    assert_eq!(text, "a control is `application/json`, and this request's type is \"text/plain\"\n");
    let mut untyped = control(address, quota);
    untyped.headers_mut().remove("content-type");
    let (status, text) = status_and_text(address, untyped).await;
    assert_eq!((status, text.contains("has no `Content-Type`")), (415, true), "{text}");
    let (status, text) = status_and_text(address, with("origin", &format!("http://{address}"))).await;
    assert_eq!((status, text.as_str()), (200, r#"{"done":"one: the quota is 9/s burst 9"}"#));
    assert_eq!(limiter.quota(), Quota::per_second(9));
    for scheme in ["bearer", "BEARER"] {
        let (status, text) = status_and_text(address, with("authorization", &format!("{scheme} {TOKEN}"))).await;
        assert_eq!(status, 200, "{scheme}: {text}");
    }
    for (action, state) in [("trip", State::Open), ("reset", State::Closed)] {
        let request = control(address, &format!(r#"{{"action":"{action}","name":"upstream"}}"#));
        assert_eq!(status_and_text(address, request).await.0, 200);
        assert_eq!(breaker.state(), state);
    }
    let (_, text) = status_and_text(address, control(address, r#"{"action":"press","name":"flood"}"#)).await;
    assert_eq!(text, r#"{"error":"flood: no load here"}"#);
}

/// A page reaches the limit or the breaker in whatever it is wrapped.
#[tokio::test]
async fn controls_reach_limits_and_breakers_in_every_form() {
    let old = Quota::per_second(5).burst(9);
    let striped = Arc::new(Striped::new(old, 2).unwrap());
    let leasing = Arc::new(RateLimiter::leasing(old, 2).unwrap());
    let keyed = Arc::new(KeyedLimiter::<u32>::builder(old).build().unwrap());
    let in_force = || Arc::new(RateLimiter::new(old));
    let (shadowed, boxed) = (Arc::new(Shadowed::new(in_force(), in_force())), in_force());
    let logged = Arc::new(Logged::new(in_force(), Arc::new(DecisionLog::new(8))));
    let one = Arc::new(CircuitBreaker::default());
    let beside = Arc::new(Shadowed::new(CircuitBreaker::default(), CircuitBreaker::default()));
    let hosts = Arc::new(KeyedCircuitBreaker::<String>::new(BreakerConfig::DEFAULT, 16).unwrap());
    let single = Single::builder(BreakerConfig::DEFAULT).build();
    let per_host = PerHost::builder(BreakerConfig::DEFAULT).build().unwrap();
    for host in ["a", "b"] {
        _ = (hosts.get_or_create(host), per_host.breaker(host));
    }
    let pressed = Arc::new(AtomicUsize::new(0));
    let page = quick()
        .limit("striped", Arc::clone(&striped))
        .limit("leasing", Arc::clone(&leasing))
        .limit("keyed", Arc::clone(&keyed))
        .limit("shadowed", Arc::clone(&shadowed))
        .limit("logged", Arc::clone(&logged))
        .limit("boxed", Box::new(Arc::clone(&boxed)))
        .breaker("one", Arc::clone(&one))
        .breaker("beside", Arc::clone(&beside))
        .breaker("hosts", Arc::clone(&hosts))
        .breaker("single", single.clone())
        .breaker("per_host", per_host.clone())
        .control("flush", "Flush", {
            let pressed = Arc::clone(&pressed);
            move || {
                pressed.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Infallible>(())
            }
        });
    let address = serve(page.build().unwrap()).await;
    let press = async |body: String| status_and_text(address, control(address, &body)).await;

    let new = Quota::per_second(6).burst(9);
    let limits = ["striped", "leasing", "keyed", "shadowed", "logged", "boxed"];
    for name in limits {
        let (status, text) = press(format!(r#"{{"action":"quota","name":"{name}","quota":"{new}"}}"#)).await;
        assert_eq!(status, 200, "{name}: {text}");
    }
    let quotas = [
        striped.quota(),
        leasing.quota(),
        keyed.quota(),
        shadowed.in_force().quota(),
        logged.limiter().quota(),
        boxed.quota(),
    ];
    assert_eq!(quotas, [new; 6]);
    assert_eq!(shadowed.candidate().quota(), old);

    let breakers = || {
        let of_hosts = ["a", "b"].map(|host| hosts.get_or_create(host).state());
        let per_host = ["a", "b"].map(|host| per_host.breaker(host).state());
        [[one.state(), beside.in_force().state()], of_hosts, [single.breaker().state(); 2], per_host].concat()
    };
    for (action, state) in [("trip", State::Open), ("reset", State::Closed)] {
        for name in ["one", "beside", "hosts", "single", "per_host"] {
            let (code, text) = press(format!(r#"{{"action":"{action}","name":"{name}"}}"#)).await;
            assert_eq!(code, 200, "{name}: {text}");
        }
        assert_eq!(breakers(), [state; 8], "{action}");
        assert_eq!(beside.candidate().state(), State::Closed, "a candidate decides by what it sees");
    }
    // The page shows what was set, and when each breaker changed.
    let sample = Events::open(address).await.sample().await;
    for name in limits {
        assert_eq!(sample["quotas"][name], new.to_string(), "{name}");
    }
    for breaker in sample["breakers"].as_array().unwrap() {
        let changes = breaker["changes"].as_array().unwrap();
        assert!(["open", "closed"].iter().all(|to| changes.iter().any(|change| change[3] == *to)), "{breaker}");
    }
    assert_eq!(sample["breakers"].as_array().unwrap().len(), 5, "{sample}");
    let done = press(r#"{"action":"press","name":"flush"}"#.to_owned()).await;
    assert_eq!((done, pressed.load(Ordering::Relaxed)), ((200, r#"{"done":"Flush: done"}"#.to_owned()), 1));
}

#[tokio::test]
async fn page_without_a_token_changes_nothing() {
    let limiter = Arc::new(RateLimiter::new(Quota::per_second(5)));
    let page = LivePage::new().interval(Duration::from_millis(100)).limit("one", Arc::clone(&limiter)).build().unwrap();
    let address = serve(page).await;
    let quota = r#"{"action":"quota","name":"one","quota":"9/s"}"#;
    assert_eq!(status_and_text(address, control(address, quota)).await.0, 403);
    assert_eq!(limiter.quota(), Quota::per_second(5));
    assert_eq!(Events::open(address).await.next().await.1["changeable"], false);
}

#[tokio::test]
async fn samples_have_refusals_keys_and_percentiles() {
    let log = Arc::new(DecisionLog::with_clock(1 << 16, ManualClock::new()));
    let keys = KeyedLimiter::<u32>::builder(Quota::per_hour(1)).build().unwrap();
    let keys = Arc::new(Logged::new(keys, Arc::clone(&log)));
    let latencies = Latencies::new("queries");
    let counts = LiveRecorder::new();
    let page = quick().limit("keys", Arc::clone(&keys)).decision_log("keys", log);
    let page = page.latencies(&latencies).recorder(&counts).status("mood", || "calm\nand\n\nquiet".to_owned());
    let address = serve(page.build().unwrap()).await;
    let mut events = Events::open(address).await;
    let first = events.sample().await;
    assert_eq!(first["latencies"][0]["calls"], 0);
    (0..10_000).for_each(|key| _ = keys.check(&key));
    (0..500).for_each(|_| _ = keys.check(&7));
    (1..=100).for_each(|millis| latencies.record(Duration::from_millis(millis)));
    metrics::with_local_recorder(&counts, || {
        metrics::counter!("damper_limit_refused_total", "limit" => "keys").increment(3);
    });
    let (mut allowed, mut refused, mut calls) = (0.0, 0.0, 0);
    let mut before = first["at"].as_f64().unwrap();
    let began = Instant::now();
    let last = loop {
        let sample = events.sample().await;
        let at = sample["at"].as_f64().unwrap();
        // A sample after a pause has no rates.
        allowed += sample["logs"][0]["allowed"].as_f64().unwrap_or(0.0) * (at - before);
        refused += sample["logs"][0]["refused"].as_f64().unwrap_or(0.0) * (at - before);
        before = at;
        if let Some(count) = sample["latencies"][0]["calls"].as_u64().filter(|count| *count > 0) {
            calls += count;
            let p50 = sample["latencies"][0]["p50"].as_f64().unwrap();
            assert!(calls < 100 || (0.048..0.055).contains(&p50), "{p50}");
        }
        if allowed > 9_900.0 && calls == 100 {
            break sample;
        }
        assert!(began.elapsed() < LONG, "{sample}");
    };
    assert!((allowed / 10_000.0 - 1.0).abs() < 0.05 && (refused / 500.0 - 1.0).abs() < 0.05, "{allowed} {refused}");
    let hottest = last["logs"][0]["hottest"].as_array().unwrap();
    assert_eq!(hottest.len(), 10);
    assert!(hottest[0]["refused"].as_f64().unwrap() > 0.0 && hottest[1]["refused"].as_f64() == Some(0.0), "{last}");
    assert_eq!(hottest[0]["key"].as_str().unwrap().len(), 12);
    assert!(last.to_string().len() < 8_000, "10,000 keys stay bounded: {} bytes", last.to_string().len());
    assert_eq!(last["statuses"][0]["text"], "calm\nand\n\nquiet");
    let counted = serde_json::json!(["damper_limit_refused_total", { "limit": "keys" }, 3.0]);
    assert!(last["series"].as_array().unwrap().contains(&counted), "{last}");
}

/// A source with a total.
struct Total(u64);

impl Source for Total {
    fn read(&self, readings: &Readings<'_>) {
        readings.record_number(&damper::metrics::catalogue::HEDGE_REQUESTS, self.0);
    }
}

/// An exporter of the program writes totals into the recorder too, as of its last scrape.
#[tokio::test]
async fn total_that_is_also_exported_is_in_a_sample_once_with_its_present_value() {
    let counts = LiveRecorder::new();
    let exporter = |total| damper::metrics::Exporter::new().register("search", Total(total));
    metrics::with_local_recorder(&counts, || {
        exporter(5).record();
        damper::metrics::Exporter::new().register("elsewhere", Total(3)).record();
    });
    let address = serve(quick().recorder(&counts).source("search", Total(7)).build().unwrap()).await;
    let sample = Events::open(address).await.sample().await;
    let mut series = sample["series"].as_array().unwrap().clone();
    series.sort_by_key(ToString::to_string);
    let total = |hedge: &str, total: f64| serde_json::json!(["damper_hedge_requests_total", { "hedge": hedge }, total]);
    assert_eq!(series, [total("elsewhere", 3.0), total("search", 7.0)]);
}

#[test]
fn settings_out_of_range_are_refused() {
    let limiter = Arc::new(RateLimiter::new(Quota::per_second(5)));
    for (page, text) in [
        (LivePage::new().path("damper"), "the live page's path \"damper\" has to begin with a slash"),
        (LivePage::new().path("/a\"b"), "the live page's path \"/a\\\"b\""),
        (LivePage::new().path(""), "the live page's path \"\""),
        (LivePage::new().interval(Duration::ZERO), "the live page's interval is 0 ns, it must be 100 ms to 1 min"),
        (LivePage::new().interval(Duration::MAX), "it must be 100 ms to 1 min"),
        (LivePage::new().patience(Duration::ZERO), "the live page's patience is 0 ns, it must be 1 ms to 1 day"),
        (
            LivePage::new().limit("one", Arc::clone(&limiter)).limit("one", Arc::clone(&limiter)),
            "the live page has \"one\" twice",
        ),
        (
            LivePage::new().open_to(["http://myhost"]),
            "cannot be open to \"http://myhost\", it must be a name or an address",
        ),
        (LivePage::new().open_to(["ok.example", "myhost:8089"]), "cannot be open to \"myhost:8089\""),
        (LivePage::new().open_to(["[::1]:80"]), "cannot be open to \"[::1]:80\""),
        (LivePage::new().open_to(["myhost/"]), "cannot be open to \"myhost/\""),
        (LivePage::new().open_to([""]), "cannot be open to \"\""),
    ] {
        let error: LivePageError = page.build().expect_err(text);
        assert!(error.to_string().contains(text), "{error}");
    }
}

proptest! {
    /// Nothing that a holder of the token sends breaks the page, and only whole requests change something.
    #[test]
    fn any_control_is_answered(body in prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        ("[a-z]{0,6}", "[a-z]{0,3}", "[0-9a-z/ .]{0,20}").prop_map(|(action, name, quota)| {
            let action = if action.len() < 4 { "quota".to_owned() } else { action };
            let name = if name.len() < 3 { "one".to_owned() } else { name };
            serde_json::json!({ "action": action, "name": name, "quota": quota }).to_string().into_bytes()
        }),
    ]) {
        let limiter = Arc::new(RateLimiter::new(Quota::per_second(5)));
        let mut page = quick_page(&limiter);
        let mut request = control(([127, 0, 0, 1], 80).into(), "").map(|_| Full::<Bytes>::from(body));
        request.extensions_mut().insert(PeerAddress(([127, 0, 0, 1], 5_000).into()));
        let call = tower::Service::call(&mut page, request);
        let response = futures_util::FutureExt::now_or_never(call).expect("the body is there").unwrap();
        prop_assert!([200, 400, 404, 422].contains(&response.status().as_u16()), "{}", response.status());
        prop_assert!(response.status() == 200 || limiter.quota() == Quota::per_second(5));
    }
}

fn quick_page(limiter: &Arc<RateLimiter>) -> LiveService {
    quick().limit("one", Arc::clone(limiter)).build().unwrap()
}

#[tokio::test]
async fn request_is_explained_as_often_as_it_is_asked() {
    let stack = damper::http::server_stack().limit_per_client(Quota::per_hour(2)).limit_layer(
        RateLimitLayer::global(Quota::per_hour(9)).exempt(|head| {
            head.method == "POST"
                && head.uri.path() == "/a/b"
                && head.uri.query() == Some("c=d")
                && head.headers.get("x-key").is_some_and(|key| key == "1")
                && !head.headers.contains_key("authorization")
        }),
    );
    let explained = stack.clone();
    let unlimited = |head: &Head<'_>| damper::http::server_stack().explain(head);
    let page = quick().explain("api", move |head| explained.explain(head)).explain("my api/50%", unlimited);
    let address = serve(page.build().unwrap()).await;
    let ask = |path: &str, headers: &[(&'static str, &str)]| {
        let mut request = request("GET", address, path, "");
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        status_and_text(address, request)
    };
    for _ in 0..5 {
        let (status, json) = ask("/damper/explain/api/", &[("damper-client", "203.0.113.9")]).await;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((status, &json["refused_by"]), (200, &serde_json::Value::Null));
        assert_eq!(
            json["parts"][0],
            serde_json::json!({
                "part": "client limit", "name": "client", "outcome": "passes", "quota": "2/h burst 2", "remaining": 2,
            })
        );
        assert_eq!(json["parts"][1]["remaining"], 9);
    }
    let about = [
        ("damper-client", "203.0.113.9"),
        ("damper-method", "POST"),
        ("x-key", "1"),
        ("accept", "text/plain"),
        ("authorization", "Bearer x"),
    ];
    let (_, text) = ask("/damper/explain/api/a/b?c=d", &about).await;
    assert_eq!(
        text,
        "client limit \"client\": passes (2 left of 2/h burst 2)\nlimit \"default\": passes\nnot refused\n"
    );
    // Without a client, and not the operator itself.
    let (_, text) = ask("/damper/explain/api", &[("accept", "text/plain")]).await;
    assert!(text.contains("refused by the client limit"), "{text}");
    for (path, headers, status) in [
        ("/damper/explain/other/", &[][..], 404),
        ("/damper/explain", &[], 404),
        ("/damper/explain/my%20api%2f50%25/", &[], 200),
        ("/damper/explain/my%20api%2f50%/", &[], 200),
        ("/damper/explain/my%20api/50%25/", &[], 404),
        ("/damper/explain/api/", &[("damper-client", "someone")], 400),
        ("/damper/explain/api/", &[("damper-method", "G T")], 400),
    ] {
        assert_eq!(ask(path, headers).await.0, status, "{path} {headers:?}");
    }
    assert_eq!(status_and_text(address, request("POST", address, "/damper/explain/api/", "")).await.0, 405);
    let repeated = quick().explain("api", |_| unreachable!()).explain("api", |_| unreachable!()).build();
    assert_eq!(repeated.err(), Some(LivePageError::Repeated { name: "api".into() }));
}
