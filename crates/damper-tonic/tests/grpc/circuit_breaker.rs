//! Breakers before tonic's clients, over real sockets, on a manual clock.

use crate::breaker_support::{COOLDOWN, Clocked, clocked, clocked_with, let_probe};
use crate::support::echo::echo_client::EchoClient;
use crate::support::{BoxError, LOCALHOST, Upstream, channel, client, message, messages, serve, uri};
use damper::breaker::{Permit, State, Verdict};
use damper::gate::{self, Ending};
use damper::http::{CircuitBreak, CircuitBreakerLayer, PerHost, RateLimitLayer, Single};
use damper::tonic::{AtTrailers, unavailability};
use damper::{BreakerConfig, CircuitBreaker, CircuitOpen, ManualClock, Quota, RateLimiter};
use futures_util::FutureExt;
use futures_util::stream::{self, FuturesUnordered, StreamExt};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use tower::{Service, ServiceBuilder, ServiceExt};

type Client = EchoClient<CircuitBreak<Channel, Clocked, AtTrailers>>;

fn behind(breaker: &Clocked, server: SocketAddr) -> Client {
    EchoClient::new(CircuitBreakerLayer::new(Arc::clone(breaker)).completion(AtTrailers::new()).layer(channel(server)))
}

fn start(upstream: &Upstream) -> SocketAddr {
    serve(Server::builder().add_service(upstream.echo()))
}

async fn code_of(client: &mut Client) -> Code {
    client.unary(message("hello")).await.map_or_else(|status| status.code(), |_| Code::Ok)
}

/// Failures trip the breaker and reach the caller unchanged.
///
/// An open breaker does not call the server. After the cooldown one probe is called: its failure restarts the cooldown,
/// and its success closes the breaker.
#[tokio::test]
async fn unavailable_server_trips_and_probe_closes() {
    let (clock, breaker) = clocked(5);
    let upstream = Upstream::default();
    let mut client = behind(&breaker, start(&upstream));
    upstream.answer(Code::Unavailable);
    for _ in 0..5 {
        let status = client.unary(message("hello")).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Unavailable, "as scripted"), "unchanged");
    }
    for left in [COOLDOWN, Duration::from_secs(1)] {
        let status = client.unary(message("hello")).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(CircuitOpen::find_in(&status).expect("refused").retry_after(), Some(left));
        assert_eq!(status.get_details_retry_info().unwrap().retry_delay, Some(left));
        assert_eq!(upstream.hits(), 5, "not called");
        clock.advance(left.min(Duration::from_secs(29)));
    }
    assert_eq!(code_of(&mut client).await, Code::Unavailable, "the probe");
    clock.advance(Duration::from_secs(29));
    assert_eq!(code_of(&mut client).await, Code::Unavailable, "the cooldown restarted");
    assert_eq!(upstream.hits(), 6);
    clock.advance(Duration::from_secs(1));
    upstream.answer(Code::Ok);
    assert_eq!(code_of(&mut client).await, Code::Ok);
    assert_eq!(breaker.state(), State::Closed);
    upstream.answer(Code::Unavailable);
    for _ in 0..4 {
        code_of(&mut client).await;
    }
    assert_eq!(breaker.state(), State::Closed, "counting started from zero");
}

/// The destination of log lines.
#[derive(Clone, Default)]
struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Without `AtTrailers` the breaker sees `200 OK` for each call, so it warns.
#[tokio::test]
async fn breaker_without_at_trailers_never_trips_and_warns_once() {
    let log = Log::default();
    let writer = log.clone();
    crate::subscribers::register_two();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_ansi(false);
    let _guard = tracing::subscriber::set_default(subscriber.with_writer(move || writer.clone()).finish());
    let (_, breaker) = clocked(1);
    let upstream = Upstream::default();
    let server = start(&upstream);
    let mut client = EchoClient::new(CircuitBreakerLayer::new(Arc::clone(&breaker)).layer(channel(server)));
    upstream.answer(Code::Unavailable);
    for _ in 0..20 {
        assert_eq!(client.unary(message("hello")).await.unwrap_err().code(), Code::Unavailable);
    }
    assert_eq!(breaker.state(), State::Closed);
    let lines = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let warnings: Vec<_> = lines.lines().filter(|line| line.contains("WARN damper: gRPC response judged")).collect();
    assert_eq!(warnings.len(), 1, "{lines}");
    assert!(warnings[0].contains(".completion(AtTrailers::new())"), "{lines}");
    // The fix that it names.
    assert_eq!(code_of(&mut behind(&breaker, server)).await, Code::Unavailable);
    assert_eq!(breaker.state(), State::Open);
}

/// A call with less time than `min_budget` that ends by its deadline is no failure of the server.
#[tokio::test]
async fn too_short_a_deadline_is_no_failure_of_the_server() {
    let upstream = Upstream::default();
    let server = start(&upstream);
    upstream.answer(Code::DeadlineExceeded);
    for (given, is_failure) in [(Duration::from_millis(500), false), (Duration::from_mins(1), true)] {
        let (_, breaker) = clocked(1);
        let layer = CircuitBreakerLayer::new(Arc::clone(&breaker)).completion(AtTrailers::new());
        let mut client = EchoClient::new(layer.min_budget(Duration::from_secs(1)).layer(channel(server)));
        let request = |text| {
            let mut request = tonic::Request::new(message(text));
            request.extensions_mut().insert(damper::Deadline::after(given));
            request
        };
        assert_eq!(client.unary(request("a")).await.unwrap_err().code(), Code::DeadlineExceeded);
        assert_eq!(breaker.state() == State::Open, is_failure, "{given:?}, in the headers");

        breaker.reset();
        let mut stream = client.server_streaming(request("c")).await.unwrap().into_inner();
        while let Ok(Some(_)) = stream.message().await {}
        drop(stream);
        assert_eq!(breaker.state() == State::Open, is_failure, "{given:?}, in the trailers");
    }
}

/// Three of seventeen codes are failures, in the headers and in the trailers.
#[tokio::test]
async fn unavailability_classifies_every_code() {
    let upstream = Upstream::default();
    let server = start(&upstream);
    for code in (0..17).map(Code::from_i32) {
        upstream.answer(code);
        let is_failure = matches!(code, Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted);
        let expected = match code {
            Code::DeadlineExceeded => Verdict::DeadlineExceeded,
            _ => Verdict::failure_if(is_failure),
        };
        assert_eq!(Verdict::from(&unavailability(code).into()), expected);

        let (_, breaker) = clocked(1);
        assert_eq!(code_of(&mut behind(&breaker, server)).await, code);
        assert_eq!(breaker.state() == State::Open, is_failure, "{code:?} in the headers");

        let (_, breaker) = clocked(1);
        let mut stream = behind(&breaker, server).server_streaming(message("c")).await.unwrap().into_inner();
        for _ in 0..3 {
            assert!(stream.message().await.unwrap().is_some());
        }
        assert_eq!(breaker.state(), State::Closed, "the call counts at its end");
        assert_eq!(stream.message().await.map_or_else(|status| status.code(), |_| Code::Ok), code);
        assert_eq!(breaker.state() == State::Open, is_failure, "{code:?} in the trailers");
    }
}

#[tokio::test]
async fn closure_classifies_codes() {
    let (_, breaker) = clocked(2);
    let upstream = Upstream::default();
    let at_trailers = AtTrailers::new().classify(|code| match code {
        Code::Internal => Ending::Failed,
        Code::Cancelled => Ending::NotSent,
        _ => Ending::Success,
    });
    let layer = CircuitBreakerLayer::new(Arc::clone(&breaker)).completion(at_trailers);
    let mut client = EchoClient::new(layer.layer(channel(start(&upstream))));
    for (code, failures) in [(13, 1), (1, 1), (14, 0), (13, 1), (0, 0), (1, 0), (13, 1), (1, 1), (13, 0)] {
        upstream.answer(Code::from_i32(code));
        _ = client.unary(message("hello")).await;
        assert_eq!(breaker.status().consecutive_failures(), failures, "after {code}");
    }
    assert_eq!(breaker.state(), State::Open);
}

/// A call whose own message cannot be sent says nothing about the server.
#[tokio::test]
async fn failing_messages_of_the_caller_are_no_failures_of_the_server() {
    let server = start(&Upstream::default());
    for at_trailers in [AtTrailers::new(), AtTrailers::rejections()] {
        let (_, breaker) = clocked(1);
        let layer = CircuitBreakerLayer::new(Arc::clone(&breaker)).completion(at_trailers);
        let mut client = EchoClient::new(layer.layer(channel(server))).max_encoding_message_size(8);
        let status = client.unary(message("more than eight bytes")).await.unwrap_err();
        assert_eq!(breaker.state(), State::Closed, "{status:?}");
        client.unary(message("a")).await.unwrap();
    }
}

/// Calls of all four kinds are classified by their status.
#[tokio::test]
async fn every_kind_of_call_is_counted() {
    let upstream = Upstream::default();
    let server = start(&upstream);
    for kind in 0..4 {
        let (clock, breaker) = clocked(1);
        let mut client = behind(&breaker, server);
        for (code, state) in [(Code::Unavailable, State::Open), (Code::Ok, State::Closed)] {
            upstream.answer(code);
            assert_eq!(end_of(&mut client, kind).await, code);
            assert_eq!(breaker.state(), state, "kind {kind}, {code:?}");
            clock.advance(COOLDOWN);
        }
    }
}

/// Makes a call of this kind and reads it to its end.
async fn end_of(client: &mut Client, kind: u32) -> Code {
    let result: Result<(), Status> = async {
        let mut stream = match kind {
            0 => return client.unary(message("a")).await.map(drop),
            1 => return client.client_streaming(messages(&["a", "b"])).await.map(drop),
            2 => client.server_streaming(message("a")).await?.into_inner(),
            _ => client.bidirectional(messages(&["a", "end"])).await?.into_inner(),
        };
        while stream.message().await?.is_some() {}
        Ok(())
    }
    .await;
    result.map_or_else(|status| status.code(), |()| Code::Ok)
}

/// An error in the place of a message ends the stream and is a failure.
#[tokio::test]
async fn error_in_place_of_a_message_is_a_failure() {
    let (_, breaker) = clocked(1);
    let upstream = Upstream::default();
    upstream.answer(Code::ResourceExhausted);
    let mut client = behind(&breaker, start(&upstream));
    let mut answers = client.bidirectional(messages(&["a", "end", "b"])).await.unwrap().into_inner();
    assert_eq!(answers.message().await.unwrap(), Some(message("a")));
    assert_eq!(breaker.state(), State::Closed);
    assert_eq!(answers.message().await.unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(breaker.state(), State::Open);
}

/// A stream that the caller drops before its first message records no verdict.
///
/// A probe frees its place.
#[tokio::test]
async fn dropped_stream_records_no_verdict() {
    let (clock, breaker) = clocked(1);
    let upstream = Upstream::default();
    let mut client = behind(&breaker, start(&upstream));
    breaker.try_acquire().unwrap().failure();
    clock.advance(COOLDOWN);
    let probe = client.server_streaming(message("a")).await.unwrap().into_inner();
    let status = client.unary(message("hello")).await.unwrap_err();
    assert_eq!(CircuitOpen::find_in(&status).expect("a probe is in flight").retry_after(), None);
    assert_eq!(breaker.state(), State::HalfOpen);
    drop(probe);
    assert_eq!(breaker.state(), State::HalfOpen, "no verdict was recorded");
    assert_eq!(code_of(&mut client).await, Code::Ok);
    assert_eq!(breaker.state(), State::Closed);
}

/// A stream is a successful probe at its first message. Its end counts like that of any other call.
#[tokio::test]
async fn first_message_of_a_stream_ends_the_probe() {
    let (clock, breaker) = clocked(2);
    let upstream = Upstream::default();
    let mut client = behind(&breaker, start(&upstream));
    while let Ok(permit) = breaker.try_acquire() {
        permit.failure();
    }
    clock.advance(COOLDOWN);
    upstream.answer(Code::Unavailable);
    let mut stream = client.server_streaming(message("a")).await.unwrap().into_inner();
    assert_eq!(breaker.state(), State::HalfOpen);
    assert!(stream.message().await.unwrap().is_some());
    assert_eq!(breaker.state(), State::Closed);
    upstream.answer(Code::Ok);
    assert_eq!(code_of(&mut client).await, Code::Ok, "the stream continues");
    while stream.message().await.is_ok() {}
    assert_eq!((breaker.state(), breaker.status().consecutive_failures()), (State::Closed, 1));
}

/// A call that is dropped before its response records no verdict.
#[tokio::test]
async fn cancelled_call_records_no_verdict() {
    let (clock, breaker) = clocked(1);
    breaker.try_acquire().unwrap().failure();
    clock.advance(COOLDOWN);
    let hanging = tower::service_fn(|_: Request<()>| std::future::pending::<Result<Response<Body>, BoxError>>());
    let mut client = CircuitBreakerLayer::new(Arc::clone(&breaker)).completion(AtTrailers::new()).layer(hanging);
    let probe = client.call(Request::new(()));
    let Err(status) = client.call(Request::new(())).await else { panic!("let pass") };
    assert!(CircuitOpen::find_in(&status).is_some());
    drop(probe);
    assert!(breaker.try_acquire().is_ok());
}

/// An error of the transport is a failure. The caller gets the same status as without a breaker.
#[tokio::test]
async fn transport_errors_trip_and_reach_the_caller() {
    let (_, breaker) = clocked(2);
    // Bound and not listening, so that no other test gets it.
    let port = tokio::net::TcpSocket::new_v4().unwrap();
    port.bind((LOCALHOST, 0).into()).unwrap();
    let closed_port = port.local_addr().unwrap();
    let bare = client(closed_port).unary(message("hello")).await.unwrap_err();
    let mut client = behind(&breaker, closed_port);
    for _ in 0..2 {
        let status = client.unary(message("hello")).await.unwrap_err();
        assert_eq!(status.to_string(), bare.to_string());
        assert_eq!(status.code(), Code::Unavailable);
        assert!(CircuitOpen::find_in(&status).is_none());
    }
    assert_eq!(breaker.state(), State::Open);
}

/// A timeout of the client is a failure, although tonic calls it `CANCELLED`.
#[tokio::test]
async fn client_timeout_is_a_failure() {
    let (_, breaker) = clocked(1);
    let server = start(&Upstream::default());
    let channel = Endpoint::from(uri(server)).timeout(Duration::from_millis(20)).connect_lazy();
    let mut client =
        EchoClient::new(CircuitBreakerLayer::new(Arc::clone(&breaker)).completion(AtTrailers::new()).layer(channel));
    // The client's stream never ends.
    let status = client.client_streaming(stream::pending()).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Cancelled, "Timeout expired"));
    assert_eq!(breaker.state(), State::Open);
}

/// A status that another layer returns as an error is classified by its code.
#[tokio::test]
async fn status_as_an_error_is_classified_by_its_code() {
    for (code, state) in [(Code::Unauthenticated, State::Closed), (Code::Unavailable, State::Open)] {
        let (_, breaker) = clocked(1);
        let refusing = tower::service_fn(move |_: Request<Body>| async move {
            Err::<Response<Body>, BoxError>(Status::new(code, "not today").into())
        });
        let mut client = EchoClient::new(
            CircuitBreakerLayer::new(Arc::clone(&breaker)).completion(AtTrailers::new()).layer(refusing),
        );
        let status = client.unary(message("hello")).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (code, "not today"));
        assert_eq!(breaker.state(), state);
    }
}

/// A layer inside the breaker refuses the call, which says nothing about the server.
#[test]
fn refusals_behind_the_breaker_do_not_open_it() {
    let (_, breaker) = clocked(1);
    let refusing = tower::service_fn(|_: Request<Body>| async {
        Err::<Response<Body>, BoxError>(damper::Bulkhead::new(0).try_acquire().unwrap_err().into())
    });
    let mut client = CircuitBreakerLayer::new(Arc::clone(&breaker)).completion(AtTrailers::new()).layer(refusing);
    let status = client.call(Request::new(Body::default())).now_or_never().expect("nothing waits").unwrap_err();
    assert!(damper::is_refusal(&status), "{status}");
    assert_eq!(breaker.state(), State::Closed);
}

/// The breaker stays open for as long as the server's `RetryInfo` says.
#[tokio::test]
async fn retry_info_of_a_failure_keeps_breaker_open() {
    let (_, breaker) = clocked(1);
    let details = ErrorDetails::with_retry_info(Some(Duration::from_mins(2)));
    let mut client = refused_with(&breaker, Code::Unavailable, details);
    assert_eq!(client.unary(message("hello")).await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), Some(Duration::from_mins(2)));
}

type Refusing = tower::util::BoxCloneService<Request<Body>, Response<Body>, BoxError>;

/// Returns a client of a server that answers every call with this code and these details.
fn refused_with(
    breaker: &Clocked,
    code: Code,
    details: ErrorDetails,
) -> EchoClient<CircuitBreak<Refusing, Clocked, AtTrailers>> {
    let refusing = tower::service_fn(move |_: Request<Body>| {
        let details = details.clone();
        async move { Ok::<_, BoxError>(Status::with_error_details(code, "no", details).into_http::<Body>()) }
    });
    EchoClient::new(
        CircuitBreakerLayer::new(Arc::clone(breaker)).completion(AtTrailers::new()).layer(Refusing::new(refusing)),
    )
}

/// A limiter that names a wait is alive, like HTTP's 429.
///
/// Its refusals are no failures, and as a probe they close the breaker. Without a `RetryInfo`, `RESOURCE_EXHAUSTED` may
/// be a lack of memory or disk, so it is a failure.
#[tokio::test]
async fn limiter_refusal_is_a_success() {
    let a_second = || ErrorDetails::with_retry_info(Some(Duration::from_secs(1)));
    for (code, details, is_failure) in [
        (Code::ResourceExhausted, a_second(), false),
        (Code::ResourceExhausted, ErrorDetails::with_retry_info(None), false),
        (Code::ResourceExhausted, ErrorDetails::new(), true),
        (Code::Unavailable, a_second(), true),
        (Code::DeadlineExceeded, a_second(), true),
    ] {
        let (clock, breaker) = clocked(2);
        let mut client = refused_with(&breaker, code, details.clone());
        for _ in 0..2 {
            assert_eq!(client.unary(message("hello")).await.unwrap_err().code(), code);
        }
        assert_eq!(breaker.state() == State::Open, is_failure, "{code:?}, {details:?}");
        for _ in breaker.status().consecutive_failures()..2 {
            breaker.try_acquire().into_iter().for_each(Permit::failure);
        }
        clock.advance(COOLDOWN);
        client.unary(message("hello")).await.unwrap_err();
        assert_eq!(breaker.state() == State::Open, is_failure, "{code:?}, {details:?}, as a probe");
    }
}

/// A closure counts a limiter's refusals by returning how long to stay open.
#[tokio::test]
async fn closure_may_count_limiter_refusals() {
    let (_, breaker) = clocked(1);
    let limiter = RateLimiter::with_clock(Quota::per_hour(30).burst(1), Arc::new(ManualClock::new()));
    let limit = RateLimitLayer::new(Arc::new(limiter));
    let server = serve(Server::builder().layer(limit).add_service(Upstream::default().echo()));
    let at_trailers = AtTrailers::new().classify(|code| match code {
        Code::ResourceExhausted => {
            gate::Verdict::of(Ending::Unavailable).with_retry_after(Some(Duration::from_secs(45)))
        }
        code => unavailability(code).into(),
    });
    let layer = CircuitBreakerLayer::new(Arc::clone(&breaker)).completion(at_trailers);
    let mut client = EchoClient::new(layer.layer(channel(server)));
    client.unary(message("hello")).await.unwrap();
    assert_eq!(client.unary(message("hello")).await.unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), Some(Duration::from_secs(45)));
}

/// A client at ten times its quota gets all of its quota for ten seconds.
///
/// The breaker refuses none of its calls.
#[test]
fn client_over_its_quota_gets_its_whole_quota() {
    let clock = Arc::new(ManualClock::new());
    let breaker = Arc::new(CircuitBreaker::with_clock(BreakerConfig::DEFAULT, Arc::clone(&clock)));
    let limiter = RateLimiter::with_clock(Quota::per_second(20).burst(20), Arc::clone(&clock));
    let server = tower::service_fn(|_: Request<()>| async { Ok::<_, BoxError>(Status::ok("").into_http::<Body>()) });
    let server = RateLimitLayer::new(Arc::new(limiter)).layer(server);
    let mut client = CircuitBreakerLayer::new(Arc::clone(&breaker)).completion(AtTrailers::new()).layer(server);
    let (mut answers, mut over_limit, mut broken) = (0, 0, 0);
    for _ in 0..2_000 {
        let request = Request::post("/damper.test.Echo/Unary").header("content-type", "application/grpc").body(());
        match client.call(request.unwrap()).now_or_never().expect("nothing waits") {
            Ok(answer) if answer.headers()["grpc-status"] == "0" => answers += 1,
            Ok(_) => over_limit += 1,
            Err(_) => broken += 1,
        }
        clock.advance(Duration::from_millis(5));
    }
    assert_eq!(
        (answers, over_limit, broken),
        (20 + 199, 2_000 - 219, 0),
        "answered, over the limit, refused by the breaker"
    );
}

/// A client names its host if it has an origin. A failing host does not block others.
#[tokio::test]
async fn hosts_have_separate_breakers() {
    let (sick, healthy) = (Upstream::default(), Upstream::default());
    sick.answer(Code::Unavailable);
    let (sender, changes) = std::sync::mpsc::channel();
    let hosts = PerHost::builder(BreakerConfig::builder().failure_threshold(2).build().unwrap())
        .capacity(64)
        .on_state_change(move |change, host| sender.send((change.to(), host.to_owned())).unwrap());
    let layer = CircuitBreakerLayer::new(hosts.build().unwrap()).completion(AtTrailers::new());
    let [sick, healthy] = [start(&sick), start(&healthy)];
    let mut clients = [sick, healthy].map(|server| EchoClient::with_origin(layer.layer(channel(server)), uri(server)));
    for _ in 0..2 {
        clients[0].unary(message("hello")).await.unwrap_err();
    }
    assert!(CircuitOpen::find_in(&clients[0].unary(message("hello")).await.unwrap_err()).is_some());
    clients[1].unary(message("hello")).await.unwrap();
    assert_eq!(changes.try_iter().collect::<Vec<_>>(), [(State::Open, sick.to_string())]);
}

#[tokio::test]
async fn single_breaker_reports_state_changes() {
    let upstream = Upstream::default();
    upstream.answer(Code::Unavailable);
    let (sender, changes) = std::sync::mpsc::channel();
    let single = Single::builder(BreakerConfig::builder().failure_threshold(1).build().unwrap())
        .on_state_change(move |change| sender.send(change.to_string()).unwrap());
    let layer = CircuitBreakerLayer::new(single.build()).completion(AtTrailers::new());
    let server = start(&upstream);
    // Clones of the layer share the breaker.
    let mut clients = [layer.clone(), layer].map(|layer| EchoClient::new(layer.layer(channel(server))));
    clients[0].unary(message("hello")).await.unwrap_err();
    assert!(CircuitOpen::find_in(&clients[1].unary(message("hello")).await.unwrap_err()).is_some());
    assert_eq!(changes.try_iter().collect::<Vec<_>>(), ["circuit closed -> open: consecutive failures"]);
}

/// Metrics of a breaker carry the name of its layer.
#[test]
fn call_metrics_carry_the_layers_name() {
    let recorder = metrics_util::debugging::DebuggingRecorder::new();
    let metrics = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let single = Single::builder(BreakerConfig::builder().failure_threshold(2).build().unwrap()).named("sick");
        let sick = tower::service_fn(|_: Request<()>| async {
            Ok::<_, Status>(Status::unavailable("sick").into_http::<Body>())
        });
        let mut service = CircuitBreakerLayer::new(single.build()).completion(AtTrailers::new()).layer(sick);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for call in 0..5 {
                assert_eq!(service.call(Request::new(())).await.is_ok(), call < 2);
            }
        });
    });
    let counted: Vec<_> = metrics
        .snapshot()
        .into_vec()
        .into_iter()
        .map(|(key, _, _, value)| {
            let labels: Vec<_> = key.key().labels().map(metrics::Label::value).collect();
            format!("{} {labels:?} {value:?}", key.key().name())
        })
        .collect();
    for line in
        [r#"damper_breaker_allowed_total ["sick"] Counter(2)"#, r#"damper_breaker_refused_total ["sick"] Counter(3)"#]
    {
        assert!(counted.iter().any(|counted| counted == line), "{counted:#?}");
    }
}

/// Of many concurrent calls after the cooldown, `max_probes` reach the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn half_open_admits_max_probes() {
    let config = BreakerConfig::builder().failure_threshold(1).max_probes(3).build();
    let (clock, breaker) = clocked_with(config.unwrap());
    let_probe(&clock, &breaker);
    let upstream = Upstream::default();
    let client = behind(&breaker, start(&upstream));
    let (gate, _) = tokio::sync::watch::channel(false);
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let (mut client, mut gate) = (client.clone(), gate.subscribe());
            // Calls that pass wait for their message.
            let requests = stream::once(async move {
                gate.wait_for(|is_open| *is_open).await.unwrap();
                message("at last")
            });
            tokio::spawn(async move { client.client_streaming(requests).await.map(drop) })
        })
        .collect();
    let mut results = FuturesUnordered::from_iter(calls);
    for _ in 0..61 {
        let status = results.next().await.unwrap().unwrap().unwrap_err();
        assert_eq!(CircuitOpen::find_in(&status).expect("refused by the breaker").retry_after(), None);
    }
    gate.send_replace(true);
    while let Some(result) = results.next().await {
        result.unwrap().unwrap();
    }
    assert_eq!(upstream.hits(), 3);
    assert_eq!(breaker.state(), State::Closed);
}

/// Makes a unary call up to three times, like a user's own retry that keeps the message.
#[derive(Clone)]
struct Retry(Channel);

impl Service<Request<Body>> for Retry {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut channel = self.0.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let message = body.collect().await?.to_bytes();
            let mut attempts = 0;
            loop {
                attempts += 1;
                let request = Request::from_parts(head.clone(), Body::new(Full::from(message.clone())));
                let answer = channel.ready().await?.call(request).await?;
                if attempts == 3 || answer.headers().get("grpc-status").is_none_or(|code| code != "14") {
                    return Ok(answer);
                }
            }
        })
    }
}

/// With the breaker outside the retry, a call that fails in every attempt counts as one failure.
///
/// An open breaker costs no attempts.
#[tokio::test]
async fn exhausted_retries_count_as_one_failure() {
    let (_, breaker) = clocked(2);
    let upstream = Upstream::default();
    upstream.answer(Code::Unavailable);
    let service = ServiceBuilder::new()
        .layer(CircuitBreakerLayer::new(Arc::clone(&breaker)).completion(AtTrailers::new()))
        .service(Retry(channel(start(&upstream))));
    let mut client = EchoClient::new(service);
    for (hits, failures, state) in [(3, 1, State::Closed), (6, 0, State::Open), (6, 0, State::Open)] {
        assert_eq!(client.unary(message("hello")).await.unwrap_err().code(), Code::Unavailable);
        assert_eq!((upstream.hits(), breaker.status().consecutive_failures()), (hits, failures));
        assert_eq!(breaker.state(), state);
    }
}
