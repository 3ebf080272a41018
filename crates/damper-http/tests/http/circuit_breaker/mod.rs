//! Breakers before HTTP clients, over real sockets, on a manual clock.
//!
//! | what peers get wrong | test |
//! |---|---|
//! | permits taken in `poll_ready` starve others | `readiness_takes_no_probe` in `readiness.rs` |
//! | half-open admits everyone | `half_open_admits_max_probes` |
//! | one failing host blocks the healthy ones | `hosts_have_separate_breakers` |
//!
//! The other files have properties of the layers of HTTP and gRPC, without sockets:
//!
//! | file | property |
//! |---|---|
//! | `panics` | a call that panics counts as a failure |
//! | `readiness` | an open breaker does not poll the service's readiness, and loses none |
//! | `streams` | the first message of a stream makes it a successful probe |

mod panics;
mod readiness;
mod streams;

use crate::breaker_support::{BoxError, COOLDOWN, clocked, clocked_with, let_probe};
use crate::support::{ClosedPort, Upstream, serve};
use bytes::Bytes;
use damper::breaker::{State, Window};
use damper::deadline::UsualLatency;
use damper::gate::{Ending, PerKey};
use damper::http::{AtHead, CircuitBreakerLayer, Head, MinBudget, PerHost, ResponseHead, Single, Statuses, TargetHost};
use damper::store::BoundedStore;
use damper::{BreakerConfig, CallError, CircuitBreaker, CircuitOpen, KeyedCircuitBreaker, ManualClock};
use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::error::Error;
use std::future::{Ready, pending, ready};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{hint, thread};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::{Service, ServiceBuilder, ServiceExt};

fn config(failures: u32) -> BreakerConfig {
    BreakerConfig::builder().failure_threshold(failures).build().unwrap()
}

fn client() -> Client<HttpConnector, Empty<Bytes>> {
    Client::builder(TokioExecutor::new()).build_http()
}

fn empty<B: Default>() -> Request<B> {
    Request::new(B::default())
}

/// Sends a request and reads the response to its end.
async fn status<S, R>(client: &mut S, upstream: &Upstream) -> Result<StatusCode, S::Error>
where
    S: Service<Request<Empty<Bytes>>, Response = Response<R>>,
    R: http_body::Body<Error: std::fmt::Debug>,
{
    let answer = client.ready().await?.call(upstream.request()).await?;
    let (head, body) = answer.into_parts();
    body.collect().await.unwrap_or_else(|error| panic!("{error:?}"));
    Ok(head.status)
}

/// Responses with a 5xx trip the breaker and reach the caller unchanged.
///
/// An open breaker does not call the service. After the cooldown one probe is called: its failure restarts the
/// cooldown, and its success closes the breaker.
#[tokio::test]
async fn server_errors_trip_and_probe_closes() {
    let (clock, breaker) = clocked(5);
    let upstream = Upstream::start().await;
    let mut client = CircuitBreakerLayer::new(Arc::clone(&breaker)).layer(client());
    upstream.answer(StatusCode::SERVICE_UNAVAILABLE);
    for _ in 0..5 {
        assert_eq!(status(&mut client, &upstream).await.unwrap(), StatusCode::SERVICE_UNAVAILABLE, "unchanged");
    }
    for left in [COOLDOWN, Duration::from_secs(1)] {
        let CallError::Refused(open) = status(&mut client, &upstream).await.unwrap_err() else { panic!("let pass") };
        assert_eq!(open.retry_after(), Some(left));
        assert_eq!(upstream.hits(), 5, "not called");
        clock.advance(left.min(Duration::from_secs(29)));
    }
    assert_eq!(breaker.state(), State::HalfOpen);
    assert_eq!(status(&mut client, &upstream).await.unwrap(), StatusCode::SERVICE_UNAVAILABLE, "the probe");
    clock.advance(Duration::from_secs(29));
    assert!(status(&mut client, &upstream).await.is_err(), "the cooldown restarted");
    assert_eq!(upstream.hits(), 6);
    clock.advance(Duration::from_secs(1));
    upstream.answer(StatusCode::OK);
    assert_eq!(status(&mut client, &upstream).await.unwrap(), StatusCode::OK);
    assert_eq!(breaker.state(), State::Closed);
    upstream.answer(StatusCode::INTERNAL_SERVER_ERROR);
    for _ in 0..4 {
        status(&mut client, &upstream).await.unwrap();
    }
    assert_eq!(breaker.state(), State::Closed, "counting started from zero");
}

#[tokio::test]
async fn client_errors_and_429_are_successes() {
    let (_, breaker) = clocked(2);
    let upstream = Upstream::start().await;
    let mut client = CircuitBreakerLayer::new(Arc::clone(&breaker)).layer(client());
    for code in [StatusCode::NOT_FOUND, StatusCode::TOO_MANY_REQUESTS, StatusCode::FOUND] {
        for _ in 0..5 {
            upstream.answer(code);
            assert_eq!(status(&mut client, &upstream).await.unwrap(), code);
        }
        upstream.answer(StatusCode::BAD_GATEWAY);
        status(&mut client, &upstream).await.unwrap();
    }
    assert_eq!(breaker.state(), State::Closed, "no two consecutive failures");
}

#[tokio::test]
async fn transport_errors_trip_and_reach_the_caller() {
    let (_, breaker) = clocked(2);
    let closed_port = ClosedPort::new();
    let uri = format!("http://{}/", closed_port.address());
    let mut client = CircuitBreakerLayer::new(breaker).layer(client());
    let mut get = async || {
        let request = Request::get(&uri).body(Empty::<Bytes>::new()).unwrap();
        client.ready().await?.call(request).await.map(drop)
    };
    for _ in 0..2 {
        let CallError::Failed(error) = get().await.unwrap_err() else { panic!("not called") };
        assert!(error.is_connect(), "unchanged");
    }
    assert!(matches!(get().await, Err(CallError::Refused(_))));
}

/// A failing host does not block others.
#[tokio::test]
async fn hosts_have_separate_breakers() {
    let (sick, healthy) = (Upstream::start().await, Upstream::start().await);
    sick.answer(StatusCode::BAD_GATEWAY);
    let (sender, changes) = std::sync::mpsc::channel();
    let hosts = PerHost::builder(config(2))
        .capacity(64)
        .on_state_change(move |change, host| sender.send((change.to(), host.to_owned())).unwrap());
    let mut client = CircuitBreakerLayer::new(hosts.build().unwrap()).layer(client());
    for _ in 0..2 {
        status(&mut client, &sick).await.unwrap();
    }
    assert!(status(&mut client, &sick).await.is_err());
    assert_eq!(status(&mut client, &healthy).await.unwrap(), StatusCode::OK);
    assert_eq!(changes.try_iter().collect::<Vec<_>>(), [(State::Open, sick.address.to_string())]);
}

#[test]
fn breakers_of_a_layer_are_controlled_from_outside() {
    let (hosts, single) = (PerHost::builder(config(9)).build().unwrap(), Single::builder(config(9)).build());
    let service = tower::service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(()))));
    let per_host = CircuitBreakerLayer::new(hosts.clone()).layer(service);
    let shared = CircuitBreakerLayer::new(single.clone()).layer(service);
    let request = |host: &str| Request::get(format!("http://{host}/")).body(()).unwrap();
    hosts.breaker("sick.example.com:80").force_open();
    single.breaker().force_open();
    let refused = |host| per_host.clone().call(request(host)).now_or_never().unwrap().is_err();
    assert_eq!([refused("Sick.example.com."), refused("api.example.com")], [true, false]);
    assert!(shared.clone().call(request("api.example.com")).now_or_never().unwrap().is_err());
    hosts.breaker("sick.example.com:80").reset();
    single.breaker().reset();
    assert!(!refused("sick.example.com"));
    assert!(shared.clone().call(request("api.example.com")).now_or_never().unwrap().is_ok());
}

/// A host's first call races with a change of the configuration of all hosts.
///
/// The new breaker gets the new configuration.
#[test]
fn new_host_gets_the_changed_configuration() {
    let hosts = PerHost::builder(config(9)).capacity(1).build().unwrap();
    let service = tower::service_fn(|request: Request<()>| {
        let status = if request.uri().path() == "/down" { 503 } else { 200 };
        ready(Ok::<_, Infallible>(Response::builder().status(status).body(()).unwrap()))
    });
    let client = CircuitBreakerLayer::new(hosts.clone()).layer(service);
    // The rounds begun, and the rounds whose change is complete.
    let (begun, changed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let reaches = |count: &AtomicUsize, round| {
        while count.load(Ordering::Acquire) < round {
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                reaches(&begun, round);
                // At a different moment of the call in each round.
                (0..round % 256).for_each(|_| hint::spin_loop());
                hosts.set_config(&config(1)).unwrap();
                changed.store(round, Ordering::Release);
            }
        });
        let mut tripped = 0;
        for round in 1..=ROUNDS {
            // Capacity one, so every round's host is new.
            let call = |path| {
                let request = Request::get(format!("http://host-{round}/{path}")).body(()).unwrap();
                client.clone().call(request).now_or_never().unwrap()
            };
            hosts.set_config(&config(9)).unwrap();
            begun.store(round, Ordering::Release);
            call("up").unwrap();
            reaches(&changed, round);
            call("down").unwrap();
            tripped += usize::from(matches!(call("down"), Err(CallError::Refused(_))));
        }
        assert_eq!(tripped, ROUNDS, "one failure trips each");
    });
}

/// Without the second check of a new host, one in a thousand runs failed.
const ROUNDS: usize = 3_000;

#[test]
fn capacity_out_of_range_is_an_error() {
    for capacity in [0, (1 << 28) + 1, usize::MAX] {
        let error = PerHost::builder(config(1)).capacity(capacity).build().unwrap_err();
        assert_eq!(error.to_string(), format!("capacity is {capacity}, it must be 1 to 268435456"));
    }
    assert!(PerHost::builder(config(1)).capacity(1).build().is_ok());
}

/// The breaker is built once.
///
/// All services of the layer share it, whichever settings follow.
#[tokio::test]
async fn settings_of_a_layer_keep_its_breaker() {
    let layer = CircuitBreakerLayer::single(config(1));
    let mut failing = layer.layer(tower::service_fn(failing));
    failing.call(empty::<()>()).await.unwrap();
    let judge = |_: Result<&ResponseHead, &Infallible>| Ending::Success;
    let mut set_later = layer.when_body_ends().classify(judge).completion(AtHead::new()).layer(client());
    assert!(matches!(set_later.call(empty()).await, Err(CallError::Refused(_))));
}

/// The layer creates breakers in the caller's store by canonical host, from the target or `Host`.
#[tokio::test]
async fn layer_uses_the_callers_keyed_breaker() {
    let clock = Arc::new(ManualClock::new());
    let hosts = Arc::new(KeyedCircuitBreaker::<String, _>::with_clock(config(1), 64, Arc::clone(&clock)).unwrap());
    let mut client =
        CircuitBreakerLayer::new(PerKey::new(TargetHost, Arc::clone(&hosts))).layer(tower::service_fn(failing));
    let request = |uri: &str| Request::get(uri).header("host", "Api.Example.com:8080").body(()).unwrap();
    client.call(request("/")).await.unwrap();
    client.call(request("https://Other.example.com/")).await.unwrap();
    assert!(client.call(request("http://API.example.com:8080")).await.is_err());
    clock.advance(COOLDOWN);
    assert!(client.call(request("http://API.example.com:8080")).await.is_ok(), "a probe");
    let mut names: Vec<_> = hosts.store().iter().map(|(name, _)| name).collect();
    names.sort();
    assert_eq!(names, ["api.example.com:8080", "other.example.com:443"]);
}

fn failing<B>(_: Request<B>) -> Ready<Result<Response<()>, Infallible>> {
    ready(Ok(Response::builder().status(503).body(()).unwrap()))
}

/// Each host's breaker has the window of its settings, whatever its size.
///
/// Four failures in a hundred calls are also one in twenty-five.
#[tokio::test]
async fn breakers_of_hosts_have_the_window_of_their_settings() {
    let upstream = Upstream::start().await;
    for (calls, is_open) in [(100, false), (8, true)] {
        let config = BreakerConfig::builder().failure_threshold(u32::MAX).failure_rate(50).minimum_calls(8);
        let config = config.window(Window::last_calls(calls)).build().unwrap();
        let mut client = CircuitBreakerLayer::per_host(config).layer(client());
        for answer in [StatusCode::OK, StatusCode::BAD_GATEWAY] {
            upstream.answer(answer);
            for _ in 0..if answer == StatusCode::OK { 96 } else { 4 } {
                status(&mut client, &upstream).await.unwrap();
            }
        }
        let refused = status(&mut client, &upstream).await.is_err();
        assert_eq!(refused, is_open, "half of the last {calls}");
    }
}

/// Of many concurrent calls after the cooldown, `max_probes` reach the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn half_open_admits_max_probes() {
    let config = BreakerConfig::builder().failure_threshold(1).max_probes(3).build();
    let (clock, breaker) = clocked_with(config.unwrap());
    let_probe(&clock, &breaker);
    let hits = Arc::new(AtomicUsize::new(0));
    let (release, _) = tokio::sync::watch::channel(false);
    let (counted, gate) = (Arc::clone(&hits), release.clone());
    let address = serve(move |_| {
        let (hits, gate) = (Arc::clone(&counted), gate.subscribe());
        hyper::service::service_fn(move |_: Request<Incoming>| {
            hits.fetch_add(1, Ordering::Relaxed);
            let mut gate = gate.clone();
            async move {
                gate.wait_for(|is_open| *is_open).await.unwrap();
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("at last")))
            }
        })
    })
    .await;
    let client = CircuitBreakerLayer::new(Arc::clone(&breaker)).layer(client());
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let client = client.clone();
            let request = Request::get(format!("http://{address}/")).body(Empty::new()).unwrap();
            tokio::spawn(async move { client.oneshot(request).await.map(drop) })
        })
        .collect();
    // All refusals arrive while the probes are in flight.
    let mut outcomes = futures_util::stream::FuturesUnordered::from_iter(calls);
    let mut refused = 0;
    while refused < 61 {
        let outcome = futures_util::StreamExt::next(&mut outcomes).await.unwrap().unwrap();
        let open = CircuitOpen::find_in(outcome.as_ref().unwrap_err()).expect("refused by the breaker");
        assert_eq!(open.retry_after(), None, "a probe is in flight");
        refused += 1;
    }
    release.send_replace(true);
    while let Some(outcome) = futures_util::StreamExt::next(&mut outcomes).await {
        outcome.unwrap().unwrap();
    }
    assert_eq!(hits.load(Ordering::Relaxed), 3);
    assert_eq!(breaker.state(), State::Closed);
}

#[derive(Debug)]
struct Wrapped(Box<dyn Error + Send + Sync>);

impl std::fmt::Display for Wrapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the client failed")
    }
}

impl Error for Wrapped {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

/// `find_in` finds the refusal in the errors of other layers, and in boxed errors of the service.
#[tokio::test]
async fn refusal_is_found_in_every_chain_of_sources() {
    let (_, breaker) = clocked(1);
    breaker.force_open();
    let layer = CircuitBreakerLayer::new(breaker);
    let mut client = ServiceBuilder::new()
        .map_err(|error| std::io::Error::other(Wrapped(Box::new(error))))
        .map_err(|error: CallError<legacy::Error>| Wrapped(error.into()))
        .layer(layer.clone())
        .service(client());
    let error = client.ready().await.unwrap().call(empty()).await.unwrap_err();
    assert!(CircuitOpen::find_in(&error).is_some());

    let boxing = tower::service_fn(|_: Request<()>| ready(Err::<Response<()>, _>(BoxError::from("no"))));
    let layer = layer.classify(Statuses::judge_boxed);
    let mut client = ServiceBuilder::new().map_err(CallError::into_boxed).layer(layer).service(boxing);
    let error: BoxError = client.call(empty()).await.unwrap_err();
    assert!(CircuitOpen::find_in(&*error).is_some());
}

/// Makes this many attempts.
#[derive(Clone)]
struct Attempts(u32);

impl<B: Clone, R, E> tower::retry::Policy<Request<B>, Response<R>, E> for Attempts {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut Request<B>, result: &mut Result<Response<R>, E>) -> Option<Ready<()>> {
        let is_failure = result.as_ref().map_or(true, |answer| answer.status().is_server_error());
        (is_failure && self.0 > 1).then(|| {
            self.0 -= 1;
            ready(())
        })
    }

    fn clone_request(&mut self, request: &Request<B>) -> Option<Request<B>> {
        Some(request.clone())
    }
}

/// The breaker is outside of the retry, so a call that fails in every attempt counts as one failure.
#[tokio::test]
async fn exhausted_retries_count_as_one_failure() {
    let (_, breaker) = clocked(2);
    let upstream = Upstream::start().await;
    upstream.answer(StatusCode::SERVICE_UNAVAILABLE);
    let mut client = ServiceBuilder::new()
        .layer(CircuitBreakerLayer::new(Arc::clone(&breaker)))
        .layer(tower::retry::RetryLayer::new(Attempts(3)))
        .service(client());
    assert_eq!(status(&mut client, &upstream).await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!((upstream.hits(), breaker.state()), (3, State::Closed));
    assert_eq!(breaker.status().consecutive_failures(), 1);
    status(&mut client, &upstream).await.unwrap();
    assert_eq!((upstream.hits(), breaker.state()), (6, State::Open));
    assert!(status(&mut client, &upstream).await.is_err());
    assert_eq!(upstream.hits(), 6, "an open breaker costs no attempts");
}

/// A probe whose future is dropped records no verdict, and another probe may take its place.
#[tokio::test]
async fn cancelled_probe_frees_its_place() {
    let (clock, breaker) = clocked(1);
    breaker.try_acquire().unwrap().failure();
    clock.advance(COOLDOWN);
    let hanging = tower::service_fn(|_: Request<()>| pending::<Result<Response<()>, Infallible>>());
    let mut client = CircuitBreakerLayer::new(Arc::clone(&breaker)).layer(hanging);
    let probe = client.call(empty());
    assert!(client.call(empty()).await.is_err());
    drop(probe);
    assert!(breaker.try_acquire().is_ok());
    assert_eq!(breaker.state(), State::HalfOpen);
}

/// Answers every connection with these bytes, and closes it.
async fn answering(bytes: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 1024];
            _ = stream.read(&mut request).await;
            _ = stream.write_all(bytes).await;
        }
    });
    address
}

/// With `when_body_ends` the verdict comes at the end of the body, not at the head.
///
/// A body that fails after a 200 is a failure, one that is read to its end is a success, and one that is dropped before
/// its end records no verdict.
#[tokio::test]
async fn verdict_is_made_at_the_end_of_the_body() {
    let broken = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello").await;
    let whole = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello").await;
    let nothing = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
    let get = |address: SocketAddr| Request::get(format!("http://{address}/")).body(Empty::<Bytes>::new()).unwrap();

    let (_, at_head) = clocked(1);
    let client_at_head = CircuitBreakerLayer::new(Arc::clone(&at_head)).layer(client());
    let answer = client_at_head.oneshot(get(broken)).await.unwrap();
    assert!(answer.into_body().collect().await.is_err());
    assert_eq!(at_head.state(), State::Closed, "the verdict was made at the head");

    let (clock, breaker) = clocked(1);
    let client = CircuitBreakerLayer::new(Arc::clone(&breaker)).when_body_ends().layer(client());
    let answer = client.clone().oneshot(get(broken)).await.unwrap();
    assert_eq!((answer.status(), breaker.state()), (StatusCode::OK, State::Closed));
    assert!(answer.into_body().collect().await.is_err());
    assert_eq!(breaker.state(), State::Open);

    clock.advance(COOLDOWN);
    let answer = client.clone().oneshot(get(whole)).await.unwrap();
    assert!(client.clone().oneshot(get(whole)).await.is_err(), "the probe lasts as long as its body");
    drop(answer);
    assert_eq!(breaker.state(), State::HalfOpen, "the body was dropped before a verdict");
    let answer = client.clone().oneshot(get(whole)).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "hello");
    assert_eq!(breaker.state(), State::Closed);

    breaker.try_acquire().unwrap().failure();
    clock.advance(COOLDOWN);
    let _unread = client.clone().oneshot(get(nothing)).await.unwrap();
    assert_eq!(breaker.state(), State::Closed, "there is no body to wait for");
}

/// The last frame settles the call.
///
/// A server that forwards a body does not poll it again once `is_end_stream` reports the last frame. Any data would
/// settle a probe, so this call is not a probe.
#[tokio::test]
async fn last_frame_settles_the_call() {
    let (_, breaker) = clocked(2);
    breaker.try_acquire().unwrap().failure();
    let answer = async |_: Request<()>| Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("hello"))));
    let client = CircuitBreakerLayer::new(Arc::clone(&breaker)).when_body_ends().layer(tower::service_fn(answer));
    let mut body = client.oneshot(empty()).await.unwrap().into_body();
    assert_eq!(breaker.status().consecutive_failures(), 1, "the body has not been read");
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "hello");
    assert!(http_body::Body::is_end_stream(&body));
    assert_eq!(breaker.status().consecutive_failures(), 0, "settled by the last frame");
}

/// A closure decides which responses are failures.
#[tokio::test]
async fn closure_classifies_responses() {
    let (_, breaker) = clocked(1);
    let upstream = Upstream::start().await;
    let mut client = CircuitBreakerLayer::new(Arc::clone(&breaker))
        .classify(|answer: Result<&ResponseHead, &legacy::Error>| match answer {
            Ok(head) if head.status == StatusCode::NOT_FOUND => Ending::Failed,
            Ok(_) => Ending::Success,
            Err(_) => Ending::NotSent,
        })
        .layer(client());
    upstream.answer(StatusCode::BAD_GATEWAY);
    status(&mut client, &upstream).await.unwrap();
    let closed_port = ClosedPort::new();
    let uri = format!("http://{}/", closed_port.address());
    assert!(client.call(Request::get(uri).body(Empty::new()).unwrap()).await.is_err());
    assert_eq!(breaker.state(), State::Closed);
    upstream.answer(StatusCode::NOT_FOUND);
    status(&mut client, &upstream).await.unwrap();
    assert_eq!(breaker.state(), State::Open);
}

/// The breaker stays open for as long as the server's `Retry-After` says.
#[tokio::test]
async fn retry_after_of_server_error_keeps_breaker_open() {
    let (_, breaker) = clocked(1);
    let busy =
        answering(b"HTTP/1.1 503 Busy\r\nretry-after: 120\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
    let client = CircuitBreakerLayer::new(Arc::clone(&breaker)).layer(client());
    let request = Request::get(format!("http://{busy}/")).body(Empty::new()).unwrap();
    client.oneshot(request).await.unwrap();
    assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), Some(Duration::from_mins(2)));
}

/// A date is compared with the response's own `Date`, not with the local clock.
#[tokio::test]
async fn retry_after_date_keeps_breaker_open() {
    for retry_after in
        ["Sun, 06 Nov 1994 08:51:37 GMT", "Sunday, 06-Nov-94 08:51:37 GMT", "Sun Nov  6 08:51:37 1994", "120"]
    {
        let (_, breaker) = clocked(1);
        let busy = move |_: Request<()>| {
            let response = Response::builder().status(StatusCode::SERVICE_UNAVAILABLE);
            let response = response.header("date", "Sun, 06 Nov 1994 08:49:37 GMT").header("retry-after", retry_after);
            std::future::ready(Ok::<_, Infallible>(response.body(Empty::<Bytes>::new()).unwrap()))
        };
        let client = CircuitBreakerLayer::new(Arc::clone(&breaker)).layer(tower::service_fn(busy));
        client.oneshot(Request::get("http://busy.example/").body(()).unwrap()).await.unwrap();
        let open = breaker.try_acquire().unwrap_err();
        assert_eq!(open.retry_after(), Some(Duration::from_mins(2)), "{retry_after}");
    }
}

#[tokio::test]
async fn single_breaker_reports_state_changes() {
    let (sender, changes) = std::sync::mpsc::channel();
    let single = Single::builder(config(1)).on_state_change(move |change| sender.send(change.to_string()).unwrap());
    let mut client = CircuitBreakerLayer::new(single.build()).layer(tower::service_fn(failing));
    client.call(Request::get("http://a.example/").body(()).unwrap()).await.unwrap();
    assert!(client.call(Request::get("http://b.example/").body(()).unwrap()).await.is_err());
    assert_eq!(changes.try_iter().collect::<Vec<_>>(), ["circuit closed -> open: consecutive failures"]);
}

/// hyper's own services, without tower: a connection of HTTP/2.
#[tokio::test]
async fn hyper_connection_is_a_service() {
    use hyper::service::{Service, service_fn};
    let (_, breaker) = clocked(2);
    let upstream = Upstream::start().await;
    let stream = TokioIo::new(TcpStream::connect(upstream.address).await.unwrap());
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let send = service_fn(move |request: Request<Empty<Bytes>>| {
        let mut sender = sender.clone();
        async move { sender.send_request(request).await }
    });
    let client = CircuitBreakerLayer::new(breaker).layer(send);
    upstream.answer(StatusCode::BAD_GATEWAY);
    for _ in 0..2 {
        assert_eq!(client.call(upstream.request()).await.unwrap().status(), StatusCode::BAD_GATEWAY);
    }
    assert!(matches!(client.call(upstream.request()).await, Err(CallError::Refused(_))));
    assert_eq!(upstream.hits(), 2);
}

/// reqwest has its own requests and responses, which convert to those of `http` and back.
#[tokio::test]
async fn reqwest_client_is_a_service_by_a_closure() {
    let (_, breaker) = clocked(2);
    let upstream = Upstream::start().await;
    let client = reqwest::Client::new();
    let send = tower::service_fn(move |request: Request<reqwest::Body>| {
        let client = client.clone();
        async move { client.execute(request.try_into()?).await.map(Response::<reqwest::Body>::from) }
    });
    let mut client = CircuitBreakerLayer::new(Arc::clone(&breaker)).layer(send);
    let request = || Request::get(format!("http://{}/", upstream.address)).body(reqwest::Body::default()).unwrap();
    assert_eq!(client.call(request()).await.unwrap().status(), StatusCode::OK);
    upstream.answer(StatusCode::BAD_GATEWAY);
    for _ in 0..2 {
        assert_eq!(client.call(request()).await.unwrap().status(), StatusCode::BAD_GATEWAY);
    }
    let error = client.call(request()).await.unwrap_err();
    assert!(CircuitOpen::find_in(&error).is_some());
    assert_eq!(upstream.hits(), 3);
}

/// One for each kind of method.
#[tokio::test]
async fn breakers_are_chosen_by_a_key_of_the_request() {
    let breakers = Arc::new(KeyedCircuitBreaker::new(BreakerConfig::DEFAULT, 2).unwrap());
    breakers.get_or_create(&false).force_open();
    let by_method = PerKey::new(|head: &Head<'_>| head.method.is_safe(), breakers);
    let mut client = CircuitBreakerLayer::new(by_method).layer(tower::service_fn(failing));
    assert!(client.call(Request::post("/").body(()).unwrap()).await.is_err());
    assert!(client.call(Request::get("/").body(()).unwrap()).await.is_ok());
}

/// Responds after the time in the request's path, with the status in it.
async fn slow(request: Request<()>) -> Result<Response<()>, std::io::Error> {
    let (millis, status) = request.uri().path()[1..].split_once('/').unwrap();
    tokio::time::sleep(Duration::from_millis(millis.parse().unwrap())).await;
    match status {
        "error" => Err(std::io::Error::other("the time has passed")),
        status => Ok(Response::builder().status(status).body(()).unwrap()),
    }
}

#[tokio::test]
async fn too_short_a_deadline_is_no_failure_of_the_server() {
    const MIN_BUDGET: Duration = Duration::from_millis(200);
    let long = Some(Duration::from_mins(1));
    let short = Some(Duration::from_millis(40));
    for (path, given, is_failure) in [
        // 504 counts as the caller's short deadline, whichever server sent it.
        ("/0/504", short, false),
        ("/0/504", long, true),
        ("/0/504", None, true),
        // Another error, after the deadline.
        ("/60/error", short, false),
        ("/60/503", short, false),
        ("/60/error", long, true),
        // Before the deadline.
        ("/0/error", short, true),
        ("/0/503", short, true),
    ] {
        for min_budget in [MIN_BUDGET, Duration::ZERO] {
            let breaker = Arc::new(CircuitBreaker::new(config(1)));
            let layer = CircuitBreakerLayer::new(Arc::clone(&breaker)).min_budget(min_budget);
            let mut request = Request::get(path).body(()).unwrap();
            if let Some(given) = given {
                request.extensions_mut().insert(damper::Deadline::after(given));
            }
            _ = layer.layer(tower::service_fn(slow)).call(request).await;
            let expected = is_failure || min_budget.is_zero();
            assert_eq!(breaker.state() == State::Open, expected, "{path} given {given:?}, of {min_budget:?}");
        }
    }
}

/// A probe with too little time records no verdict and frees its place.
#[tokio::test]
async fn probe_with_too_little_time_frees_its_place() {
    let (clock, breaker) = clocked(1);
    let_probe(&clock, &breaker);
    let layer = CircuitBreakerLayer::new(Arc::clone(&breaker)).min_budget(Duration::from_secs(1));
    let mut request = Request::get("/0/504").body(()).unwrap();
    request.extensions_mut().insert(damper::Deadline::after(Duration::from_millis(40)));
    layer.layer(tower::service_fn(slow)).call(request).await.unwrap();
    assert_eq!((breaker.state(), breaker.status().probes_in_flight()), (State::HalfOpen, 0));
}

/// A burst over the client's own limit or a full bulkhead says nothing about the host.
#[tokio::test]
async fn refusals_behind_the_breaker_do_not_open_it() {
    let (_, breaker) = clocked(1);
    let limiter = Arc::new(damper::RateLimiter::with_clock(damper::Quota::per_hour(1), damper::ManualClock::new()));
    let answer = tower::service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(()))));
    let mut client = ServiceBuilder::new()
        .layer(CircuitBreakerLayer::new(Arc::clone(&breaker)))
        .layer(damper::tower::GateLayer::limit(limiter))
        .service(answer);
    assert!(client.call(empty()).await.is_ok());
    for _ in 0..5 {
        let error = client.call(empty()).await.unwrap_err();
        assert!(damper::is_refusal(&error), "{error}");
    }
    let full =
        |_: Request<()>| ready(Err::<Response<Empty<Bytes>>, _>(damper::Bulkhead::new(0).try_acquire().unwrap_err()));
    let layer = CircuitBreakerLayer::new(Arc::clone(&breaker)).when_body_ends();
    assert!(layer.layer(tower::service_fn(full)).call(empty()).await.is_err());
    assert_eq!((breaker.state(), breaker.status().consecutive_failures()), (State::Closed, 0));
}

/// Of errors in boxes, the server's failures count and refusals do not.
#[tokio::test]
async fn boxed_errors_are_classified_by_their_content() {
    fn error(is_refusal: bool) -> BoxError {
        if is_refusal { damper::Bulkhead::new(0).try_acquire().unwrap_err().into() } else { "down".into() }
    }
    for is_refusal in [true, false] {
        let (_, breaker) = clocked(1);
        let layer = CircuitBreakerLayer::new(Arc::clone(&breaker)).classify(Statuses::judge_boxed);
        let mut client =
            layer.layer(tower::service_fn(move |_: Request<()>| ready(Err::<Response<()>, _>(error(is_refusal)))));
        assert!(client.call(empty()).await.is_err());
        assert_eq!(breaker.state() == State::Closed, is_refusal);
    }
}

/// Sends a request with this much time to a slow server. Returns whether the breaker opened.
async fn opens(min_budget: impl Into<MinBudget>, host: &str, path: &str, given: Duration) -> bool {
    let breaker = Arc::new(CircuitBreaker::new(config(1)));
    let layer = CircuitBreakerLayer::new(Arc::clone(&breaker)).min_budget(min_budget);
    let mut request = Request::get(format!("http://{host}{path}")).body(()).unwrap();
    request.extensions_mut().insert(damper::Deadline::after(given));
    _ = tokio::time::timeout(given, layer.layer(tower::service_fn(slow)).call(request)).await;
    breaker.state() == State::Open
}

/// Nor one that hangs for that long: the call is dropped at its deadline.
#[tokio::test]
async fn deadline_before_the_usual_latency_is_no_failure_of_the_server() {
    let given = Duration::from_millis(500);
    for path in ["/0/504", "/60000/200"] {
        for (usual, is_failure) in [(Duration::from_mins(1), false), (Duration::from_millis(1), true)] {
            let known = Arc::new(UsualLatency::new().starting_with(usual));
            assert_eq!(opens(known, "sick.example.com", path, given).await, is_failure, "{path}, usually {usual:?}");
        }
        for (given, is_failure) in [(given, false), (Duration::from_secs(1), true)] {
            let unknown = Arc::new(UsualLatency::new());
            assert_eq!(opens(unknown, "sick.example.com", path, given).await, is_failure, "{path}, without a history");
        }
    }
}

#[tokio::test]
async fn usual_latency_is_that_of_the_host() {
    let hosts = Arc::new(BoundedStore::new(10).unwrap());
    hosts.get_or_insert_with("slow.example.com:80", || UsualLatency::new().starting_with(Duration::from_mins(1)));
    let second = Duration::from_secs(1);
    assert!(!opens(Arc::clone(&hosts), "SLOW.example.com.", "/0/504", second).await);
    assert!(opens(Arc::clone(&hosts), "fast.example.com", "/0/504", second).await);
    assert!(opens(MinBudget::usual_per_host(), "slow.example.com", "/0/504", second).await, "nothing is known of it");
    assert_eq!(hosts.len(), 2);
}

#[tokio::test]
async fn layer_measures_successes_and_counts_failures_of_calls_with_enough_time() {
    let usual = Arc::new(UsualLatency::new());
    let layer = CircuitBreakerLayer::new(Arc::new(CircuitBreaker::<_>::default())).min_budget(Arc::clone(&usual));
    let mut client = layer.layer(tower::service_fn(slow));
    let recorded = |usual: &UsualLatency| format!("{usual:?}");
    let unused = recorded(&usual);
    // Too little time: neither success nor failure.
    let mut request = Request::get("/0/504").body(()).unwrap();
    request.extensions_mut().insert(damper::Deadline::after(Duration::ZERO));
    _ = client.call(request).await;
    // The caller went away.
    let hangs = client.call(Request::get("/60000/200").body(()).unwrap());
    assert!(tokio::time::timeout(Duration::from_millis(5), hangs).await.is_err());
    assert_eq!(recorded(&usual), unused);
    for path in ["/10/200", "/0/503", "/0/error"] {
        let before = recorded(&usual);
        _ = client.call(Request::get(path).body(()).unwrap()).await;
        assert_ne!(recorded(&usual), before, "{path}");
    }
}

/// `min_budget` stays in force, whatever is set after it.
#[tokio::test]
async fn min_budget_may_come_before_the_completion() {
    let (_, breaker) = clocked(1);
    let layer =
        CircuitBreakerLayer::new(Arc::clone(&breaker)).min_budget(Duration::from_secs(1)).completion(AtHead::new());
    let mut request = Request::get("/0/504").body(()).unwrap();
    request.extensions_mut().insert(damper::Deadline::after(Duration::from_millis(40)));
    layer.layer(tower::service_fn(slow)).call(request).await.unwrap();
    assert_eq!(breaker.state(), State::Closed);
}

/// A host hangs.
///
/// The deadline layer or the caller drops the call when its deadline passes.
#[tokio::test]
async fn call_that_hangs_until_its_deadline_is_a_failure() {
    let short = Duration::from_millis(20);
    for (given, min_budget, cancelled_after, is_failure) in [
        (short, Duration::ZERO, short * 2, true),
        (short, Duration::from_secs(1), short * 2, false), // too little time
        (Duration::from_mins(1), Duration::ZERO, short, false), // the caller went away
        (Duration::ZERO, Duration::ZERO, short, false),    // no time at all
    ] {
        for is_in_body in [false, true] {
            let (_, breaker) = clocked(1);
            let layer = CircuitBreakerLayer::new(Arc::clone(&breaker)).min_budget(min_budget).when_body_ends();
            let mut client = layer.layer(tower::service_fn(move |_: Request<()>| async move {
                let silent = futures_util::stream::pending::<Result<http_body::Frame<Bytes>, Infallible>>();
                let response = Response::new(http_body_util::StreamBody::new(silent));
                if is_in_body { Ok::<_, Infallible>(response) } else { pending().await }
            }));
            let mut request = Request::new(());
            request.extensions_mut().insert(damper::Deadline::after(given));
            let call = async { client.call(request).await.unwrap().into_body().collect().await };
            assert!(tokio::time::timeout(cancelled_after, call).await.is_err());
            let state = if is_failure { State::Open } else { State::Closed };
            assert_eq!(breaker.state(), state, "given {given:?} of {min_budget:?}, in the body: {is_in_body}");
        }
    }
}

/// The server had data ready, but the caller did not read it in time.
#[tokio::test]
async fn slow_reader_is_no_failure_of_the_server() {
    let (_, breaker) = clocked(1);
    let layer = CircuitBreakerLayer::new(Arc::clone(&breaker)).when_body_ends();
    let mut client = layer.layer(tower::service_fn(|_: Request<()>| {
        let data = futures_util::stream::repeat_with(|| Ok::<_, Infallible>(http_body::Frame::data(Bytes::from("a"))));
        ready(Ok::<_, Infallible>(Response::new(http_body_util::StreamBody::new(data))))
    }));
    let mut request = Request::new(());
    request.extensions_mut().insert(damper::Deadline::after(Duration::from_millis(20)));
    let mut body = client.call(request).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(40)).await;
    drop(body);
    assert_eq!(breaker.state(), State::Closed);
}

/// Whether or not the server is known yet.
#[tokio::test]
async fn callers_with_short_deadlines_do_not_open_the_breaker_of_others() {
    for successes_before in [0, 1, 20] {
        let breaker = Arc::new(CircuitBreaker::<_>::default());
        let mut client = CircuitBreakerLayer::new(Arc::clone(&breaker)).layer(tower::service_fn(slow));
        let with_deadline = |path: &str, given| {
            let mut request = Request::get(path).body(()).unwrap();
            request.extensions_mut().insert(damper::Deadline::after(given));
            request
        };
        for _ in 0..successes_before {
            assert!(client.call(with_deadline("/10/200", Duration::from_secs(5))).await.is_ok());
        }
        let given = Duration::from_millis(1);
        for _ in 0..10 {
            // The deadline layer outside drops the call, which would take a second.
            assert!(tokio::time::timeout(given, client.call(with_deadline("/1000/200", given))).await.is_err());
        }
        assert_eq!(breaker.state(), State::Closed, "after {successes_before} successes");
    }
}

/// The measurement begins with the first call that has a deadline.
#[tokio::test]
async fn calls_without_deadlines_are_not_measured() {
    let layer = CircuitBreakerLayer::new(Arc::new(CircuitBreaker::<_>::default()));
    let mut client = layer.layer(tower::service_fn(slow));
    let mut allocations = |request| {
        let allocated = allocation_counter::measure(|| drop(client.call(request)));
        allocated.count_total
    };
    let without = || Request::get("/0/200").body(()).unwrap();
    let mut with = without();
    with.extensions_mut().insert(damper::Deadline::after(Duration::from_secs(1)));
    let unmeasured = allocations(without());
    assert!(allocations(with) > unmeasured);
    assert_eq!(allocations(without()), unmeasured + 1, "a measurement is one allocation");
}
