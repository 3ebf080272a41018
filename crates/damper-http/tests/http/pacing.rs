//! Paced clients, over real sockets, on tokio's paused time with scripted services, and in threads.

use crate::support::{hello, serve};
use crate::tokio_clock::TokioClock;
use bytes::Bytes;
use damper::Reads;
use damper::breaker::State;
use damper::gate::SelectedPacer;
use damper::http::{
    BufferedBody, CircuitBreakerLayer, ClientDeadlineLayer, Head, Headers, Hosts, HttpProtocol, PacingLayer,
    RateLimitLayer, ResponseHead, StackPart, TimeoutUnit, client_stack,
};
use damper::retry::{Budget, GaveUp, Hedge, HedgeConfig, Jitter, RetryBudgetConfig};
use damper::throttle::{Hints, Level, Moment, NoPacing, PaceTooSlow, PacedRetry, Pacer, RemainingDecrease, Strategy};
use damper::{
    Backoff, BreakerConfig, CallError, CircuitBreaker, Deadline, Quota, RateLimiter, Retry, RetryBudget, is_refusal,
};
use http::header::{DATE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use std::convert::Infallible;
use std::error::Error;
use std::future::pending;
use std::io;
use std::iter::successors;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const QUOTA: Quota = Quota::per_hour(4_500);

type Answer = Response<Empty<Bytes>>;

fn answer(status: StatusCode) -> Answer {
    Response::builder().status(status).body(Empty::new()).unwrap()
}

fn rejection(retry_after: &'static str) -> Answer {
    let mut answer = answer(StatusCode::TOO_MANY_REQUESTS);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(retry_after));
    answer
}

/// The arrival times of requests, on tokio's clock.
#[derive(Clone)]
struct Arrivals {
    start: Instant,
    at: Arc<Mutex<Vec<Duration>>>,
}

impl Arrivals {
    fn new() -> Self {
        Self { start: Instant::now(), at: Arc::default() }
    }

    fn count(&self) -> usize {
        self.at.lock().unwrap().len()
    }

    fn all(&self) -> Vec<Duration> {
        self.at.lock().unwrap().clone()
    }

    /// Returns a server that answers by the number of the request, counted from 0.
    fn server<F: Fn(usize) -> Answer + Clone + Send + 'static>(
        &self,
        answer: F,
    ) -> impl Service<Request<Full<Bytes>>, Response = Answer, Error = io::Error, Future: Send> + Clone + Send + use<F>
    {
        let this = self.clone();
        service_fn(move |_: Request<Full<Bytes>>| {
            let number = {
                let mut at = this.at.lock().unwrap();
                at.push(this.start.elapsed());
                at.len() - 1
            };
            let answer = answer(number);
            async move { Ok(answer) }
        })
    }
}

fn request() -> Request<Full<Bytes>> {
    Request::get("http://api.example.com/").body(Full::default()).unwrap()
}

fn by(deadline: Duration) -> Request<Full<Bytes>> {
    let mut request = request();
    request.extensions_mut().insert(Deadline::after(deadline));
    request
}

/// Returns a pacer whose calls all sleep for this time, plus up to a tenth.
fn sleeping(sleep: Duration) -> Arc<Pacer<RemainingDecrease>> {
    Arc::new(Pacer::with_strategy(RemainingDecrease::new(QUOTA).start(sleep).unwrap()))
}

/// Returns a pacer that sleeps only for as long as the server asks.
fn obedient() -> Arc<Pacer<NoPacing>> {
    Arc::new(Pacer::with_strategy(NoPacing))
}

fn on_tokio_time<S: Strategy>(strategy: S) -> Arc<Pacer<S, TokioClock>> {
    Arc::new(Pacer::with_clock(strategy, TokioClock(Instant::now()), 7))
}

#[tokio::test(start_paused = true)]
async fn call_sleeps_first_and_rejected_call_is_made_again() {
    let arrivals = Arrivals::new();
    let server =
        arrivals.server(|number| answer(if number == 0 { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK }));
    let mut client = PacingLayer::new(sleeping(8 * SECOND)).layer(server);
    let response = client.ready().await.unwrap().call(request()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let [first, second] = arrivals.all()[..] else { panic!("{:?}", arrivals.all()) };
    assert!((8 * SECOND..9 * SECOND).contains(&first), "{first:?}");
    // The rejection adds 0.8 s to the sleep.
    let gap = second.saturating_sub(first);
    assert!((8_800..9_700).contains(&gap.as_millis()), "{gap:?}");
}

#[tokio::test(start_paused = true)]
async fn retry_after_in_seconds_and_as_a_date_stops_all_calls_until_then() {
    for form in ["3", "Sun, 06 Nov 1994 08:49:40 GMT"] {
        let arrivals = Arrivals::new();
        let server = arrivals.server(move |number| {
            if number > 0 {
                return answer(StatusCode::OK);
            }
            let mut answer = rejection(form);
            answer.headers_mut().insert(DATE, HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"));
            answer
        });
        let client = PacingLayer::new(on_tokio_time(NoPacing)).layer(server);
        let first = tokio::spawn(client.clone().oneshot(request()));
        tokio::time::sleep(SECOND / 2).await;
        // Another caller, which has seen no rejection.
        let second = client.oneshot(request()).await.unwrap();
        assert_eq!((first.await.unwrap().unwrap().status(), second.status()), (StatusCode::OK, StatusCode::OK));
        let at = arrivals.all();
        assert!(at.len() == 3 && at[1..].iter().all(|at| (3_000..3_500).contains(&at.as_millis())), "{form}: {at:?}");
    }
}

#[test]
fn hints_are_read_from_every_header_of_rate_limits() {
    let read = |status: u16, headers: &[(&'static str, &'static str)]| {
        let mut response = answer(StatusCode::from_u16(status).unwrap());
        for (name, value) in headers {
            response.headers_mut().append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        HttpProtocol.read_from(&ResponseHead::of(&response))
    };
    let minute = Some(60 * SECOND);
    let draft = [("ratelimit-policy", r#""hour";q=1000;w=3600"#), ("ratelimit", r#""hour";r=20;t=60"#)];
    let hints = read(200, &draft);
    assert!(hints.is_accepted());
    assert_eq!(
        (hints.remaining, hints.limit, hints.resets_in, hints.retry_after),
        (Some(20), Some(1_000), minute, None)
    );
    let custom = [("x-ratelimit-limit", "1000"), ("x-ratelimit-remaining", "20"), ("x-ratelimit-reset", "60")];
    assert_eq!(read(200, &custom), hints);
    // If there are several limits, the one with the fewest requests left counts.
    let several = [("ratelimit", r#""hour";r=20;t=60, "day";r=3;t=7200"#)];
    assert_eq!(read(200, &several).remaining, Some(3));
    let rejected = read(429, &[("retry-after", "7"), draft[1]]);
    assert!(rejected.is_rejected());
    assert_eq!((rejected.remaining, rejected.retry_after), (Some(20), Some(7 * SECOND)));
    assert_eq!(read(429, &[]), Hints::REJECTED);
    // A redirection or an outage has a `Retry-After` of another kind.
    assert_eq!(read(301, &[("retry-after", "7")]), Hints::ACCEPTED);
    assert_eq!(read(503, &[("retry-after", "7")]), Hints::UNKNOWN);
    assert_eq!(read(500, &[("x-ratelimit-remaining", "20")]), Hints::ACCEPTED.remaining(Some(20)));
    assert_eq!(read(200, &[("ratelimit", "malformed")]), Hints::ACCEPTED);
}

#[tokio::test(start_paused = true)]
async fn hints_of_your_own_replace_those_of_http() {
    let arrivals = Arrivals::new();
    let server = arrivals.server(|number| answer(if number == 0 { StatusCode::FORBIDDEN } else { StatusCode::OK }));
    let layer = PacingLayer::new(on_tokio_time(NoPacing)).hints(|head: &ResponseHead<'_>| match head.status {
        StatusCode::FORBIDDEN => Hints::REJECTED.retry_after(Some(4 * SECOND)),
        _ => Hints::ACCEPTED,
    });
    let response = layer.layer(server).oneshot(request()).await.unwrap();
    assert_eq!((response.status(), arrivals.count()), (StatusCode::OK, 2));
    assert!(arrivals.all()[1] >= 4 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn call_that_is_given_up_returns_the_last_response_with_the_reason() {
    static SPENT: RetryBudget = RetryBudget::DEFAULT;
    let reason = async |retry: PacedRetry<&'static RetryBudget>, arrivals: &Arrivals, header: &'static str| {
        let client = PacingLayer::new(obedient()).retry(retry).layer(arrivals.server(move |_| rejection(header)));
        let response = client.oneshot(request()).await.unwrap();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[RETRY_AFTER], header);
        *response.extensions().get::<GaveUp>().unwrap()
    };
    let arrivals = Arrivals::new();
    assert_eq!(reason(PacedRetry::new(3).budget(&SPENT), &arrivals, "0").await, GaveUp::Attempts);
    assert_eq!(arrivals.count(), 3);
    let arrivals = Arrivals::new();
    let brief = PacedRetry::new(3).max_time(2 * SECOND).budget(&SPENT);
    assert_eq!(reason(brief, &arrivals, "3").await, GaveUp::Deadline { hint: Some(3 * SECOND) });
    assert_eq!(arrivals.count(), 1);
    while damper::retry::Budget::try_withdraw(&SPENT) {}
    let arrivals = Arrivals::new();
    assert_eq!(reason(PacedRetry::new(3).budget(&SPENT), &arrivals, "0").await, GaveUp::Budget);
    assert_eq!(arrivals.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn deadline_that_leaves_no_time_for_the_retry_returns_the_response_at_once() {
    let arrivals = Arrivals::new();
    let client = PacingLayer::new(obedient()).layer(arrivals.server(|_| rejection("30")));
    let response = client.oneshot(by(10 * SECOND)).await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    let asked_for = Some(30 * SECOND);
    assert_eq!(response.extensions().get(), Some(&GaveUp::Deadline { hint: asked_for }));
    assert_eq!((arrivals.count(), arrivals.start.elapsed()), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn call_whose_sleep_would_outlast_its_deadline_fails_at_once() {
    let arrivals = Arrivals::new();
    let layer = PacingLayer::new(sleeping(8 * SECOND));
    let error = layer.layer(arrivals.server(|_| answer(StatusCode::OK))).oneshot(by(2 * SECOND)).await.unwrap_err();
    let GaveUp::Paced(too_slow) = error.reason() else { panic!("{error}") };
    assert_eq!((error.attempts(), PaceTooSlow::find_in(&error)), (0, Some(&too_slow)));
    assert!(too_slow.retry_after() >= 8 * SECOND && too_slow.left() <= 2 * SECOND && is_refusal(&error));
    let sentences: Vec<_> =
        successors(Some(&error as &(dyn Error + 'static)), |&error| error.source()).map(ToString::to_string).collect();
    assert_eq!(sentences, ["gave up after 0 attempts in 0 ns", "no time for the pacing", &too_slow.to_string()]);
    // The same holds if the layer only paces.
    let layer = layer.without_retries();
    let error = layer.layer(arrivals.server(|_| answer(StatusCode::OK))).oneshot(by(2 * SECOND)).await.unwrap_err();
    assert!(matches!(error, CallError::Refused(_)) && is_refusal(&error));
    // The policy may set the time of the call.
    let layer = PacingLayer::new(sleeping(8 * SECOND)).retry(PacedRetry::new(3).max_time(SECOND));
    let error = layer.layer(arrivals.server(|_| answer(StatusCode::OK))).oneshot(request()).await.unwrap_err();
    assert!(matches!(error.reason(), GaveUp::Paced(_)), "{error}");
    assert_eq!((arrivals.count(), arrivals.start.elapsed()), (0, Duration::ZERO));
    // A call whose sleep fits is made.
    let layer = PacingLayer::new(sleeping(8 * SECOND));
    layer.layer(arrivals.server(|_| answer(StatusCode::OK))).oneshot(by(20 * SECOND)).await.unwrap();
    assert_eq!(arrivals.count(), 1);
}

/// An outer breaker or retry treats the error as a refusal, which says nothing about the server.
#[tokio::test(start_paused = true)]
async fn breaker_outside_ignores_calls_that_are_too_slow() {
    let arrivals = Arrivals::new();
    let breaker = Arc::new(CircuitBreaker::new(BreakerConfig::builder().failure_threshold(1).build().unwrap()));
    let client = ServiceBuilder::new()
        .layer(CircuitBreakerLayer::new(Arc::clone(&breaker)))
        .layer(PacingLayer::new(sleeping(8 * SECOND)))
        .service(arrivals.server(|_| answer(StatusCode::OK)));
    for _ in 0..3 {
        assert!(client.clone().oneshot(by(SECOND)).await.is_err());
    }
    assert_eq!(breaker.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn server_is_told_the_time_that_is_left_after_the_sleep() {
    const TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");
    let told = Arc::new(AtomicU32::new(0));
    let server = {
        let told = Arc::clone(&told);
        service_fn(move |request: Request<Full<Bytes>>| {
            told.store(request.headers()[TIMEOUT].to_str().unwrap().parse().unwrap(), Ordering::Relaxed);
            async { Ok::<_, io::Error>(answer(StatusCode::OK)) }
        })
    };
    // Deadlines are on the system's clock, so these sleeps are real.
    tokio::time::resume();
    let deadlines = ClientDeadlineLayer::new(MINUTE).header(TIMEOUT, TimeoutUnit::Milliseconds);
    let pacing = PacingLayer::new(sleeping(SECOND / 2));
    let alone = deadlines.layer(pacing.layer(server.clone()));
    alone.oneshot(request()).await.unwrap();
    assert!((1..=59_500).contains(&told.swap(0, Ordering::Relaxed)));
    let only_paced = deadlines.layer(pacing.without_retries().layer(server));
    only_paced.oneshot(request()).await.unwrap();
    assert!((1..=59_500).contains(&told.load(Ordering::Relaxed)));
}

/// Neither a call nor a retry sleeps if that would leave the server no time.
#[tokio::test(start_paused = true)]
async fn no_sleep_reaches_into_the_margin_of_the_deadline() {
    let arrivals = Arrivals::new();
    let deadlines = ClientDeadlineLayer::new(MINUTE).margin(MINUTE.saturating_sub(5 * SECOND));
    let pacing = PacingLayer::new(sleeping(8 * SECOND));
    let error = deadlines.layer(pacing.layer(arrivals.server(|_| answer(StatusCode::OK)))).oneshot(request()).await;
    assert!(PaceTooSlow::find_in(&*error.unwrap_err()).is_some());
    assert_eq!((arrivals.count(), arrivals.start.elapsed()), (0, Duration::ZERO));
    let client = deadlines.layer(PacingLayer::new(obedient()).layer(arrivals.server(|_| rejection("30"))));
    assert_eq!(client.oneshot(request()).await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!((arrivals.count(), arrivals.start.elapsed()), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn without_retries_a_rejection_is_returned_and_learned_from() {
    let arrivals = Arrivals::new();
    let pacer = on_tokio_time(NoPacing);
    let server = arrivals.server(|number| if number == 0 { rejection("5") } else { answer(StatusCode::OK) });
    let client = PacingLayer::new(Arc::clone(&pacer)).without_retries().layer(server);
    assert_eq!(client.clone().oneshot(request()).await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(pacer.peek(), 5 * SECOND);
    assert_eq!(client.oneshot(request()).await.unwrap().status(), StatusCode::OK);
    assert!(arrivals.all()[1] >= 5 * SECOND, "{:?}", arrivals.all());
}

#[tokio::test(start_paused = true)]
async fn transport_errors_reach_the_caller_and_are_not_retried() {
    let calls = Arc::new(AtomicU32::new(0));
    let server = {
        let calls = Arc::clone(&calls);
        service_fn(move |_: Request<Full<Bytes>>| {
            calls.fetch_add(1, Ordering::Relaxed);
            async { Err::<Answer, _>(io::Error::from(io::ErrorKind::ConnectionReset)) }
        })
    };
    let pacer = sleeping(SECOND);
    let before = pacer.peek();
    let layer = PacingLayer::new(Arc::clone(&pacer));
    let error = layer.layer(server.clone()).oneshot(request()).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::NotRetryable, 1));
    assert_eq!(error.into_error().unwrap().kind(), io::ErrorKind::ConnectionReset);
    let error = layer.without_retries().layer(server).oneshot(request()).await.unwrap_err();
    assert_eq!(error.into_failed().unwrap().kind(), io::ErrorKind::ConnectionReset);
    assert_eq!((calls.load(Ordering::Relaxed), pacer.peek()), (2, before));
}

/// Boxed errors, which tower's own layers return, do not implement `Error`.
#[tokio::test(start_paused = true)]
async fn services_with_boxed_errors_are_paced_too() {
    let server = service_fn(async |_: Request<Full<Bytes>>| Err::<Answer, Box<dyn Error + Send + Sync>>("lost".into()));
    let error = PacingLayer::new(obedient()).layer(server).oneshot(request()).await.unwrap_err();
    assert_eq!(error.into_error().unwrap().to_string(), "lost");
}

#[tokio::test(start_paused = true)]
async fn dropped_call_leaves_nothing_behind() {
    let arrivals = Arrivals::new();
    let pacer = sleeping(8 * SECOND);
    let before = pacer.peek();
    let alone = PacingLayer::new(Arc::clone(&pacer)).layer(arrivals.server(|_| answer(StatusCode::OK)));
    let only_paced =
        PacingLayer::new(Arc::clone(&pacer)).without_retries().layer(arrivals.server(|_| answer(StatusCode::OK)));
    // The calls are dropped while they sleep.
    assert!(tokio::time::timeout(SECOND, alone.clone().oneshot(request())).await.is_err());
    assert!(tokio::time::timeout(SECOND, only_paced.oneshot(request())).await.is_err());
    assert_eq!((arrivals.count(), pacer.peek()), (0, before));
    // The calls are dropped while the server works.
    let hanging = service_fn(async |_: Request<Full<Bytes>>| pending::<Result<Answer, io::Error>>().await);
    let client = PacingLayer::new(Arc::clone(&pacer)).layer(hanging);
    assert!(tokio::time::timeout(20 * SECOND, client.oneshot(request())).await.is_err());
    assert_eq!((Arc::strong_count(&pacer), pacer.peek()), (2, before), "`alone` and the test have it");
    alone.oneshot(request()).await.unwrap();
    assert_eq!(arrivals.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn post_is_made_again_with_the_same_body() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let server = {
        let bodies = Arc::clone(&bodies);
        service_fn(move |request: Request<Full<Bytes>>| {
            let bodies = Arc::clone(&bodies);
            async move {
                assert_eq!(request.method(), Method::POST);
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let is_first = {
                    let mut bodies = bodies.lock().unwrap();
                    bodies.push(body);
                    bodies.len() == 1
                };
                Ok::<_, io::Error>(if is_first { rejection("1") } else { answer(StatusCode::CREATED) })
            }
        })
    };
    let post = Request::post("http://api.example.com/").body(Full::from("order 7")).unwrap();
    let response = PacingLayer::new(obedient()).layer(server).oneshot(post).await.unwrap();
    assert_eq!(response.status(), StatusCode::CREATED);
    assert_eq!(*bodies.lock().unwrap(), ["order 7", "order 7"]);
}

#[tokio::test(start_paused = true)]
async fn stream_is_made_again_while_it_is_kept() {
    type Upload = StreamBody<futures_util::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;
    let upload = || -> Upload {
        let frames = ["one", "two"].map(|data| Ok(Frame::data(Bytes::from(data))));
        StreamBody::new(futures_util::stream::iter(Vec::from(frames)))
    };
    for (limit, status, requests) in [(1024, StatusCode::OK, 2), (16, StatusCode::TOO_MANY_REQUESTS, 1)] {
        let calls = Arc::new(AtomicU32::new(0));
        let server = {
            let calls = Arc::clone(&calls);
            service_fn(move |request: Request<BufferedBody<Upload>>| {
                let calls = Arc::clone(&calls);
                async move {
                    assert_eq!(request.into_body().collect().await.unwrap().to_bytes(), "onetwo");
                    let is_first = calls.fetch_add(1, Ordering::Relaxed) == 0;
                    Ok::<_, io::Error>(if is_first { rejection("1") } else { answer(StatusCode::OK) })
                }
            })
        };
        let client = PacingLayer::new(obedient()).buffering(limit).layer(server);
        let response = client.oneshot(Request::post("http://api.example.com/").body(upload()).unwrap()).await.unwrap();
        assert_eq!((response.status(), calls.load(Ordering::Relaxed)), (status, requests));
        let reason = response.extensions().get();
        assert_eq!(reason, (requests == 1).then_some(&GaveUp::NotRetryable));
    }
}

#[tokio::test(start_paused = true)]
async fn hosts_are_paced_apart() {
    let arrivals = Arrivals::new();
    let server = {
        let arrivals = arrivals.clone();
        service_fn(move |request: Request<Full<Bytes>>| {
            let is_first = request.uri().host() == Some("busy.example.com") && arrivals.count() == 0;
            arrivals.at.lock().unwrap().push(arrivals.start.elapsed());
            async move { Ok::<_, io::Error>(if is_first { rejection("60") } else { answer(StatusCode::OK) }) }
        })
    };
    let clock = TokioClock(Instant::now());
    let hosts = Hosts::by(64, move || Pacer::with_clock(Level::new(QUOTA), clock, 7)).unwrap();
    let client = PacingLayer::new(hosts.clone()).layer(server);
    let to = |host: &str| Request::get(format!("http://{host}/")).body(Full::default()).unwrap();
    let busy = tokio::spawn(client.clone().oneshot(to("busy.example.com")));
    tokio::time::sleep(SECOND).await;
    client.clone().oneshot(to("idle.example.com")).await.unwrap();
    assert!(arrivals.start.elapsed() < 2 * SECOND, "{:?}", arrivals.start.elapsed());
    busy.await.unwrap().unwrap();
    assert!(arrivals.start.elapsed() >= 60 * SECOND);
    let mut names: Vec<_> = hosts.store().iter().map(|(host, _)| host).collect();
    names.sort();
    assert_eq!(names, ["busy.example.com:80", "idle.example.com:80"]);
}

#[tokio::test(start_paused = true)]
async fn pacers_of_your_own_choose_by_the_request() {
    let arrivals = Arrivals::new();
    let (reads, writes) = (sleeping(Duration::ZERO), sleeping(8 * SECOND));
    let apart =
        SelectedPacer::by(move |head: &Head<'_>| Arc::clone(if head.method.is_safe() { &reads } else { &writes }));
    let client = PacingLayer::new(apart).layer(arrivals.server(|_| answer(StatusCode::OK)));
    client.clone().oneshot(request()).await.unwrap();
    let post = Request::post("http://api.example.com/").body(Full::default()).unwrap();
    client.oneshot(post).await.unwrap();
    assert!(arrivals.all()[0].is_zero() && arrivals.all()[1] >= 8 * SECOND, "{:?}", arrivals.all());
}

#[tokio::test(start_paused = true)]
async fn hyper_services_are_paced() {
    let hits = Arc::new(AtomicU32::new(0));
    let server = {
        let hits = Arc::clone(&hits);
        Arc::new(hyper::service::service_fn(move |_: Request<Full<Bytes>>| {
            let is_first = hits.fetch_add(1, Ordering::Relaxed) == 0;
            async move { Ok::<_, io::Error>(if is_first { rejection("1") } else { answer(StatusCode::OK) }) }
        }))
    };
    let layer = PacingLayer::new(sleeping(SECOND));
    let alone = layer.layer(Arc::clone(&server));
    let response = hyper::service::Service::call(&alone, request()).await.unwrap();
    assert_eq!((response.status(), hits.load(Ordering::Relaxed)), (StatusCode::OK, 2));
    let only_paced = layer.without_retries().layer(server);
    hyper::service::Service::call(&only_paced, request()).await.unwrap();
    assert_eq!(hits.load(Ordering::Relaxed), 3);
}

/// Returns a retry policy that waits no longer than the pacer.
fn quick(attempts: u32) -> Retry {
    Retry::new(attempts)
        .backoff(Backoff::constant(Duration::from_millis(1)).jitter(Jitter::None))
        .throttled_base(Duration::ZERO)
}

#[tokio::test(start_paused = true)]
async fn in_a_stack_each_attempt_of_the_retries_is_paced() {
    for paces_first in [true, false] {
        let arrivals = Arrivals::new();
        let server =
            arrivals.server(|number| answer(if number < 2 { StatusCode::BAD_GATEWAY } else { StatusCode::OK }));
        // The order of the setters does not matter.
        let client = if paces_first {
            client_stack().pacers(sleeping(8 * SECOND)).retry(quick(3)).service(server).boxed_clone()
        } else {
            client_stack().retry(quick(3)).pacers(sleeping(8 * SECOND)).service(server).boxed_clone()
        };
        assert_eq!(client.oneshot(request()).await.unwrap().status(), StatusCode::OK);
        let at = arrivals.all();
        assert_eq!(at.len(), 3);
        let gaps = [at[0], at[1].saturating_sub(at[0]), at[2].saturating_sub(at[1])];
        assert!(gaps.iter().all(|gap| (7 * SECOND..9 * SECOND).contains(gap)), "{gaps:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_stack_a_rejection_is_left_to_the_retries() {
    let arrivals = Arrivals::new();
    let pacing = client_stack().pacers(on_tokio_time(NoPacing));
    let server = || arrivals.server(|number| if number == 0 { rejection("5") } else { answer(StatusCode::OK) });
    let response = pacing.service(server()).oneshot(request()).await.unwrap();
    assert_eq!((response.status(), arrivals.count()), (StatusCode::TOO_MANY_REQUESTS, 1));
    let arrivals = Arrivals::new();
    let server = arrivals.server(|number| if number == 0 { rejection("5") } else { answer(StatusCode::OK) });
    let response = pacing.retry(quick(2)).service(server).oneshot(request()).await.unwrap();
    assert_eq!((response.status(), arrivals.count()), (StatusCode::OK, 2));
}

/// The hedge waits for a second, and the sleep takes eight.
///
/// A hedge outside of the pacing would begin another attempt meanwhile, and sleep for it.
#[tokio::test(start_paused = true)]
async fn in_a_stack_a_sleep_is_no_reason_for_a_hedge() {
    struct Counting(Arc<AtomicU32>);
    impl Strategy for Counting {
        fn before_call(&self, _: u64, _: Moment) -> Duration {
            self.0.fetch_add(1, Ordering::Relaxed);
            8 * SECOND
        }

        fn answered(&self, _: &mut u64, _: &Hints, _: Moment) -> Duration {
            Duration::ZERO
        }
    }
    let (arrivals, sleeps) = (Arrivals::new(), Arc::new(AtomicU32::new(0)));
    let pacer = Arc::new(Pacer::with_strategy(Counting(Arc::clone(&sleeps))));
    let hedge = Hedge::new(HedgeConfig::builder().fixed_delay(SECOND).build().unwrap());
    let client = client_stack().hedge(hedge).pacers(pacer).service(arrivals.server(|_| answer(StatusCode::OK)));
    client.oneshot(request()).await.unwrap();
    assert_eq!((arrivals.count(), sleeps.load(Ordering::Relaxed)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn in_a_stack_a_sleep_holds_no_slot_and_no_token() {
    let arrivals = Arrivals::new();
    let client = client_stack()
        .limit(Quota::per_hour(2).burst(2))
        .bulkhead(1)
        .pacers(sleeping(8 * SECOND))
        .service(arrivals.server(|_| answer(StatusCode::OK)));
    for _ in 0..5 {
        assert!(tokio::time::timeout(SECOND, client.clone().oneshot(request())).await.is_err(), "it sleeps");
    }
    let both = futures_util::future::join(client.clone().oneshot(request()), client.clone().oneshot(request())).await;
    assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
    let error = client.oneshot(request()).await.unwrap_err();
    assert_eq!((error.part(), arrivals.count()), (StackPart::Limit, 2), "the tokens are spent");
}

#[tokio::test(start_paused = true)]
async fn in_a_stack_a_sleep_is_no_time_of_an_attempt() {
    let arrivals = Arrivals::new();
    // Its deadline is on the system's clock, which a paused sleep does not move, so a timer that ran would wake it for ever.
    tokio::time::resume();
    let client = client_stack()
        .attempt_timeout(SECOND / 10)
        .pacers(sleeping(SECOND / 4))
        .service(arrivals.server(|_| answer(StatusCode::OK)));
    client.oneshot(request()).await.unwrap();
    assert_eq!(arrivals.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn in_a_stack_a_throttle_decides_after_the_sleep() {
    let arrivals = Arrivals::new();
    let throttle = Arc::new(damper::throttle::AdaptiveThrottle::new());
    let client = client_stack()
        .throttles(Arc::clone(&throttle))
        .pacers(sleeping(8 * SECOND))
        .service(arrivals.server(|_| answer(StatusCode::OK)));
    assert!(tokio::time::timeout(SECOND, client.clone().oneshot(request())).await.is_err(), "it sleeps");
    assert_eq!(throttle.status().requests(), 0);
    client.oneshot(request()).await.unwrap();
    assert_eq!(throttle.status().requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn in_a_stack_the_deadline_bounds_the_sleep_and_the_breaker_ignores_the_refusal() {
    let arrivals = Arrivals::new();
    let breaker = Arc::new(CircuitBreaker::new(BreakerConfig::builder().failure_threshold(1).build().unwrap()));
    let client = client_stack()
        .deadline(2 * SECOND)
        .breakers(Arc::clone(&breaker))
        .retry(quick(3))
        .pacers(sleeping(8 * SECOND))
        .service(arrivals.server(|_| answer(StatusCode::OK)));
    let error = client.oneshot(request()).await.unwrap_err();
    assert_eq!((error.part(), error.attempts(), error.is_refusal()), (StackPart::Pacing, Some(1), true));
    assert_eq!(error.retry_after(), PaceTooSlow::find_in(&error).map(PaceTooSlow::retry_after));
    assert_eq!((arrivals.count(), arrivals.start.elapsed(), breaker.state()), (0, Duration::ZERO, State::Closed));
}

#[tokio::test(start_paused = true)]
async fn in_a_stack_hosts_are_paced_apart_and_a_layer_keeps_its_hints() {
    let arrivals = Arrivals::new();
    let server = arrivals.server(|_| answer(StatusCode::OK));
    client_stack().pacing_per_host(QUOTA).service(server.clone()).oneshot(request()).await.unwrap();
    client_stack().pacing(QUOTA).service(server).oneshot(request()).await.unwrap();
    let pacer = on_tokio_time(NoPacing);
    let layer = PacingLayer::new(Arc::clone(&pacer))
        .without_retries()
        .hints(|_: &ResponseHead<'_>| Hints::REJECTED.retry_after(Some(SECOND)));
    let client = client_stack().pacing_layer(layer).service(arrivals.server(|_| answer(StatusCode::OK)));
    client.oneshot(request()).await.unwrap();
    assert_eq!((arrivals.count(), pacer.peek()), (3, SECOND));
}

/// Eight threads make consecutive calls over real connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn threads_that_share_a_layer_never_see_a_rejection() {
    let limiter = Arc::new(RateLimiter::new(Quota::per_second(100).burst(20)));
    let limit = RateLimitLayer::new(Arc::clone(&limiter)).headers(Headers::OnAllResponses);
    let address = serve(move |peer| limit.for_peer(peer).layer(hyper::service::service_fn(hello))).await;
    let pacer = Arc::new(Pacer::new(Quota::per_second(100).burst(20)));
    let client = PacingLayer::new(Arc::clone(&pacer))
        .retry(PacedRetry::new(50))
        .layer(Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>());
    let tasks = (0..8).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            for _ in 0..25 {
                let request = Request::get(format!("http://{address}/")).body(Full::default()).unwrap();
                let response = client.clone().oneshot(request).await.unwrap();
                assert_eq!(response.status(), StatusCode::OK);
            }
        })
    });
    for task in futures_util::future::join_all(tasks).await {
        task.unwrap();
    }
}

/// The handle of each call must give back its readiness before the sleep.
///
/// It lives until the end, so it would hold its permit meanwhile.
#[tokio::test(start_paused = true)]
async fn sleeping_call_gives_back_the_readiness_of_its_handle() {
    let arrivals = Arrivals::new();
    let server =
        arrivals.server(|number| answer(if number == 0 { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK }));
    let limited = ConcurrencyLimitLayer::new(1).layer(server);
    let layer = PacingLayer::new(sleeping(8 * SECOND));
    let mut alone = layer.layer(limited.clone());
    let call = alone.ready().await.unwrap().call(request());
    let response = tokio::time::timeout(MINUTE, call).await.expect("the permit is free").unwrap();
    assert_eq!((response.status(), arrivals.count()), (StatusCode::OK, 2));
    let mut only_paced = layer.clone().without_retries().layer(limited.clone());
    let call = only_paced.ready().await.unwrap().call(request());
    tokio::time::timeout(MINUTE, call).await.expect("the permit is free").unwrap();
    // Refused calls release it too.
    let mut refused = layer.layer(limited.clone());
    assert!(refused.ready().await.unwrap().call(by(SECOND)).await.is_err());
    tokio::time::timeout(SECOND, limited.clone().oneshot(request())).await.expect("the permit is free").unwrap();
    let mut refused_once = layer.without_retries().layer(limited.clone());
    assert!(refused_once.ready().await.unwrap().call(by(SECOND)).await.is_err());
    tokio::time::timeout(SECOND, limited.oneshot(request())).await.expect("the permit is free").unwrap();
    drop((alone, only_paced, refused, refused_once));
}

#[tokio::test(start_paused = true)]
async fn pause_holds_calls_that_already_sleep() {
    let arrivals = Arrivals::new();
    let pacer = on_tokio_time(RemainingDecrease::new(QUOTA).start(8 * SECOND).unwrap());
    let server = arrivals.server(|_| answer(StatusCode::OK));
    let layer = PacingLayer::new(Arc::clone(&pacer));
    let alone = tokio::spawn(layer.layer(server.clone()).oneshot(request()));
    let only_paced = tokio::spawn(layer.without_retries().layer(server).oneshot(request()));
    tokio::time::sleep(SECOND).await;
    pacer.answered(&Hints::REJECTED.retry_after(Some(MINUTE)));
    assert!(alone.await.unwrap().is_ok() && only_paced.await.unwrap().is_ok());
    let at = arrivals.all();
    assert!(at.len() == 2 && at.iter().all(|at| *at >= 61 * SECOND), "{at:?}");
}

#[tokio::test(start_paused = true)]
async fn pause_beyond_the_deadline_ends_a_sleeping_call() {
    let arrivals = Arrivals::new();
    let pacer = on_tokio_time(RemainingDecrease::new(QUOTA).start(8 * SECOND).unwrap());
    let layer = PacingLayer::new(Arc::clone(&pacer));
    let server = arrivals.server(|_| answer(StatusCode::OK));
    let alone = tokio::spawn(layer.layer(server.clone()).oneshot(by(MINUTE)));
    let only_paced = tokio::spawn(layer.without_retries().layer(server).oneshot(by(MINUTE)));
    tokio::time::sleep(SECOND).await;
    pacer.answered(&Hints::REJECTED.retry_after(Some(2 * MINUTE)));
    let error = alone.await.unwrap().unwrap_err();
    assert!(matches!(error.reason(), GaveUp::Paced(too_slow) if too_slow.retry_after() > MINUTE), "{error}");
    let error = only_paced.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Refused(too_slow) if too_slow.retry_after() > MINUTE), "{error}");
    assert_eq!(arrivals.count(), 0);
}

/// Returns a pacer with a pause of this length, on real time.
fn paused_for(wait: Duration) -> Arc<Pacer<NoPacing>> {
    let pacer = obedient();
    pacer.answered(&Hints::REJECTED.retry_after(Some(wait)));
    pacer
}

/// A timer that is late by a fifth of a second, on real time.
async fn late(wait: Duration) {
    tokio::task::spawn_blocking(move || std::thread::sleep(wait + SECOND / 5)).await.unwrap();
}

#[tokio::test]
async fn sleep_that_took_too_long_is_followed_by_no_attempt() {
    let arrivals = Arrivals::new();
    let server = arrivals.server(|_| answer(StatusCode::OK));
    let wait = Duration::from_millis(20);
    let policy = PacedRetry::new(3).max_time(SECOND / 10);
    let layer = PacingLayer::sleeping_by(paused_for(wait), late).retry(policy);
    let error = layer.layer(server.clone()).oneshot(request()).await.unwrap_err();
    assert!(PaceTooSlow::find_in(&error).is_some_and(|too_slow| too_slow.retry_after() >= wait), "{error:?}");
    let layer = PacingLayer::sleeping_by(paused_for(wait), late).without_retries();
    let error = layer.layer(server).oneshot(by(SECOND / 10)).await.unwrap_err();
    assert!(matches!(error, CallError::Refused(too_slow) if too_slow.retry_after() >= wait / 2), "{error}");
    assert_eq!(arrivals.count(), 0);
    // The timer is late between two attempts.
    let server = arrivals.server(|_| answer(StatusCode::TOO_MANY_REQUESTS));
    let twenty = |_: &ResponseHead<'_>| Hints::REJECTED.retry_after(Some(Duration::from_millis(20)));
    let layer = PacingLayer::sleeping_by(obedient(), late).retry(policy).hints(twenty);
    let error = layer.layer(server).oneshot(request()).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts(), arrivals.count()), (GaveUp::Deadline { hint: None }, 1, 1));
}

/// A service that is ready for the first call, and then never.
#[derive(Clone)]
struct ReadyOnce(Arc<AtomicU32>);

impl Service<Request<Full<Bytes>>> for ReadyOnce {
    type Response = Answer;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<Answer>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<io::Result<()>> {
        if self.0.fetch_add(1, Ordering::Relaxed) == 0 {
            std::task::Poll::Ready(Ok(()))
        } else {
            std::task::Poll::Pending
        }
    }

    fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future {
        std::future::ready(Ok(answer(StatusCode::OK)))
    }
}

#[tokio::test]
async fn call_ends_at_its_deadline_while_its_service_is_not_ready() {
    let layer = PacingLayer::new(sleeping(SECOND / 50)).retry(PacedRetry::new(3).max_time(SECOND / 5));
    let alone = layer.layer(ReadyOnce(Arc::default()));
    let error = tokio::time::timeout(MINUTE, alone.oneshot(request())).await.expect("it ends").unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::Deadline { hint: None }, 0));
    let only_paced = layer.without_retries().layer(ReadyOnce(Arc::default()));
    let error = tokio::time::timeout(MINUTE, only_paced.oneshot(by(SECOND / 5))).await.expect("it ends").unwrap_err();
    assert!(matches!(error, CallError::Refused(too_slow) if too_slow.retry_after() >= SECOND / 50), "{error}");
}

/// Counts the calls and their ends.
#[derive(Debug, Default)]
struct Counted {
    began: AtomicU32,
    succeeded: AtomicU32,
}

impl Budget for Counted {
    fn began(&self) {
        self.began.fetch_add(1, Ordering::Relaxed);
    }

    fn succeeded(&self) {
        self.succeeded.fetch_add(1, Ordering::Relaxed);
    }

    fn failed(&self) {}

    fn try_withdraw(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn refused_calls_earn_no_retries() {
    let (arrivals, budget) = (Arrivals::new(), Arc::new(Counted::default()));
    let layer = PacingLayer::new(sleeping(8 * SECOND)).retry(PacedRetry::new(3).budget(Arc::clone(&budget)));
    let server =
        arrivals.server(|number| answer(if number == 0 { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK }));
    for _ in 0..5 {
        assert!(layer.layer(server.clone()).oneshot(by(SECOND)).await.is_err());
    }
    assert_eq!(budget.began.load(Ordering::Relaxed), 0);
    layer.layer(server).oneshot(request()).await.unwrap();
    assert_eq!((budget.began.load(Ordering::Relaxed), arrivals.count()), (1, 2), "one call of two attempts");
}

#[tokio::test(start_paused = true)]
async fn only_responses_that_the_limit_accepted_are_successes_of_the_budget() {
    let (arrivals, budget) = (Arrivals::new(), Arc::new(Counted::default()));
    let layer = PacingLayer::new(obedient()).retry(PacedRetry::new(3).budget(Arc::clone(&budget)));
    let down = layer.layer(arrivals.server(|_| answer(StatusCode::SERVICE_UNAVAILABLE)));
    let response = down.oneshot(request()).await.unwrap();
    assert_eq!((response.status(), budget.succeeded.load(Ordering::Relaxed)), (StatusCode::SERVICE_UNAVAILABLE, 0));
    assert_eq!((response.extensions().get(), arrivals.count()), (Some(&GaveUp::NotRetryable), 1));
    layer.layer(arrivals.server(|_| answer(StatusCode::NOT_FOUND))).oneshot(request()).await.unwrap();
    assert_eq!(budget.succeeded.load(Ordering::Relaxed), 1);
}

/// The inner layer sees a rejection, and the outer one has its own hints.
#[tokio::test(start_paused = true)]
async fn verdict_of_an_inner_layer_does_not_reach_an_outer_one() {
    let arrivals = Arrivals::new();
    let layer = PacingLayer::new(obedient()).retry(PacedRetry::new(1));
    let inner = layer.layer(arrivals.server(|_| answer(StatusCode::TOO_MANY_REQUESTS)));
    let kept = service_fn(move |request: Request<Full<Bytes>>| {
        let inner = inner.clone();
        async move { inner.oneshot(request).await.map_err(io::Error::other) }
    });
    let outer = PacingLayer::new(obedient()).hints(|_: &ResponseHead<'_>| Hints::ACCEPTED).layer(kept);
    assert_eq!(outer.oneshot(request()).await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(arrivals.count(), 1);
}

/// There is no reason to sleep, so only retries check the deadline.
#[tokio::test(start_paused = true)]
async fn expired_deadline_ends_calls_with_retries_and_is_ignored_without() {
    let arrivals = Arrivals::new();
    let layer = PacingLayer::new(obedient());
    let server = arrivals.server(|_| answer(StatusCode::OK));
    let error = layer.layer(server.clone()).oneshot(by(Duration::ZERO)).await.unwrap_err();
    assert_eq!((error.reason(), arrivals.count()), (GaveUp::Deadline { hint: None }, 0));
    layer.without_retries().layer(server).oneshot(by(Duration::ZERO)).await.unwrap();
    assert_eq!(arrivals.count(), 1);
}

/// Sends a request to each of these hosts, which reject all, and returns the attempts of each.
async fn attempts_of<S, const N: usize>(arrivals: &Arrivals, client: S, hosts: [&str; N]) -> [usize; N]
where
    S: Service<Request<Full<Bytes>>, Response = Answer, Error: std::fmt::Debug> + Clone,
{
    let mut attempts = [0; N];
    for (host, attempts) in hosts.into_iter().zip(&mut attempts) {
        let before = arrivals.count();
        let request = Request::get(format!("http://{host}/")).body(Full::default()).unwrap();
        let rejected = client.clone().oneshot(request).await.unwrap();
        assert_eq!(rejected.status(), StatusCode::TOO_MANY_REQUESTS);
        *attempts = arrivals.count() - before;
    }
    attempts
}

/// The retries of one host are not spent by another.
#[tokio::test(start_paused = true)]
async fn rejected_calls_of_a_host_take_their_retries_from_its_budget() {
    let config = RetryBudgetConfig::builder().ratio(0.0).floor(0).reserve(1).build().unwrap();
    let layer = || PacingLayer::new(obedient()).retry(PacedRetry::new(9));
    let arrivals = Arrivals::new();
    let server = arrivals.server(|_| rejection("1"));
    let client = layer().budget_per_host(config).layer(server.clone());
    assert_eq!(attempts_of(&arrivals, client, ["a.example", "a.example", "b.example"]).await, [2, 1, 2]);

    // A store with room for one host.
    let client = layer().budgets(Hosts::by(1, move || RetryBudget::new(config)).unwrap()).layer(server);
    assert_eq!(
        attempts_of(&arrivals, client, ["a.example", "a.example", "b.example", "a.example"]).await,
        [2, 1, 2, 2]
    );
}

/// A service that never becomes ready again.
#[derive(Clone)]
struct Closed;

impl Service<Request<Full<Bytes>>> for Closed {
    type Response = Answer;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<Answer>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Ready(Err(io::Error::other("closed")))
    }

    fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future {
        panic!("it is not ready")
    }
}

/// An error of readiness has the form of a call's error, without an attempt.
#[tokio::test(start_paused = true)]
async fn failed_readiness_reaches_the_caller() {
    let layer = PacingLayer::new(obedient());
    let error = layer.layer(Closed).ready().await.err().unwrap();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::NotRetryable, 0));
    assert_eq!(error.source().unwrap().to_string(), "closed");
    let error = layer.without_retries().layer(Closed).ready().await.err().unwrap();
    assert!(matches!(&error, CallError::Failed(error) if error.to_string() == "closed"), "{error}");
    assert!(!is_refusal(&error));
}
