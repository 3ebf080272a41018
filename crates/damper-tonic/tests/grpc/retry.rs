//! Retries of gRPC calls: on tokio's paused time, and over real sockets.

use crate::http_support::lost_before_a_stream;
use crate::support::echo::Message;
use crate::support::echo::echo_client::EchoClient;
use crate::support::echo::echo_server::{Echo, EchoServer};
use crate::support::{LOCALHOST, Upstream, channel, message, messages, serve};
use bytes::Bytes;
use damper::http::{CircuitBreakerLayer, ClassifyResponse, ClientDeadlineLayer, ResponseHead, RetryLayer};
use damper::retry::{Budget, Failure, Hedge, HedgeConfig, Jitter, RetryThrottle, Unlimited};
use damper::time::TokioSleep;
use damper::tonic::{AtTrailers, GrpcRetries, IntoStatus};
use damper::wire::grpc_timeout_in;
use damper::{Backoff, BreakerConfig, CircuitBreaker, CircuitOpen, Deadline, Monotonic, Retry};
use futures_util::future::join_all;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::{HeaderMap, Request, Response};
use http_body_util::{Empty, StreamBody};
use hyper::body::Frame;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use std::error::Error;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, ConnectError, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt};
use tower::{Service, ServiceExt, service_fn};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);

/// Retries with a negligible wait.
fn quick(attempts: u32) -> Retry {
    Retry::new(attempts).backoff(Backoff::constant(Duration::from_millis(1)))
}

fn suite(id: &str) -> Value {
    let mut vectors: Value =
        serde_json::from_str(include_str!("../../../damper-core/tests/core/conformance/vectors/grpc.json")).unwrap();
    vectors["suites"].as_array_mut().unwrap().iter_mut().find(|suite| suite["id"] == id).unwrap().take()
}

fn steps(suite: &Value) -> &[Value] {
    suite["steps"].as_array().unwrap()
}

fn thousandths(tokens: &Value) -> u32 {
    (tokens.as_f64().unwrap() * 1_000.0).round() as u32
}

fn code(name: &Value) -> Code {
    match name.as_str().unwrap() {
        "OK" => Code::Ok,
        "UNAVAILABLE" => Code::Unavailable,
        other => panic!("{other}"),
    }
}

/// A status whose code is all that a client receives.
fn status(code: Code) -> Status {
    Status::new(code, "")
}

fn pushback(code: Code, values: &[&str]) -> Status {
    let mut metadata = MetadataMap::new();
    for value in values {
        metadata.append("grpc-retry-pushback-ms", AsciiMetadataValue::try_from(*value).unwrap());
    }
    Status::with_metadata(code, "", metadata)
}

fn retry_info(code: Code, wait: Duration) -> Status {
    Status::with_error_details(code, "", ErrorDetails::with_retry_info(Some(wait)))
}

// Tests on paused time, without a network.

/// tokio's time as a clock.
#[derive(Clone, Copy)]
struct TokioClock(Instant);

impl damper::Clock for TokioClock {
    fn now(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}

/// Up to four attempts on tokio's time: 100, 200 and 400 ms apart.
fn retry() -> Retry<TokioClock> {
    Retry::with_clock(4, TokioClock(Instant::now()), 1).backoff(Backoff::DEFAULT.jitter(Jitter::None))
}

/// A server that responds to each attempt by its number, starting at 1.
struct Script<F> {
    answer: F,
    /// The time of each attempt, with its headers.
    log: Arc<Mutex<Vec<(Duration, HeaderMap)>>>,
}

impl<F: Fn(usize) -> Result<(), Status> + Clone + Send + 'static> Script<F> {
    fn new(answer: F) -> Self {
        Self { answer, log: Arc::default() }
    }

    fn service(
        &self,
    ) -> impl Service<Request<Body>, Response = Response<Body>, Error = Status, Future: Send> + Clone + use<F> {
        let (answer, log, began) = (self.answer.clone(), Arc::clone(&self.log), Instant::now());
        service_fn(move |request: Request<Body>| {
            let mut log = log.lock().unwrap();
            log.push((began.elapsed(), request.into_parts().0.headers));
            let answer = answer(log.len());
            async move { Ok(answer.map_or_else(Status::into_http, |()| Response::new(Body::empty()))) }
        })
    }

    /// Makes one call, and returns the code of its response.
    async fn call<B: Budget + Clone>(
        &self,
        retry: Retry<TokioClock, B>,
        protocol: GrpcRetries,
    ) -> Result<Code, Status> {
        let client = RetryLayer::new(retry).protocol(protocol).layer(self.service());
        let response = client.oneshot(Request::post("/echo").body(Body::empty()).unwrap()).await?;
        Ok(Status::from_header_map(response.headers()).map_or(Code::Ok, |status| status.code()))
    }

    fn millis(&self) -> Vec<u128> {
        self.log.lock().unwrap().iter().map(|(at, _)| at.as_millis()).collect()
    }

    fn attempts(&self) -> usize {
        self.millis().len()
    }
}

#[tokio::test(start_paused = true)]
async fn pushback_is_honoured_as_in_the_vectors() {
    let suite = suite("pushback");
    for step in steps(&suite) {
        let values: Vec<String> = serde_json::from_value(step["values"].clone()).unwrap();
        let script = Script::new(move |attempt| {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            match attempt {
                // After the second wait of the backoff, so that a restart is visible.
                2 => Err(pushback(Code::Unavailable, &values)),
                1 | 3 => Err(status(Code::Unavailable)),
                _ => Ok(()),
            }
        });
        let code = script.call(retry(), GrpcRetries::new()).await.unwrap();
        let expected = match step["delay_ms"].as_u64() {
            Some(delay) => vec![0, 100, 100 + u128::from(delay), 200 + u128::from(delay)],
            None if step["retry"] == true => vec![0, 100, 300, 700],
            None => vec![0, 100],
        };
        assert_eq!(script.millis(), expected, "{step}");
        assert_eq!(code == Code::Ok, step["retry"] == true, "{step}");
    }
}

#[tokio::test(start_paused = true)]
async fn pushback_out_of_range_ends_the_call() {
    for value in ["-2147483648", "2147483648", "1.5", " 1", ""] {
        let script = Script::new(move |_| Err(pushback(Code::Unavailable, &[value])));
        assert_eq!(script.call(retry(), GrpcRetries::new()).await.unwrap(), Code::Unavailable);
        assert_eq!(script.attempts(), 1, "{value:?}");
    }
}

/// A pushback states when to retry, not whether a failure may be repeated.
#[tokio::test(start_paused = true)]
async fn pushback_makes_no_other_code_retryable() {
    let script = Script::new(|_| Err(pushback(Code::Internal, &["10"])));
    assert_eq!(script.call(retry(), GrpcRetries::new()).await.unwrap(), Code::Internal);
    assert_eq!(script.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn declined_retry_counts_as_a_failure_for_the_throttle() {
    for code in [Code::Unavailable, Code::Internal] {
        let throttle = Arc::new(RetryThrottle::new(10, 0.1).unwrap());
        let script = Script::new(move |_| Err(pushback(code, &["-1"])));
        script.call(retry().budget(Arc::clone(&throttle)), GrpcRetries::new()).await.unwrap();
        assert_eq!(throttle.thousandths(), 9_000, "{code:?}");
    }
    // A failure caused by the call itself says nothing about the server.
    let throttle = Arc::new(RetryThrottle::new(10, 0.1).unwrap());
    let script = Script::new(|_| Err(status(Code::Internal)));
    script.call(retry().budget(Arc::clone(&throttle)), GrpcRetries::new()).await.unwrap();
    assert_eq!(throttle.thousandths(), 10_000);
}

#[tokio::test(start_paused = true)]
async fn retry_info_is_a_hint_and_a_pushback_outranks_it() {
    let wait = Duration::from_secs(2);
    let script =
        Script::new(move |attempt| if attempt == 1 { Err(retry_info(Code::Unavailable, wait)) } else { Ok(()) });
    script.call(retry(), GrpcRetries::new()).await.unwrap();
    // With up to a tenth of it as jitter.
    assert!((2_000..=2_200).contains(&script.millis()[1]), "{:?}", script.millis());

    let script = Script::new(move |attempt| match attempt {
        1 => {
            let mut status = retry_info(Code::Unavailable, wait);
            status.metadata_mut().insert("grpc-retry-pushback-ms", AsciiMetadataValue::from_static("50"));
            Err(status)
        }
        _ => Ok(()),
    });
    script.call(retry(), GrpcRetries::new()).await.unwrap();
    assert_eq!(script.millis(), [0, 50]);
}

#[tokio::test(start_paused = true)]
async fn only_the_codes_that_were_named_are_retried() {
    for number in 1..=16 {
        let code = Code::from_i32(number);
        for (protocol, codes) in [
            (GrpcRetries::new(), &[Code::Unavailable][..]),
            (GrpcRetries::default(), &[Code::Unavailable]),
            (GrpcRetries::on([Code::Aborted, Code::DataLoss]), &[Code::Aborted, Code::DataLoss]),
            (GrpcRetries::on([]), &[]),
        ] {
            let script = Script::new(move |_| Err(status(code)));
            assert_eq!(script.call(retry(), protocol).await.unwrap(), code, "the last response is returned");
            assert_eq!(script.attempts(), if codes.contains(&code) { 4 } else { 1 }, "{code:?}, {protocol:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn retries_of_exhausted_resources_wait_longer() {
    let script = Script::new(|attempt| if attempt < 3 { Err(status(Code::ResourceExhausted)) } else { Ok(()) });
    let protocol = GrpcRetries::on([Code::Unavailable, Code::ResourceExhausted]);
    script.call(retry(), protocol).await.unwrap();
    assert_eq!(script.millis(), [0, 1_000, 3_000]);
}

/// Without jitter of the backoff, the wait is the hint and up to a base more.
#[tokio::test(start_paused = true)]
async fn refusals_of_a_limiter_are_retried_whatever_the_codes_are() {
    let refusal = |values: &[&str]| {
        let mut status = retry_info(Code::ResourceExhausted, SHORT);
        for value in values {
            status.metadata_mut().append("grpc-retry-pushback-ms", AsciiMetadataValue::try_from(*value).unwrap());
        }
        status
    };
    for (values, least) in [(&[][..], 300), (&["300"], 300), (&["400"], 400), (&["0"], 300)] {
        let script = Script::new(move |attempt| if attempt == 1 { Err(refusal(values)) } else { Ok(()) });
        assert_eq!(script.call(retry(), GrpcRetries::new()).await.unwrap(), Code::Ok);
        assert!((least..=least + 101).contains(&script.millis()[1]), "{values:?}: {:?}", script.millis());
    }
    for values in [&["-1"][..], &["soon"], &["300", "300"]] {
        let script = Script::new(move |_| Err(refusal(values)));
        assert_eq!(script.call(retry(), GrpcRetries::new()).await.unwrap(), Code::ResourceExhausted);
        assert_eq!(script.attempts(), 1, "{values:?}");
    }
}

/// A proxy responds without a gRPC status.
#[test]
fn http_status_is_mapped_to_its_grpc_code() {
    for (status, expected) in [
        (200, None),
        (429, Some(Failure::TRANSIENT)),
        (502, Some(Failure::TRANSIENT)),
        (503, Some(Failure::TRANSIENT)),
        (504, Some(Failure::TRANSIENT)),
        (401, Some(Failure::FATAL)),
        (404, Some(Failure::FATAL)),
        (500, Some(Failure::FATAL)),
    ] {
        let response = Response::builder().status(status).body(()).unwrap();
        assert_eq!(GrpcRetries::new().judge(Ok(&ResponseHead::of(&response))), expected, "{status}");
    }
    let failure =
        ClassifyResponse::<Status, Option<Failure>>::classify(&GrpcRetries::new(), Err(&status(Code::Unavailable)));
    assert_eq!(failure, Some(Failure::TRANSIENT));
}

#[tokio::test(start_paused = true)]
async fn refusals_of_damper_are_never_retried() {
    let breaker = CircuitBreaker::new(BreakerConfig::DEFAULT);
    breaker.force_open();
    let open: CircuitOpen = breaker.try_acquire().unwrap_err();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let refusing = service_fn(move |_: Request<Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move { Err::<Response<Body>, _>(open.into_status()) }
    });
    let client = RetryLayer::new(retry()).protocol(GrpcRetries::new()).layer(refusing);
    let status = client.oneshot(Request::new(Body::empty())).await.unwrap_err();
    assert!(CircuitOpen::find_in(&status).is_some());
    assert_eq!((status.code(), calls.load(Ordering::Relaxed)), (Code::Unavailable, 1));
}

#[tokio::test(start_paused = true)]
async fn attempts_send_their_number_and_the_time_left() {
    let script = Script::new(|attempt| if attempt < 4 { Err(status(Code::Unavailable)) } else { Ok(()) });
    let client = RetryLayer::new(retry()).protocol(GrpcRetries::new()).layer(script.service());
    let request = Request::post("/").header("grpc-timeout", "1S").header("grpc-previous-rpc-attempts", "7");
    client.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let log = script.log.lock().unwrap();
    let previous: Vec<_> =
        log.iter().map(|(_, headers)| headers["grpc-previous-rpc-attempts"].to_str().unwrap()).collect();
    assert_eq!(previous, ["7", "8", "9", "10"], "the count continues from the caller's");
    let left: Vec<_> = log.iter().map(|(_, headers)| grpc_timeout_in(headers).unwrap().as_millis()).collect();
    assert_eq!(left, [1_000, 900, 700, 300]);
}

#[tokio::test]
async fn each_attempt_sends_the_remaining_time_minus_the_margin() {
    let script = Script::new(|attempt| if attempt < 2 { Err(status(Code::Unavailable)) } else { Ok(()) });
    let deadlines = ClientDeadlineLayer::new(2 * LONG).margin(LONG);
    let client = deadlines.layer(RetryLayer::new(quick(2)).protocol(GrpcRetries::new()).layer(script.service()));
    let request = Request::post("/").header("content-type", "application/grpc");
    client.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let log = script.log.lock().unwrap();
    assert_eq!(log.len(), 2);
    let [first, second] = [0, 1].map(|attempt| grpc_timeout_in(&log[attempt].1).unwrap());
    assert!(second < first && first < LONG, "{first:?}, {second:?}");
}

/// Makes a call with up to two hedges, and returns its last code and the number of attempts.
async fn hedged(answers: &'static [fn() -> Status]) -> (Code, usize) {
    let script = Script::new(|attempt| answers.get(attempt - 1).map_or(Ok(()), |answer| Err(answer())));
    let config = HedgeConfig::builder().fixed_delay(SHORT).max_attempts(3).build().unwrap();
    let hedge =
        Hedge::with_clock(config, TokioClock(Instant::now())).when(|result: &Result<Response<Body>, Status>| {
            let head = result.as_ref().map(ResponseHead::of);
            GrpcRetries::new().judge(head.as_ref().map_err(|error| *error as &dyn Error))
        });
    let service = script.service();
    let response = hedge.run(|_| service.clone().oneshot(Request::new(Body::empty()))).await.unwrap();
    let code = Status::from_header_map(response.headers()).map_or(Code::Ok, |status| status.code());
    (code, script.attempts())
}

#[tokio::test(start_paused = true)]
async fn hedges_continue_after_codes_that_are_not_fatal_and_stop_at_a_negative_pushback() {
    let unavailable: fn() -> Status = || status(Code::Unavailable);
    let declined: fn() -> Status = || pushback(Code::Unavailable, &["-1"]);
    let fatal: fn() -> Status = || status(Code::Internal);
    assert_eq!(hedged(Vec::leak(vec![unavailable, unavailable])).await, (Code::Ok, 3));
    assert_eq!(hedged(Vec::leak(vec![unavailable, declined])).await, (Code::Unavailable, 2));
    assert_eq!(hedged(Vec::leak(vec![fatal])).await, (Code::Internal, 1));
}

/// The step of the suite `deadline_propagation` about a retry.
#[tokio::test(start_paused = true)]
async fn no_retry_begins_that_the_deadline_does_not_leave() {
    let suite = suite("deadline_propagation");
    let step = steps(&suite).iter().find(|step| step.get("retry_delay_ms").is_some()).unwrap();
    let wait = Duration::from_millis(step["retry_delay_ms"].as_u64().unwrap());
    let timeout = step["incoming"].as_str().unwrap();
    let script = Script::new(|_| Err(status(Code::Unavailable)));
    let retry = retry().backoff(Backoff::constant(wait).jitter(Jitter::None));
    let client = RetryLayer::new(retry).protocol(GrpcRetries::new()).layer(script.service());
    let request = Request::post("/").header("grpc-timeout", timeout).body(Body::empty()).unwrap();
    let response = client.oneshot(request).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "14");
    assert_eq!(script.millis(), [0]);
}

#[tokio::test(start_paused = true)]
async fn call_ends_with_deadline_exceeded_at_the_earliest_of_its_deadlines() {
    let hanging = service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Status>>());
    let clock = TokioClock(Instant::now());
    for (timeout, extension, own) in [("2S", 3, 9), ("3S", 2, 9), ("9S", 9, 2)] {
        let began = Instant::now();
        let retry = retry().deadline(Deadline::with_clock(Duration::from_secs(own), clock));
        let client = RetryLayer::new(retry).protocol(GrpcRetries::new()).layer(hanging);
        let deadline = Deadline::with_clock(Duration::from_secs(extension), clock);
        let request = Request::post("/").header("grpc-timeout", timeout).extension(deadline);
        let status = client.oneshot(request.body(Body::empty()).unwrap()).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded);
        assert_eq!(status.message(), "gave up after 1 attempt in 2 s: no time left");
        assert_eq!(began.elapsed().as_secs(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn throttle_ends_retries_as_those_of_grpc_go() {
    let suite = suite("throttle_end_to_end_go");
    let config = &suite["config"];
    let most = config["max_tokens"].as_u64().unwrap() as u32;
    let throttle = Arc::new(RetryThrottle::new(most, config["token_ratio"].as_f64().unwrap()).unwrap());
    let good: Vec<usize> = serde_json::from_value(config["server_ok_at_attempt_index"].clone()).unwrap();
    let script =
        Script::new(move |attempt| if good.contains(&(attempt - 1)) { Ok(()) } else { Err(status(Code::Unavailable)) });
    for step in steps(&suite) {
        let retry = retry().budget(Arc::clone(&throttle));
        let result = script.call(retry, GrpcRetries::on([Code::Unavailable])).await.unwrap();
        assert_eq!(result, code(&step["result"]), "{step}");
        assert_eq!(script.attempts() as u64 - 1, step["last_attempt_index"].as_u64().unwrap(), "{step}");
        assert_eq!(throttle.thousandths(), thousandths(&step["tokens_after"]), "{step}");
    }
}

#[test]
fn throttle_counts_as_that_of_grpc_core() {
    let suite = suite("throttle_basic");
    let config = &suite["config"];
    let most = config["max_tokens"].as_u64().unwrap() as u32;
    let throttle = RetryThrottle::new(most, config["token_ratio"].as_f64().unwrap()).unwrap();
    for step in steps(&suite) {
        match step["op"].as_str().unwrap() {
            "failure" => throttle.failed(),
            _ => throttle.succeeded(),
        }
        assert_eq!(throttle.thousandths(), thousandths(&step["tokens_after"]), "{step}");
        if let Some(allowed) = step["retry_allowed"].as_bool() {
            assert_eq!(throttle.try_withdraw(), allowed, "{step}");
        }
    }
}

#[test]
fn backoff_stays_within_the_bounds_of_grpc() {
    let suite = suite("backoff_bounds");
    let config = &suite["config"];
    let millis = |value: &Value| Duration::from_millis(value.as_u64().unwrap());
    let backoff = Backoff::exponential(millis(&config["initial_ms"]))
        .factor(config["multiplier"].as_f64().unwrap())
        .unwrap()
        .max_delay(millis(&config["max_ms"]))
        .jitter(Jitter::PROPORTIONAL);
    for step in steps(&suite) {
        let retry = step["retry"].as_u64().unwrap() as usize;
        let range = millis(&step["range_ms"][0])..=millis(&step["range_ms"][1]);
        for seed in 0..500 {
            let delay = backoff.delays(seed).nth(retry - 1).unwrap();
            assert!(range.contains(&delay), "{delay:?}: {step}");
        }
    }
}

// Tests over sockets.

/// The requests that reached a server, one for each attempt.
#[derive(Debug, PartialEq)]
struct Seen {
    previous_attempts: Option<u32>,
    messages: Vec<String>,
}

type Answer<T> = Result<tonic::Response<T>, Status>;

type Attempt = dyn Fn(usize) -> Result<(), Status> + Send + Sync;

/// A tonic service that fails attempts by their number, before it responds.
///
/// Of a stream it has read one message by then.
#[derive(Clone)]
struct Scripted {
    script: Arc<Attempt>,
    seen: Arc<Mutex<Vec<Seen>>>,
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
    fn new(script: impl Fn(usize) -> Result<(), Status> + Send + Sync + 'static) -> Self {
        Self { script: Arc::new(script), seen: Arc::default(), in_flight: Arc::default() }
    }

    /// Fails all attempts but this one.
    fn good_at(attempt: usize) -> Self {
        Self::new(move |number| if number == attempt { Ok(()) } else { Err(status(Code::Unavailable)) })
    }

    fn serve(&self) -> SocketAddr {
        serve(Server::builder().add_service(EchoServer::new(self.clone())))
    }

    fn begin(&self, metadata: &MetadataMap, first: Vec<String>) -> Result<InFlight, Status> {
        let previous = metadata.get("grpc-previous-rpc-attempts");
        let previous_attempts = previous.map(|value| value.to_str().unwrap().parse().unwrap());
        let mut seen = self.seen.lock().unwrap();
        seen.push(Seen { previous_attempts, messages: first });
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        let in_flight = InFlight(Arc::clone(&self.in_flight));
        (self.script)(seen.len()).map(|()| in_flight)
    }

    fn attempts(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    async fn until_none_is_in_flight(&self) {
        while self.in_flight.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn first(messages: &mut Streaming<Message>) -> Result<Vec<String>, Status> {
    Ok(messages.message().await?.into_iter().map(|message| message.text).collect())
}

#[tonic::async_trait]
impl Echo for Scripted {
    type ServerStreamingStream = BoxStream<'static, Result<Message, Status>>;
    type BidirectionalStream = BoxStream<'static, Result<Message, Status>>;

    async fn unary(&self, request: tonic::Request<Message>) -> Answer<Message> {
        let _in_flight = self.begin(request.metadata(), vec![request.get_ref().text.clone()])?;
        if request.get_ref().text == "hang" {
            pending::<()>().await;
        }
        Ok(tonic::Response::new(request.into_inner()))
    }

    async fn client_streaming(&self, request: tonic::Request<Streaming<Message>>) -> Answer<Message> {
        let (metadata, _, mut messages) = request.into_parts();
        let _in_flight = self.begin(&metadata, first(&mut messages).await?)?;
        let mut all = self.seen.lock().unwrap().last().unwrap().messages.concat();
        while let Some(message) = messages.message().await? {
            all += &message.text;
        }
        Ok(tonic::Response::new(message(&all)))
    }

    /// Sends three messages, and then `UNAVAILABLE` or nothing.
    async fn server_streaming(&self, request: tonic::Request<Message>) -> Answer<Self::ServerStreamingStream> {
        let in_flight = self.begin(request.metadata(), vec![request.get_ref().text.clone()])?;
        let end = if request.get_ref().text == "hang" {
            stream::pending().boxed()
        } else {
            stream::iter([Err(status(Code::Unavailable))]).boxed()
        };
        let messages = stream::iter(vec![Ok(request.into_inner()); 3]).chain(end).map(move |message| {
            let _in_flight = &in_flight;
            message
        });
        Ok(tonic::Response::new(messages.boxed()))
    }

    /// Sends back every message, starting with the first.
    async fn bidirectional(&self, request: tonic::Request<Streaming<Message>>) -> Answer<Self::BidirectionalStream> {
        let (metadata, _, mut messages) = request.into_parts();
        let first = first(&mut messages).await?;
        let in_flight = self.begin(&metadata, first.clone())?;
        let messages = messages.map(move |message| {
            let _in_flight = &in_flight;
            message
        });
        Ok(tonic::Response::new(stream::iter(first).map(|text| Ok(message(&text))).chain(messages).boxed()))
    }
}

/// Makes up to this many attempts.
fn layer(attempts: u32) -> RetryLayer<Monotonic, Unlimited, GrpcRetries, TokioSleep> {
    RetryLayer::new(quick(attempts)).protocol(GrpcRetries::new())
}

fn seen(previous_attempts: Option<u32>, first: &str) -> Seen {
    Seen { previous_attempts, messages: vec![first.to_owned()] }
}

#[tokio::test]
async fn every_kind_of_call_is_retried_with_its_messages() {
    let attempts = |first| [seen(None, first), seen(Some(1), first), seen(Some(2), first)];

    let server = Scripted::good_at(3);
    let mut client = EchoClient::new(layer(4).layer(channel(server.serve())));
    assert_eq!(client.unary(message("hello")).await.unwrap().into_inner().text, "hello");
    assert_eq!(*server.seen.lock().unwrap(), attempts("hello"));

    let server = Scripted::good_at(3);
    let mut client = EchoClient::new(layer(4).layer(channel(server.serve())));
    assert_eq!(client.client_streaming(messages(&["a", "b", "c"])).await.unwrap().into_inner().text, "abc");
    assert_eq!(*server.seen.lock().unwrap(), attempts("a"));

    let server = Scripted::good_at(3);
    let mut client = EchoClient::new(layer(4).layer(channel(server.serve())));
    let mut answers = client.server_streaming(message("hello")).await.unwrap().into_inner();
    assert_eq!(first(&mut answers).await.unwrap(), ["hello"]);
    assert_eq!(*server.seen.lock().unwrap(), attempts("hello"));

    let server = Scripted::good_at(3);
    let mut client = EchoClient::new(layer(4).layer(channel(server.serve())));
    let answers = client.bidirectional(messages(&["a", "b", "c"])).await.unwrap().into_inner();
    let texts: Vec<_> = answers.map(|answer| answer.unwrap().text).collect().await;
    assert_eq!(texts, ["a", "b", "c"]);
    assert_eq!(*server.seen.lock().unwrap(), attempts("a"));
}

/// The server fails before the client has sent all of its messages.
#[tokio::test]
async fn stream_continues_in_the_next_attempt() {
    let server = Scripted::good_at(2);
    let mut client = EchoClient::new(layer(4).layer(channel(server.serve())));
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let script = server.clone();
    tokio::spawn(async move {
        sender.send(message("a")).unwrap();
        while script.attempts() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for text in ["b", "c"] {
            sender.send(message(text)).unwrap();
        }
    });
    let answer = client.client_streaming(stream::poll_fn(move |context| receiver.poll_recv(context))).await;
    assert_eq!(answer.unwrap().into_inner().text, "abc");
    assert_eq!(server.attempts(), 2);
}

#[tokio::test]
async fn call_that_has_sent_more_than_the_buffer_is_not_retried() {
    let long = "x".repeat(200);
    for (buffer, attempts) in [(100, 1), (1_000, 3)] {
        let server = Scripted::good_at(0);
        let layer = RetryLayer::new(quick(3)).protocol(GrpcRetries::new().buffer(buffer));
        let mut client = EchoClient::new(layer.layer(channel(server.serve())));
        let status = client.unary(message(&long)).await.unwrap_err();
        assert_eq!((status.code(), server.attempts()), (Code::Unavailable, attempts));

        let server = Scripted::good_at(0);
        let mut client = EchoClient::new(layer.layer(channel(server.serve())));
        let status = client.client_streaming(messages(&[&long])).await.unwrap_err();
        assert_eq!((status.code(), server.attempts()), (Code::Unavailable, attempts));
    }
    let spent = Arc::new(Spent::default());
    let layer = RetryLayer::new(quick(3).budget(Arc::clone(&spent))).protocol(GrpcRetries::new().buffer(100));
    let mut client = EchoClient::new(layer.layer(channel(Scripted::good_at(0).serve())));
    client.unary(message(&long)).await.unwrap_err();
    assert_eq!(spent.asked.load(Ordering::Relaxed), 0, "the budget is not charged");
}

#[tokio::test]
async fn response_that_has_begun_is_never_retried() {
    let server = Scripted::good_at(1);
    let mut client = EchoClient::new(layer(4).layer(channel(server.serve())));
    let mut answers = client.server_streaming(message("hello")).await.unwrap().into_inner();
    for _ in 0..3 {
        assert_eq!(first(&mut answers).await.unwrap(), ["hello"]);
    }
    assert_eq!(answers.message().await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(server.attempts(), 1);
}

#[tokio::test]
async fn last_status_reaches_the_caller_with_its_metadata() {
    let server = Scripted::new(|attempt| {
        let mut status = Status::unavailable(format!("attempt {attempt}"));
        status.metadata_mut().insert("x-server", AsciiMetadataValue::from_static("one"));
        Err(status)
    });
    let mut client = EchoClient::new(layer(3).layer(channel(server.serve())));
    let status = client.unary(message("")).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "attempt 3"));
    assert_eq!(status.metadata().get("x-server").unwrap(), "one");
}

#[tokio::test]
async fn timeout_of_a_request_ends_all_attempts() {
    let server = Scripted::good_at(2);
    let mut client = EchoClient::new(layer(4).layer(channel(server.serve())));
    let mut request = tonic::Request::new(message("hang"));
    request.set_timeout(SHORT);
    let began = Instant::now();
    let status = client.unary(request).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    assert!(began.elapsed() >= SHORT && began.elapsed() < LONG);
    assert_eq!(server.attempts(), 2);
    server.until_none_is_in_flight().await;
}

#[tokio::test]
async fn dropped_call_frees_its_streams_at_the_server() {
    let server = Scripted::good_at(2);
    let mut client = EchoClient::new(layer(4).layer(channel(server.serve())));
    let mut caller = client.clone();
    let call = tokio::spawn(async move { caller.unary(message("hang")).await });
    while server.attempts() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    call.abort();
    server.until_none_is_in_flight().await;

    server.seen.lock().unwrap().clear();
    let mut answers = client.server_streaming(message("hang")).await.unwrap().into_inner();
    assert_eq!(first(&mut answers).await.unwrap(), ["hang"]);
    assert_eq!((server.attempts(), server.in_flight.load(Ordering::SeqCst)), (2, 1));
    drop(answers);
    server.until_none_is_in_flight().await;
}

#[tokio::test]
async fn thousand_callers_stay_within_the_throttle() {
    let upstream = Upstream::default();
    upstream.answer(Code::Unavailable);
    let server = serve(Server::builder().add_service(upstream.echo()));
    let throttle = RetryThrottle::new(10, 0.1).unwrap();
    let layer = RetryLayer::new(quick(4).budget(Arc::new(throttle))).protocol(GrpcRetries::new());
    let client = EchoClient::new(layer.layer(channel(server)));
    let calls = (0..1_000).map(|_| {
        let mut client = client.clone();
        async move { client.unary(message("")).await.unwrap_err().code() }
    });
    let codes = join_all(calls).await;
    assert!(codes.iter().all(|code| *code == Code::Unavailable));
    // After 4 failures more than half of the tokens are left, and not after the fifth.
    assert!((1_001..=1_004).contains(&upstream.hits()), "{}", upstream.hits());
}

#[tokio::test]
async fn breaker_outside_counts_calls_and_not_attempts() {
    let server = Scripted::good_at(0);
    let breaker = BreakerConfig::builder().failure_threshold(2).build().unwrap();
    let breaker = CircuitBreakerLayer::single(breaker).completion(AtTrailers::new());
    let mut client = EchoClient::new(breaker.layer(layer(3).layer(channel(server.serve()))));
    for attempts in [3, 6] {
        client.unary(message("")).await.unwrap_err();
        assert_eq!(server.attempts(), attempts);
    }
    let status = client.unary(message("")).await.unwrap_err();
    assert!(CircuitOpen::find_in(&status).is_some());
    assert_eq!(server.attempts(), 6);
}

/// Serves on a separate runtime, which closes all connections when it is dropped.
fn serve_apart(service: Scripted, listener: std::net::TcpListener) -> Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.spawn(async move {
        listener.set_nonblocking(true).unwrap();
        let incoming = TcpIncoming::from(TcpListener::from_std(listener).unwrap());
        Server::builder().add_service(EchoServer::new(service)).serve_with_incoming(incoming).await
    });
    runtime
}

#[tokio::test]
async fn call_survives_a_server_that_is_killed_between_attempts() {
    let listener = std::net::TcpListener::bind((LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (old, new) = (Scripted::good_at(0), Scripted::good_at(1));
    let runtime = serve_apart(old.clone(), listener);

    let retry = Retry::new(100).backoff(Backoff::constant(Duration::from_millis(20)).jitter(Jitter::None));
    let retries = RetryLayer::new(retry).protocol(GrpcRetries::new());
    let mut client = EchoClient::new(retries.layer(channel(address)));
    let call = tokio::spawn(async move { client.client_streaming(messages(&["a", "b"])).await });
    while old.attempts() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    runtime.shutdown_background();
    // The server now refuses connections.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let runtime = serve_apart(new.clone(), std::net::TcpListener::bind(address).unwrap());
    assert_eq!(call.await.unwrap().unwrap().into_inner().text, "ab");
    assert_eq!(new.attempts(), 1);
    runtime.shutdown_background();
}

// Tests with raw frames of HTTP/2.

/// A server's reply to a request.
#[derive(Clone, Copy)]
enum Reply {
    /// Responds with `OK`.
    Ok,
    /// Resets the stream with this code.
    Reset(u8),
    /// Sends GOAWAY with this stream as the last, and closes the connection.
    GoAway(u8),
    /// Closes the connection.
    Close,
}

const REFUSED_STREAM: u8 = 7;
const CANCEL: u8 = 8;

impl Reply {
    fn frame(self, stream: u8) -> Vec<u8> {
        match self {
            // `:status: 200` and `grpc-status: 0`, ending the headers and the stream.
            Self::Ok => [&[0, 0, 16, 1, 5, 0, 0, 0, stream, 0x88, 0, 11], &b"grpc-status"[..], &[1, b'0']].concat(),
            Self::Reset(code) => vec![0, 0, 4, 3, 0, 0, 0, 0, stream, 0, 0, 0, code],
            Self::GoAway(last) => vec![0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, last, 0, 0, 0, 0],
            Self::Close => Vec::new(),
        }
    }
}

/// A server that replies to each request by its number, and counts them.
async fn raw(replies: &'static [Reply]) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                socket.read_exact(&mut [0; 24]).await?; // the client's preface
                socket.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?; // settings
                loop {
                    let mut head = [0; 9];
                    socket.read_exact(&mut head).await?;
                    let size = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                    socket.read_exact(&mut vec![0; size as usize]).await?;
                    // A frame of headers.
                    if head[3] != 1 {
                        continue;
                    }
                    let reply = replies[counted.fetch_add(1, Ordering::SeqCst)];
                    socket.write_all(&reply.frame(head[8])).await?;
                    if let Reply::GoAway(_) | Reply::Close = reply {
                        return Ok::<_, io::Error>(());
                    }
                }
            });
        }
    });
    (address, requests)
}

/// A budget that allows no retry, and counts the failures.
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

/// Makes a call, and returns whether it succeeded, and after how many requests.
async fn call_raw<B: Budget + Clone>(
    retry: Retry<Monotonic, B>,
    protocol: GrpcRetries,
    replies: &'static [Reply],
) -> (bool, usize) {
    let (server, requests) = raw(replies).await;
    let client = RetryLayer::new(retry).protocol(protocol).layer(channel(server));
    let request = Request::post(format!("http://{server}/echo")).body(Body::empty()).unwrap();
    let result = client.oneshot(request).await;
    (result.is_ok(), requests.load(Ordering::SeqCst))
}

#[tokio::test]
async fn refused_stream_is_retried_once_without_the_budget_whatever_the_codes() {
    let firsts = [&[Reply::Reset(REFUSED_STREAM), Reply::Ok], &[Reply::GoAway(0), Reply::Ok]];
    for (first, attempts) in firsts.into_iter().flat_map(|first| [(first, 1), (first, 3)]) {
        let spent = Arc::new(Spent::default());
        let result = call_raw(quick(attempts).budget(Arc::clone(&spent)), GrpcRetries::on([]), first).await;
        assert_eq!(result, (true, 2));
        assert_eq!(spent.asked.load(Ordering::Relaxed), 0);
    }
    let spent = Arc::new(Spent::default());
    let twice = &[Reply::Reset(REFUSED_STREAM), Reply::Reset(REFUSED_STREAM), Reply::Ok];
    assert_eq!(call_raw(quick(3).budget(Arc::clone(&spent)), GrpcRetries::new(), twice).await, (false, 2));
    assert_eq!(spent.asked.load(Ordering::Relaxed), 1, "only the second retry is paid for");
}

#[tokio::test]
async fn request_that_may_have_been_processed_is_retried_only_by_its_code() {
    for lost in [&[Reply::GoAway(1), Reply::Ok], &[Reply::Close, Reply::Ok]] {
        assert_eq!(call_raw(quick(3), GrpcRetries::on([]), lost).await, (false, 1));
        assert_eq!(call_raw(quick(3), GrpcRetries::new(), lost).await, (true, 2), "gRPC's UNAVAILABLE");
    }
    let cancelled = &[Reply::Reset(CANCEL), Reply::Ok];
    assert_eq!(call_raw(quick(3), GrpcRetries::new(), cancelled).await, (false, 1));
    assert_eq!(call_raw(quick(3), GrpcRetries::on([Code::Cancelled]), cancelled).await, (true, 2));
}

/// A stream that the server resets has the code that gRPC gives the reason, and no other.
#[tokio::test]
async fn reset_stream_is_retried_by_the_code_of_its_reason() {
    let reasons = [
        (2, Code::Internal),           // INTERNAL_ERROR
        (5, Code::Unknown),            // STREAM_CLOSED
        (11, Code::ResourceExhausted), // ENHANCE_YOUR_CALM
        (12, Code::PermissionDenied),  // INADEQUATE_SECURITY
    ];
    for (reason, code) in reasons {
        let replies: &'static [Reply] = Box::leak(Box::new([Reply::Reset(reason), Reply::Ok]));
        for (_, other) in reasons.into_iter().chain([(7, Code::Unavailable), (8, Code::Cancelled)]) {
            let expected = if other == code { (true, 2) } else { (false, 1) };
            assert_eq!(call_raw(quick(3), GrpcRetries::on([other]), replies).await, expected, "{code:?} on {other:?}");
        }
    }
}

/// The same over HTTP with a POST that is not marked as idempotent.
#[tokio::test]
async fn post_that_http2_refused_is_retried() {
    for (replies, expected) in [
        (&[Reply::Reset(REFUSED_STREAM), Reply::Ok], (true, 2)),
        (&[Reply::GoAway(0), Reply::Ok], (true, 2)),
        (&[Reply::GoAway(1), Reply::Ok], (false, 1)),
    ] {
        let (server, requests) = raw(replies).await;
        let client = legacy::Client::builder(TokioExecutor::new()).http2_only(true).build_http::<Empty<Bytes>>();
        let client = RetryLayer::new(quick(3)).layer(client);
        let request = Request::post(format!("http://{server}/")).body(Empty::new()).unwrap();
        let result = client.oneshot(request).await;
        assert_eq!((result.is_ok(), requests.load(Ordering::SeqCst)), expected);
    }
}

#[tokio::test]
async fn unreachable_server_is_unavailable() {
    let address = std::net::TcpListener::bind((LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let spent = Arc::new(Spent::default());
    let layer = RetryLayer::new(quick(4).budget(Arc::clone(&spent))).protocol(GrpcRetries::on([]));
    let status = EchoClient::new(layer.layer(channel(address))).unary(message("")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(spent.asked.load(Ordering::Relaxed), 1, "after one free retry");
}

/// Without a connection nothing was sent, but the next attempt may find the server just as far away.
#[tokio::test]
async fn request_that_was_given_back_is_unseen_and_one_without_a_connection_is_only_unprocessed() {
    let (stream, _server) = tokio::io::duplex(1024);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    drop(connection);
    let given_back = sender.send_request(Request::new(Empty::<Bytes>::new())).await.unwrap_err();
    let retries = GrpcRetries::new();
    assert_eq!(retries.judge(Err(&given_back)), Some(Failure::TRANSIENT.transparent()));
    let unreachable = ConnectError(Box::new(given_back));
    assert_eq!(retries.judge(Err(&unreachable)), Some(Failure::TRANSIENT.unprocessed()));
}

#[tokio::test]
async fn call_whose_own_messages_fail_is_not_retried() {
    let (stream, _server) = tokio::io::duplex(1024);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let messages = stream::iter([Err::<Frame<Bytes>, _>(io::Error::other("there is no message"))]);
    let error = sender.send_request(Request::post("/").body(StreamBody::new(messages)).unwrap()).await.unwrap_err();
    assert!(error.is_user(), "{error:?}");
    assert_eq!(GrpcRetries::new().judge(Err(&error)), Some(Failure::FATAL));
    connection.abort();
}

/// hyper calls it an error of its user that a connection is lost while a call waits for a stream.
#[tokio::test]
async fn call_whose_connection_is_lost_before_it_has_a_stream_is_retried() {
    let error = lost_before_a_stream().await;
    assert!(error.is_user(), "{error:?}");
    assert_eq!(GrpcRetries::new().judge(Err(&error)), Some(Failure::TRANSIENT), "{error}");
}

/// Attempts that no server can have seen are not counted as previous attempts.
#[tokio::test(start_paused = true)]
async fn unprocessed_attempts_are_no_previous_attempts() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let logged = Arc::clone(&log);
    let service = service_fn(move |request: Request<Body>| {
        let previous =
            request.headers().get("grpc-previous-rpc-attempts").map(|value| value.to_str().unwrap().to_owned());
        let mut log = logged.lock().unwrap();
        log.push(previous);
        let attempt = log.len();
        async move {
            match attempt {
                1 | 3 => Err(tonic::ConnectError("refused".into())),
                2 => Ok(status(Code::Unavailable).into_http::<Body>()),
                _ => Ok(Response::new(Body::empty())),
            }
        }
    });
    let client = RetryLayer::new(retry()).protocol(GrpcRetries::new()).layer(service);
    client.oneshot(Request::new(Body::empty())).await.unwrap();
    assert_eq!(*log.lock().unwrap(), [None, None, Some("1".to_owned()), Some("1".to_owned())]);
}
