//! The limits of a quota tree over real sockets, on a manual clock.

use super::support::{Client, LOCALHOST, serve};
use bytes::Bytes;
use damper::http::{BodyLines, Headers, RateLimitLayer, Refused, TreeLimit};
use damper::{ManualClock, Plan, Quota, QuotaTree, RateLimiter};
use futures_util::stream::{self, StreamExt};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

type OnClock = Arc<ManualClock>;
type Tree = QuotaTree<str, 2, 2, OnClock>;
type Layer = RateLimitLayer<TreeLimit<str, 2, 2, OnClock>>;

/// Each user has 10 requests and 1,000 tokens an hour, and an organisation 15 and 3,000.
fn plans() -> [[Plan; 2]; 2] {
    [[10, 1_000], [15, 3_000]].map(|level| level.map(|limit| Plan::new(Quota::per_hour(limit)).unwrap()))
}

fn tree() -> Arc<Tree> {
    let tree = QuotaTree::builder(["user", "organisation"], ["requests", "tokens"]).clock(OnClock::default());
    Arc::new(tree.build().unwrap())
}

/// Limits by two headers, of which the second is the organisation.
fn layer(tree: &Arc<Tree>) -> Layer {
    RateLimitLayer::tree(Arc::clone(tree), |head| {
        let [user, organisation] = ["x-user", "x-organisation"].map(|name| head.headers.get(name)?.to_str().ok());
        let [of_user, of_organisation] = plans();
        Some([(user?.into(), of_user), (format!("organisation {}", organisation?).into(), of_organisation)])
    })
}

/// Returns the requests and the tokens that a user of acme has used, and those of acme.
fn used(tree: &Tree, user: &str) -> [[u32; 2]; 2] {
    let plans = plans();
    let path = [(user, plans[0].each_ref()), ("organisation acme", plans[1].each_ref())];
    tree.peek(&path).map(|level| level.map(|usage| usage.used()))
}

async fn get(client: &mut Client, user: &str) -> Response<Bytes> {
    client.get_with("/", &[("x-user", user), ("x-organisation", "acme")]).await
}

async fn serve_hello(layer: Layer) -> SocketAddr {
    serve(move |peer| layer.for_peer(peer).layer(service_fn(super::support::hello::<Incoming>))).await
}

#[tokio::test]
async fn refusal_names_the_level_and_the_dimension_and_no_key() {
    let tree = tree();
    let limited = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&limited);
    let layer = layer(&tree).costs(|_| [1, 400]).headers(Headers::OnAllResponses).problem_json().on_limited(
        move |_, limited| seen.lock().unwrap().push((limited.level().unwrap(), limited.dimension().unwrap())),
    );
    let mut client = Client::of(serve_hello(layer).await).await;
    let response = get(&mut client, "alice").await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["ratelimit"], r#""default";r=600;t=1440"#, "her tokens are nearest to their end");
    assert_eq!(response.headers()["ratelimit-policy"], r#""default";q=1000;w=3600"#);
    get(&mut client, "alice").await;

    let refusal = get(&mut client, "alice").await;
    assert_eq!(refusal.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refusal.headers()["retry-after"], "720");
    assert_eq!(refusal.headers()["ratelimit"], r#""default";r=200;t=720"#);
    assert_eq!(refusal.headers()["content-type"], "application/problem+json");
    let body = String::from_utf8(refusal.body().to_vec()).unwrap();
    assert!(body.contains(r#""detail":"tokens of this user: rate limit exceeded, retry in 720 s""#), "{body}");
    assert_eq!(used(&tree, "alice"), [[2, 800], [2, 800]], "a refusal takes nothing");

    for user in ["bob", "bob", "carol", "carol", "dave"] {
        assert_eq!(get(&mut client, user).await.status(), StatusCode::OK);
    }
    let refusal = get(&mut client, "erin").await;
    assert_eq!(refusal.headers()["ratelimit-policy"], r#""default";q=3000;w=3600"#);
    for (name, value) in refusal.headers() {
        let value = value.to_str().unwrap();
        assert!(!value.contains("erin") && !value.contains("acme"), "{name}: {value}");
    }
    let body = String::from_utf8(refusal.body().to_vec()).unwrap();
    assert!(body.contains("tokens of this organisation") && !body.contains("acme"), "{body}");
    assert_eq!(*limited.lock().unwrap(), [("user", "tokens"), ("organisation", "tokens")]);
}

/// Refusals are counted by level and dimension, and keys by level. No label has a key.
#[cfg(feature = "metrics")]
#[test]
fn refusals_and_keys_are_counted_by_level() {
    let recorder = metrics_util::debugging::DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let layer = layer(&tree()).costs(|_| [1, 1_000]).named("model").unwrap();
    let layer = layer.plan_names(|head| {
        let of_user = if head.headers["x-user"] == "alice" { "free" } else { "pro" };
        [of_user.into(), "team".into()]
    });
    let exporter = damper::metrics::Exporter::new().layer(layer.clone());
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut client = Client::of(serve_hello(layer).await).await;
            for user in ["alice", "alice", "bob", "carol", "dave", "erin"] {
                get(&mut client, user).await;
            }
        });
        exporter.record();
    });
    let mut counts = Vec::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let labels: Vec<_> = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        counts.push(format!("{} {} {value:?}", key.key().name(), labels.join(",")));
    }
    counts.sort();
    counts.retain(|count| !count.ends_with("Counter(0)"));
    assert_eq!(
        counts,
        [
            "damper_limit_allowed_total limit=model Counter(3)",
            "damper_limit_keys limit=model,level=organisation Gauge(2.0)",
            "damper_limit_keys limit=model,level=user Gauge(6.0)",
            "damper_limit_keys_capacity limit=model,level=organisation Gauge(16384.0)",
            "damper_limit_keys_capacity limit=model,level=user Gauge(16384.0)",
            "damper_limit_refused_total limit=model,level=organisation,dimension=tokens,plan=team Counter(2)",
            "damper_limit_refused_total limit=model,level=user,dimension=tokens,plan=free Counter(1)",
            "damper_limit_shared_words_seen_total limit=model,level=organisation Counter(2)",
            "damper_limit_shared_words_seen_total limit=model,level=user Counter(6)",
        ]
    );
}

#[tokio::test]
async fn request_without_a_path_is_an_error_unless_it_is_exempt() {
    let errors = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&errors);
    let layer = layer(&tree()).exempt(|head| head.uri.path() == "/healthz").on_error(move |_, error| {
        let source = std::error::Error::source(error).unwrap();
        seen.lock().unwrap().push(source.to_string());
    });
    let mut client = Client::of(serve_hello(layer).await).await;
    assert_eq!(client.get("/healthz").await.status(), StatusCode::OK);
    let response = client.get_with("/", &[("x-user", "alice")]).await;
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(response.body(), "the rate limit could not decide\n");
    let errors = errors.lock().unwrap();
    assert!(matches!(&errors[..], [reason] if reason.contains("returned none")), "{errors:?}");
}

#[tokio::test]
async fn cost_multiplies_the_costs() {
    let tree = tree();
    let layer = layer(&tree).costs(|_| [1, 100]).cost(|head| if head.uri.path() == "/" { 3 } else { 0 });
    let mut client = Client::of(serve_hello(layer).await).await;
    assert_eq!(get(&mut client, "alice").await.status(), StatusCode::OK);
    assert_eq!(used(&tree, "alice")[0], [3, 300]);
    let headers = [("x-user", "alice"), ("x-organisation", "acme")];
    for _ in 0..100 {
        assert_eq!(client.get_with("/free", &headers).await.status(), StatusCode::OK);
    }
    assert_eq!(used(&tree, "alice")[0], [3, 300]);
}

#[tokio::test]
async fn unlimited_plans_write_no_headers() {
    let layer =
        RateLimitLayer::tree(tree(), |_| Some([("", [Plan::UNLIMITED; 2]); 2].map(|(key, plans)| (key.into(), plans))));
    for layer in [layer.clone(), layer.charge_by_response(|_, _| [1, 1])] {
        let mut client = Client::of(serve_hello(layer.headers(Headers::OnAllResponses)).await).await;
        let response = client.get("/").await;
        assert_eq!((response.status(), response.headers().get("ratelimit")), (StatusCode::OK, None));
    }
}

#[tokio::test]
async fn head_of_the_response_settles_the_estimate() {
    let tree = tree();
    let layer = layer(&tree).costs(|_| [1, 900]).headers(Headers::OnAllResponses);
    let layer = layer.charge_by_response(|head, response| {
        assert_eq!(head.headers["x-user"], "alice");
        [1, response.headers["x-tokens"].to_str().unwrap().parse().unwrap()]
    });
    let answer = |_: Request<Incoming>| async {
        Ok::<_, Infallible>(Response::builder().header("x-tokens", "30").body(Full::<Bytes>::default()).unwrap())
    };
    let server = serve(move |peer| layer.for_peer(peer).layer(service_fn(answer))).await;
    let mut client = Client::of(server).await;
    for calls in 1..=4 {
        let response = get(&mut client, "alice").await;
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.headers().contains_key("ratelimit"));
        assert_eq!(used(&tree, "alice"), [[calls, 30 * calls]; 2]);
    }
}

/// A server whose body the test writes, and which has no end before the sender is dropped.
async fn serve_stream<L>(layer: RateLimitLayer<L>) -> (SocketAddr, Writer)
where
    L: damper::http::Limit<Future: damper::gate::WaitsWith<Streaming> + Send> + Send + Sync + 'static,
{
    let writer = Arc::new(Mutex::new(None));
    let of_server = Arc::clone(&writer);
    let server = serve(move |peer| layer.for_peer(peer).layer(Streaming(Arc::clone(&of_server)))).await;
    (server, writer)
}

type Writer = Arc<Mutex<Option<mpsc::Sender<io::Result<Frame<Bytes>>>>>>;
type Pieces = stream::BoxStream<'static, io::Result<Frame<Bytes>>>;

#[derive(Clone)]
struct Streaming(Writer);

impl Service<Request<Incoming>> for Streaming {
    type Response = Response<StreamBody<Pieces>>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn call(&self, _: Request<Incoming>) -> Self::Future {
        let (writer, reader) = mpsc::channel(1);
        *self.0.lock().unwrap() = Some(writer);
        let pieces = stream::unfold(reader, |mut reader| async { Some((reader.recv().await?, reader)) }).boxed();
        std::future::ready(Ok(Response::new(StreamBody::new(pieces))))
    }
}

/// Charges the number in the last event that has one.
fn by_events(layer: Layer) -> Layer {
    layer.costs(|_| [1, 500]).charge_by_response(|_, _| [1, 20]).charge_by_body(|_, _| {
        let mut lines = BodyLines::up_to(64);
        move |piece, used| {
            lines.push(piece, |line| {
                if let Some(tokens) = line.strip_prefix(b"data: ") {
                    used[1] = std::str::from_utf8(tokens).unwrap().parse().unwrap();
                }
            });
        }
    })
}

/// Asks for a stream, and returns its body.
async fn open(server: SocketAddr) -> (Incoming, tokio::task::JoinHandle<hyper::Result<()>>) {
    let stream = TokioIo::new(TcpStream::connect(server).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::get("/").header("host", "test").header("x-user", "alice").header("x-organisation", "acme");
    let response = sender.send_request(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    (response.into_body(), connection)
}

/// Sends a piece, and waits until the client has it.
async fn pass_on(writer: &mpsc::Sender<io::Result<Frame<Bytes>>>, body: &mut Incoming, piece: &'static str) {
    writer.send(Ok(Frame::data(Bytes::from_static(piece.as_bytes())))).await.unwrap();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), piece);
}

#[tokio::test]
async fn stream_is_settled_by_its_last_event() {
    let tree = tree();
    let (server, writer) = serve_stream(by_events(layer(&tree))).await;
    let (mut body, _connection) = open(server).await;
    let writer = writer.lock().unwrap().take().unwrap();
    for piece in ["data: 3", "0\n\nda", "ta: 40\r\n\r", "\n", "data: 7"] {
        pass_on(&writer, &mut body, piece).await;
        assert_eq!(used(&tree, "alice"), [[1, 500]; 2], "the estimate stands until the end");
    }
    writer.send(Ok(Frame::data(Bytes::from_static(b"0\n\n")))).await.unwrap();
    drop(writer);
    body.collect().await.unwrap();
    assert_eq!(used(&tree, "alice"), [[1, 70]; 2]);
}

#[tokio::test]
async fn disconnected_client_pays_for_what_it_got() {
    let tree = tree();
    for (pieces, tokens) in [(&[][..], 20), (&["data: 30\n", "data: 45\ndata: 9"][..], 45)] {
        let before = used(&tree, "alice")[0][1];
        let (server, writer) = serve_stream(by_events(layer(&tree))).await;
        let (mut body, connection) = open(server).await;
        let writer = writer.lock().unwrap().take().unwrap();
        for piece in pieces {
            pass_on(&writer, &mut body, piece).await;
        }
        assert_eq!(used(&tree, "alice")[0][1], before + 500);
        drop(body);
        connection.abort();
        // The server drops the body, and with it the reader, when it notices.
        writer.closed().await;
        assert_eq!(used(&tree, "alice")[0][1], before + tokens);
    }
}

#[tokio::test]
async fn body_that_fails_is_settled_by_what_was_counted() {
    let tree = tree();
    let (server, writer) = serve_stream(by_events(layer(&tree))).await;
    let (mut body, _connection) = open(server).await;
    let writer = writer.lock().unwrap().take().unwrap();
    pass_on(&writer, &mut body, "data: 33\n").await;
    writer.send(Err(io::Error::other("the model failed"))).await.unwrap();
    assert!(body.collect().await.is_err());
    assert_eq!(used(&tree, "alice"), [[1, 33]; 2]);
}

/// Without an estimate of its own, a request is charged for each piece as it is sent.
#[tokio::test]
async fn limiters_are_charged_by_bodies_too() {
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_hour(1_000), OnClock::default()));
    let layer = RateLimitLayer::new(Arc::clone(&limiter)).cost(|_| 100).charge_by_response(|_, _| 0);
    let layer = layer.charge_by_body(|_, _| |piece, used| *used += piece.len() as u32);
    let (server, writer) = serve_stream(layer).await;
    let (mut body, _connection) = open(server).await;
    let writer = writer.lock().unwrap().take().unwrap();
    for piece in ["seven b", "ytes and six"] {
        pass_on(&writer, &mut body, piece).await;
        assert_eq!(limiter.peek().used(), 100);
    }
    writer.send(Ok(Frame::trailers(http::HeaderMap::new()))).await.unwrap();
    drop(writer);
    body.collect().await.unwrap();
    assert_eq!(limiter.peek().used(), 19);
}

/// An estimate counts as used in full if the service fails, or if the client gives up too early.
#[tokio::test]
async fn request_without_a_response_keeps_its_estimate() {
    let tree = tree();
    let layer = by_events(layer(&tree));
    let request = || {
        let request = Request::get("/").header("x-user", "alice").header("x-organisation", "acme");
        request.body(Full::<Bytes>::default()).unwrap()
    };
    let fails = |_: Request<Full<Bytes>>| async { Err::<Response<Full<Bytes>>, _>("the model fails") };
    assert!(layer.layer(service_fn(fails)).call(request()).await.is_err());
    assert_eq!(used(&tree, "alice"), [[1, 500]; 2]);
    let hangs = |_: Request<Full<Bytes>>| std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>();
    let hanging = layer.layer(service_fn(hangs));
    let mut call = Box::pin(hanging.call(request()));
    assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(call);
    assert_eq!(used(&tree, "alice"), [[2, 1_000]; 2]);
}

/// Responses that an overloaded server refused give every second cost back.
#[tokio::test]
async fn unserved_requests_are_refunded_in_all_dimensions() {
    let tree = tree();
    let layer = layer(&tree).costs(|_| [1, 50]).refund_unserved();
    let refuses = |_: Request<Full<Bytes>>| async {
        let mut response = Response::new(Full::<Bytes>::default());
        response.extensions_mut().insert(Refused);
        Ok::<_, Infallible>(response)
    };
    let service = layer.layer(service_fn(refuses));
    for _ in 0..8 {
        let request = Request::get("/").header("x-user", "alice").header("x-organisation", "acme");
        assert_eq!(service.call(request.body(Full::default()).unwrap()).await.unwrap().status(), StatusCode::OK);
    }
    let [requests, tokens] = used(&tree, "alice")[0];
    assert!((1..8).contains(&requests), "{requests} of 8");
    assert_eq!(tokens, 50 * requests);
}

/// A tree decides beside another limit, on the same requests.
#[tokio::test]
async fn tree_is_a_candidate() {
    let tree = tree();
    let plans = plans();
    let candidate = TreeLimit::new(Arc::clone(&tree), move |_| Some([("".into(), plans[0]), ("".into(), plans[1])]));
    let layer = RateLimitLayer::global(Quota::per_hour(100)).shadow(candidate.costs(|_| [1, 300]));
    let kept = layer.clone();
    let server = serve(move |peer| layer.for_peer(peer).layer(service_fn(super::support::hello::<Incoming>))).await;
    assert_eq!(Client::from(LOCALHOST, server).await.passes(5).await, 5);
    assert_eq!(kept.shadow_report().unwrap().only_by_candidate, 2, "three of the five cost all tokens");
}

#[tokio::test]
async fn refilled_tokens_let_requests_pass() {
    let clock = OnClock::default();
    let tree = QuotaTree::builder(["user", "organisation"], ["requests", "tokens"]).clock(Arc::clone(&clock));
    let layer = layer(&Arc::new(tree.build().unwrap())).costs(|_| [1, 1_000]);
    let mut client = Client::of(serve_hello(layer).await).await;
    assert_eq!(get(&mut client, "alice").await.status(), StatusCode::OK);
    let refusal = get(&mut client, "alice").await;
    let wait: u64 = refusal.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    clock.advance(Duration::from_secs(wait));
    assert_eq!(get(&mut client, "alice").await.status(), StatusCode::OK);
}

proptest! {
    /// Lines are those of the whole body, however it is cut, and of long ones the end is kept.
    #[test]
    fn lines_do_not_depend_on_the_pieces(body in "[a-c\r\n]{0,60}", cuts in prop::collection::vec(0..60_usize, 0..8)) {
        let body = body.as_bytes();
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(body.len())).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let (mut lines, mut seen) = (BodyLines::up_to(5), Vec::new());
        for piece in cuts.windows(2) {
            lines.push(&body[piece[0]..piece[1]], |line| seen.push(line.to_vec()));
        }
        let end_of = |line: &[u8]| line[line.len().saturating_sub(5)..].to_vec();
        let mut expected: Vec<_> = body.split(|&byte| byte == b'\n').collect();
        prop_assert_eq!(lines.rest(), end_of(expected.pop().unwrap()));
        let expected: Vec<_> = expected.into_iter().map(|line| end_of(line.strip_suffix(b"\r").unwrap_or(line))).collect();
        prop_assert_eq!(seen, expected);
    }
}
