//! Hedged calls of gRPC: on tokio's paused time, and over real sockets.

use crate::support::echo::Message;
use crate::support::echo::echo_client::EchoClient;
use crate::support::echo::echo_server::{Echo, EchoServer};
use crate::support::{channel, message, messages, serve};
use crate::tokio_clock::TokioClock;
use damper::http::{HedgeLayer, RetryLayer};
use damper::retry::{Budget, Hedge, HedgeConfig, Jitter, RetryThrottle, Unlimited};
use damper::time::TokioSleep;
use damper::tonic::GrpcRetries;
use damper::tower::GateLayer;
use damper::wire::grpc_timeout_in;
use damper::{Backoff, Deadline, Monotonic, Quota, RateLimiter, Retry};
use futures_util::future::join_all;
use futures_util::stream::{BoxStream, StreamExt};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::body::Body;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::transport::Server;
use tonic::{Code, Status, Streaming};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

const MILLISECOND: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(60);

/// Makes another attempt after this time.
fn fixed(delay: Duration, attempts: u32) -> HedgeConfig {
    HedgeConfig::builder().fixed_delay(delay).max_attempts(attempts).build().unwrap()
}

fn layer(delay: Duration, attempts: u32) -> HedgeLayer<Monotonic, Unlimited, GrpcRetries, TokioSleep> {
    HedgeLayer::new(Hedge::new(fixed(delay, attempts))).protocol(GrpcRetries::on([Code::Unavailable]))
}

/// A status whose code is all that a client receives.
fn status(code: Code) -> Status {
    Status::new(code, "")
}

fn declined() -> Status {
    let mut status = status(Code::Unavailable);
    status.metadata_mut().insert("grpc-retry-pushback-ms", AsciiMetadataValue::from_static("-1"));
    status
}

/// A budget that counts requests and refuses all of them.
#[derive(Default)]
struct Spent {
    asked: AtomicUsize,
}

impl Budget for Spent {
    fn try_withdraw(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        false
    }
}

// Tests over sockets.

/// The server's reply to an attempt.
#[derive(Clone)]
enum Reply {
    After(Duration),
    Fail(Status),
    Never,
}

type Answer<T> = Result<tonic::Response<T>, Status>;

/// A tonic service that replies to attempts by their number, starting at 1.
#[derive(Clone)]
struct Scripted {
    script: Arc<dyn Fn(usize) -> Reply + Send + Sync>,
    /// The number of previous attempts that each attempt stated.
    seen: Arc<Mutex<Vec<Option<u32>>>>,
    in_flight: Arc<AtomicUsize>,
}

/// A call in flight at the server.
struct InFlight(Arc<AtomicUsize>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Scripted {
    fn new(script: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Self {
        Self { script: Arc::new(script), seen: Arc::default(), in_flight: Arc::default() }
    }

    /// Replies to the attempts as listed, and to all later ones at once.
    fn of<const N: usize>(replies: [Reply; N]) -> Self {
        Self::new(move |number| replies.get(number - 1).cloned().unwrap_or(Reply::After(Duration::ZERO)))
    }

    fn serve(&self) -> SocketAddr {
        serve(Server::builder().add_service(EchoServer::new(self.clone())))
    }

    async fn begin(&self, metadata: &MetadataMap) -> Result<InFlight, Status> {
        let previous = metadata.get("grpc-previous-rpc-attempts");
        let number = {
            let mut seen = self.seen.lock().unwrap();
            seen.push(previous.map(|value| value.to_str().unwrap().parse().unwrap()));
            seen.len()
        };
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        let in_flight = InFlight(Arc::clone(&self.in_flight));
        match (self.script)(number) {
            Reply::After(latency) => sleep(latency).await,
            Reply::Fail(status) => return Err(status),
            Reply::Never => pending().await,
        }
        Ok(in_flight)
    }

    fn attempts(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    async fn until_none_is_in_flight(&self) {
        let freed = async {
            while self.in_flight.load(Ordering::SeqCst) > 0 {
                sleep(MILLISECOND).await;
            }
        };
        tokio::time::timeout(LONG, freed).await.expect("the server sees that its stream was reset");
    }
}

#[tonic::async_trait]
impl Echo for Scripted {
    type ServerStreamingStream = BoxStream<'static, Result<Message, Status>>;
    type BidirectionalStream = BoxStream<'static, Result<Message, Status>>;

    async fn unary(&self, request: tonic::Request<Message>) -> Answer<Message> {
        let _in_flight = self.begin(request.metadata()).await?;
        Ok(tonic::Response::new(request.into_inner()))
    }

    async fn client_streaming(&self, request: tonic::Request<Streaming<Message>>) -> Answer<Message> {
        let (metadata, _, mut messages) = request.into_parts();
        let first = messages.message().await?.unwrap_or_default();
        let _in_flight = self.begin(&metadata).await?;
        let mut all = first.text;
        while let Some(message) = messages.message().await? {
            all += &message.text;
        }
        Ok(tonic::Response::new(message(&all)))
    }

    async fn server_streaming(&self, request: tonic::Request<Message>) -> Answer<Self::ServerStreamingStream> {
        let _in_flight = self.begin(request.metadata()).await?;
        let answers = vec![Ok(request.into_inner()); 3];
        Ok(tonic::Response::new(futures_util::stream::iter(answers).boxed()))
    }

    async fn bidirectional(&self, request: tonic::Request<Streaming<Message>>) -> Answer<Self::BidirectionalStream> {
        let (metadata, _, messages) = request.into_parts();
        let _in_flight = self.begin(&metadata).await?;
        Ok(tonic::Response::new(messages.boxed()))
    }
}

/// Its first attempt never ends. The server sees the loser's stream end.
#[tokio::test]
async fn second_attempt_completes_a_slow_call_of_every_kind() {
    for kind in 0..4 {
        let server = Scripted::of([Reply::Never]);
        let mut client = EchoClient::new(layer(20 * MILLISECOND, 2).layer(channel(server.serve())));
        let sent = messages(&["a", "b", "c"]);
        let answers = match kind {
            0 => client.unary(message("abc")).await.unwrap().into_inner().text,
            1 => client.client_streaming(sent).await.unwrap().into_inner().text,
            2 => texts(client.server_streaming(message("abc")).await.unwrap().into_inner()).await,
            _ => texts(client.bidirectional(sent).await.unwrap().into_inner()).await,
        };
        assert_eq!(answers, if kind == 2 { "abcabcabc" } else { "abc" }, "kind {kind}");
        assert_eq!(*server.seen.lock().unwrap(), [None, Some(1)], "kind {kind}");
        server.until_none_is_in_flight().await;
    }
}

async fn texts(answers: Streaming<Message>) -> String {
    answers.map(|answer| answer.unwrap().text).collect().await
}

#[tokio::test]
async fn fast_call_is_made_once() {
    let server = Scripted::of([]);
    let mut client = EchoClient::new(layer(LONG, 5).layer(channel(server.serve())));
    assert_eq!(client.unary(message("hello")).await.unwrap().into_inner().text, "hello");
    assert_eq!(*server.seen.lock().unwrap(), [None]);
}

/// One request in a hundred takes half a second. The server counts extra requests on arrival.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_gets_few_extra_requests() {
    const CALLERS: usize = 20;
    const CALLS: usize = 100;
    let server =
        Scripted::new(|number| Reply::After(if number % 100 == 50 { 500 * MILLISECOND } else { 5 * MILLISECOND }));
    let hedge = Arc::new(Hedge::new(HedgeConfig::DEFAULT));
    let layer = HedgeLayer::new(Arc::clone(&hedge)).protocol(GrpcRetries::new());
    let client = EchoClient::new(layer.layer(channel(server.serve())));
    let callers = (0..CALLERS).map(|_| {
        let mut client = client.clone();
        async move {
            for _ in 0..CALLS {
                client.unary(message("")).await.unwrap();
            }
        }
    });
    join_all(callers).await;
    let (calls, extra) = (CALLERS * CALLS, server.attempts() - CALLERS * CALLS);
    assert!(extra * 100 <= calls * 2 + 10 * 100, "{extra} extra requests in {calls} calls");
    assert!(extra > 0 && hedge.delay().is_some(), "some calls are hedged");
    let stated = server.seen.lock().unwrap().iter().flatten().count();
    assert_eq!(stated, extra, "each extra request states one previous attempt");
}

#[tokio::test]
async fn negative_pushback_stops_hedges() {
    let server = Scripted::of([Reply::Fail(declined())]);
    let mut client = EchoClient::new(layer(LONG, 5).layer(channel(server.serve())));
    assert_eq!(client.unary(message("")).await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(server.attempts(), 1);

    // The same holds for a hedge: the first attempt continues alone.
    let server = Scripted::of([Reply::After(300 * MILLISECOND), Reply::Fail(declined())]);
    let mut client = EchoClient::new(layer(20 * MILLISECOND, 5).layer(channel(server.serve())));
    assert_eq!(client.unary(message("first")).await.unwrap().into_inner().text, "first");
    assert_eq!(server.attempts(), 2);
}

#[tokio::test]
async fn code_that_may_be_repeated_starts_the_next_attempt_at_once() {
    let unavailable = Reply::Fail(status(Code::Unavailable));
    let server = Scripted::of([unavailable.clone(), unavailable.clone(), unavailable]);
    let mut client = EchoClient::new(layer(LONG, 3).layer(channel(server.serve())));
    assert_eq!(client.unary(message("")).await.unwrap_err().code(), Code::Unavailable, "the last status");
    assert_eq!(*server.seen.lock().unwrap(), [None, Some(1), Some(2)]);
}

/// As in gRPC's proposal A6.
///
/// A code that may not be repeated commits the call, whichever attempt returns it.
#[tokio::test]
async fn fatal_code_of_any_attempt_ends_the_call() {
    for (delay, replies, attempts) in [
        (LONG, vec![Reply::Fail(status(Code::Internal))], 1),
        (20 * MILLISECOND, vec![Reply::Never, Reply::Fail(status(Code::Internal))], 2),
        (20 * MILLISECOND, vec![Reply::Never, Reply::Never, Reply::Fail(status(Code::Internal))], 3),
    ] {
        let server = Scripted::new(move |number| replies[number - 1].clone());
        let mut client = EchoClient::new(layer(delay, 3).layer(channel(server.serve())));
        let call = tokio::time::timeout(LONG, client.unary(message("")));
        assert_eq!(
            call.await.expect("the call does not wait for the other attempts").unwrap_err().code(),
            Code::Internal
        );
        assert_eq!(server.attempts(), attempts);
        server.until_none_is_in_flight().await;
    }
}

/// A refusal by the client's own limit says nothing about the first attempt.
#[tokio::test]
async fn hedge_that_a_limit_refuses_leaves_the_first_attempt_alone() {
    let limit = Arc::new(RateLimiter::new(Quota::per_hour(1)));
    let server = Scripted::of([Reply::After(200 * MILLISECOND)]);
    let service = ServiceBuilder::new()
        .layer(layer(20 * MILLISECOND, 5))
        .layer(GateLayer::limit(limit))
        .service(channel(server.serve()));
    assert_eq!(EchoClient::new(service).unary(message("first")).await.unwrap().into_inner().text, "first");
    assert_eq!(server.attempts(), 1);
}

#[tokio::test]
async fn dropped_call_frees_its_streams_at_the_server() {
    let server = Scripted::new(|_| Reply::Never);
    let mut client = EchoClient::new(layer(20 * MILLISECOND, 2).layer(channel(server.serve())));
    let call = tokio::spawn(async move { client.unary(message("")).await });
    while server.attempts() < 2 {
        sleep(MILLISECOND).await;
    }
    call.abort();
    server.until_none_is_in_flight().await;
}

// Tests on paused time, without a network.

/// A service that logs the headers of each attempt, and its time since the first.
fn logged<F>(
    log: &Arc<Mutex<Vec<(u128, HeaderMap)>>>,
    answer: impl Fn(usize, Request<Body>) -> F + Clone + Send + 'static,
) -> impl Service<Request<Body>, Response = Response<Body>, Error = Status, Future: Send> + Clone
where
    F: Future<Output = Result<Response<Body>, Status>> + Send,
{
    let (log, began) = (Arc::clone(log), Instant::now());
    service_fn(move |request: Request<Body>| {
        let mut log = log.lock().unwrap();
        log.push((began.elapsed().as_millis(), request.headers().clone()));
        answer(log.len(), request)
    })
}

fn previous_attempts(log: &Mutex<Vec<(u128, HeaderMap)>>) -> Vec<(u128, Option<String>)> {
    let text =
        |headers: &HeaderMap| headers.get("grpc-previous-rpc-attempts").map(|value| value.to_str().unwrap().to_owned());
    log.lock().unwrap().iter().map(|(at, headers)| (*at, text(headers))).collect()
}

/// Each attempt of the retry may have a hedge. Later attempts continue the count.
#[tokio::test(start_paused = true)]
async fn hedges_inside_of_a_retry_count_on_from_its_attempts() {
    let log = Arc::default();
    let service = logged(&log, |_, _| async {
        sleep(50 * MILLISECOND).await;
        Ok(status(Code::Unavailable).into_http())
    });
    let clock = TokioClock(Instant::now());
    let retry = Retry::with_clock(2, clock, 1).backoff(Backoff::constant(100 * MILLISECOND).jitter(Jitter::None));
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(retry).protocol(GrpcRetries::new()))
        .layer(HedgeLayer::new(Hedge::with_clock(fixed(10 * MILLISECOND, 2), clock)).protocol(GrpcRetries::new()))
        .service(service);
    let response = client.oneshot(Request::new(Body::empty())).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "14");
    let text = |previous: &str| Some(previous.to_owned());
    // The first pair ends after 60 ms.
    assert_eq!(previous_attempts(&log), [(0, None), (10, text("1")), (160, text("1")), (170, text("2"))]);
}

#[tokio::test(start_paused = true)]
async fn attempts_that_no_server_processed_are_no_previous_attempts() {
    let log = Arc::default();
    let service = logged(&log, |number, _| async move {
        match number {
            1 => Err(Status::from_error(Box::new(tonic::ConnectError("refused".into())))),
            2 => Ok(status(Code::Unavailable).into_http()),
            _ => Ok(Response::new(Body::empty())),
        }
    });
    let hedge = Hedge::with_clock(fixed(LONG, 3), TokioClock(Instant::now()));
    let client = HedgeLayer::new(hedge).protocol(GrpcRetries::new()).layer(service);
    client.oneshot(Request::new(Body::empty())).await.unwrap();
    assert_eq!(previous_attempts(&log), [(0, None), (0, None), (0, Some("1".to_owned()))]);
}

/// The next attempt starts after the pushback, as gRPC's proposal A6 says.
///
/// The others start the hedging delay after that.
#[tokio::test(start_paused = true)]
async fn pushback_sets_the_time_of_the_next_hedge() {
    for (first_ends, delay, starts) in [(0, 20_000, [0, 300, 20_300]), (50, 40, [0, 40, 350])] {
        let log = Arc::default();
        let service = logged(&log, move |number, _| async move {
            if number > 1 {
                sleep(LONG).await;
                return Ok(Response::new(Body::empty()));
            }
            sleep(first_ends * MILLISECOND).await;
            let mut response = status(Code::Unavailable).into_http();
            response.headers_mut().insert("grpc-retry-pushback-ms", HeaderValue::from_static("300"));
            Ok(response)
        });
        let hedge = Hedge::with_clock(fixed(delay * MILLISECOND, 3), TokioClock(Instant::now()));
        let client = HedgeLayer::new(hedge).protocol(GrpcRetries::on([Code::Unavailable])).layer(service);
        client.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(log.lock().unwrap().iter().map(|(at, _)| *at).collect::<Vec<_>>(), starts);
    }
}

/// No attempt would begin after the deadline, so the call does not wait for it.
#[tokio::test(start_paused = true)]
async fn pushback_beyond_the_deadline_ends_the_call() {
    let (log, began) = (Arc::default(), Instant::now());
    let service = logged(&log, |_, _| async {
        let mut response = status(Code::Unavailable).into_http();
        response.headers_mut().insert("grpc-retry-pushback-ms", HeaderValue::from_static("300"));
        Ok(response)
    });
    let hedge = Hedge::with_clock(fixed(LONG, 3), TokioClock(began));
    let client = HedgeLayer::new(hedge).protocol(GrpcRetries::on([Code::Unavailable])).layer(service);
    let request = Request::post("/").header("grpc-timeout", "300m").body(Body::empty()).unwrap();
    assert_eq!(client.oneshot(request).await.unwrap().headers()["grpc-status"], "14");
    assert_eq!((log.lock().unwrap().len(), began.elapsed()), (1, Duration::ZERO));
}

/// A failure takes a token, and no hedge is sent once half of them are gone (gRPC's proposal A6).
///
/// A success returns a part of one, a code that may not be repeated none, and a pushback that declines a retry takes one too.
#[tokio::test(start_paused = true)]
async fn failures_of_hedged_calls_count_in_grpcs_throttle() {
    let throttle = Arc::new(RetryThrottle::new(6, 0.5).unwrap());
    let hedge = Hedge::with_clock(fixed(LONG, 5), TokioClock(Instant::now())).budget(Arc::clone(&throttle));
    let layer = HedgeLayer::new(hedge.counting_calls()).protocol(GrpcRetries::on([Code::Unavailable]));
    let attempts = async |layer: &HedgeLayer<_, _, _, _>, answer: fn() -> Status| {
        let log = Arc::default();
        let service = logged(&log, move |_, _| async move { Ok(answer().into_http()) });
        layer.layer(service).oneshot(Request::new(Body::empty())).await.unwrap();
        log.lock().unwrap().len()
    };
    assert_eq!((attempts(&layer, || status(Code::Internal)).await, throttle.thousandths()), (1, 6_000));
    // 6, 5 and 4 tokens are more than half of them.
    assert_eq!((attempts(&layer, || status(Code::Unavailable)).await, throttle.thousandths()), (3, 3_000));
    assert_eq!((attempts(&layer, || status(Code::Unavailable)).await, throttle.thousandths()), (1, 2_000));
    assert_eq!((attempts(&layer, declined).await, throttle.thousandths()), (1, 1_000));
    for tokens in [1_500, 2_000, 2_500, 3_000, 3_500] {
        assert_eq!((attempts(&layer, || status(Code::Ok)).await, throttle.thousandths()), (1, tokens));
    }
    // A retry around the hedge counts the calls itself.
    let inside = layer.inside_of_retries();
    assert_eq!((attempts(&inside, || status(Code::Unavailable)).await, throttle.thousandths()), (1, 3_500));
}

/// The first attempt may have been processed, so the call's status must not claim otherwise.
#[tokio::test(start_paused = true)]
async fn unprocessed_failure_does_not_replace_one_that_may_have_been_processed() {
    for is_refused_first in [true, false] {
        let log = Arc::default();
        let service = logged(&log, move |number, _| async move {
            let is_refused = (number == 1) == is_refused_first;
            Err(if is_refused {
                Status::from_error(Box::new(tonic::ConnectError("refused".into())))
            } else {
                Status::unavailable("processed")
            })
        });
        let hedge = Hedge::with_clock(fixed(LONG, 2), TokioClock(Instant::now()));
        let client = HedgeLayer::new(hedge).protocol(GrpcRetries::new()).layer(service);
        let status = client.oneshot(Request::new(Body::empty())).await.unwrap_err();
        assert_eq!((status.message(), log.lock().unwrap().len()), ("processed", 2));
    }
}

/// Each attempt sends the time left of the deadline, and none begins after it.
#[tokio::test(start_paused = true)]
async fn hedges_send_the_remaining_time() {
    for (timeout, extension) in [("250m", 9_000), ("9S", 250)] {
        let log = Arc::default();
        let service = logged(&log, |_, _| async {
            sleep(LONG).await;
            Ok(Response::new(Body::empty()))
        });
        let clock = TokioClock(Instant::now());
        let hedge = Arc::new(Hedge::with_clock(fixed(100 * MILLISECOND, 5), clock));
        let client = HedgeLayer::new(hedge).protocol(GrpcRetries::new()).layer(service);
        let deadline = Deadline::with_clock(extension * MILLISECOND, clock);
        let request = Request::post("/").header("grpc-timeout", timeout).extension(deadline);
        client.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let log = log.lock().unwrap();
        let left = log.iter().map(|(at, headers)| (*at, grpc_timeout_in(headers).unwrap().as_millis()));
        assert_eq!(left.collect::<Vec<_>>(), [(0, 250), (100, 150), (200, 50)]);
    }
}

/// A request of three messages, of 15 bytes plus 96 for the frames.
fn request() -> Request<Body> {
    let frames = ["first", "other", "third"].map(|text| Ok::<_, Infallible>(http_body::Frame::data(text.into())));
    Request::new(Body::new(StreamBody::new(futures_util::stream::iter(frames))))
}

#[tokio::test(start_paused = true)]
async fn call_that_has_sent_more_than_the_buffer_is_not_hedged() {
    for (buffer, attempts) in [(100, 1), (200, 2)] {
        let log = Arc::default();
        let service = logged(&log, |_, request| async {
            assert_eq!(request.into_body().collect().await.unwrap().to_bytes(), "firstotherthird");
            sleep(50 * MILLISECOND).await;
            Ok(Response::new(Body::empty()))
        });
        let hedge = Hedge::with_clock(fixed(10 * MILLISECOND, 5), TokioClock(Instant::now()));
        let spent = Arc::new(Spent::default());
        let protocol = GrpcRetries::new().buffer(buffer);
        if attempts == 1 {
            let layer = HedgeLayer::new(hedge.budget(Arc::clone(&spent))).protocol(protocol);
            layer.layer(service).oneshot(request()).await.unwrap();
        } else {
            HedgeLayer::new(hedge).protocol(protocol).layer(service).oneshot(request()).await.unwrap();
        }
        assert_eq!(log.lock().unwrap().len().min(2), attempts);
        assert_eq!(spent.asked.load(Ordering::Relaxed), 0, "the budget is not charged");
    }
}

/// The first attempt sends slowly.
///
/// The hedge takes the messages beyond the buffer, so the first attempt cannot continue.
#[tokio::test(start_paused = true)]
async fn attempt_that_lost_the_messages_to_another_does_not_end_the_call() {
    let log = Arc::default();
    let service = logged(&log, |number, request| async move {
        let mut body = request.into_body();
        if number == 1 {
            body.frame().await.unwrap().unwrap();
            sleep(30 * MILLISECOND).await;
        }
        let rest = body.collect().await.map_err(|error| Status::internal(error.to_string()))?.to_bytes();
        sleep(50 * MILLISECOND).await;
        assert_eq!((number, rest), (2, "firstotherthird".into()));
        Ok(Response::new(Body::empty()))
    });
    let hedge = Hedge::with_clock(fixed(10 * MILLISECOND, 3), TokioClock(Instant::now()));
    let client = HedgeLayer::new(hedge).protocol(GrpcRetries::new().buffer(50)).layer(service);
    let began = Instant::now();
    client.oneshot(request()).await.unwrap();
    assert_eq!((log.lock().unwrap().len(), began.elapsed()), (2, 60 * MILLISECOND));
}
