//! Throttles before HTTP clients: over real sockets on a manual clock, and with scripted services.

use crate::support::{ClosedPort, Upstream};
use bytes::Bytes;
use damper::breaker::State;
use damper::gate::{Ending, PerKey, Verdict};
use damper::http::{
    AtBodyEnd, CircuitBreakerLayer, ClientDeadlineLayer, Head, ResponseHead, RetryLayer, Statuses, TargetHost,
    ThrottleLayer,
};
use damper::retry::GaveUp;
use damper::throttle::{AdaptiveThrottle, KeyedThrottle, Throttled};
use damper::time::Seed;
use damper::{Backoff, BreakerConfig, Bulkhead, CallError, CircuitBreaker, Deadline, ManualClock, Retry, is_refusal};
use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::TokioExecutor;
use std::error::Error;
use std::future::{Ready, pending, ready};
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tower::timeout::TimeoutLayer;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

const SECOND: Duration = Duration::from_secs(1);

type Hosts = Arc<KeyedThrottle<String, Arc<ManualClock>>>;
type Transport = Client<HttpConnector, Empty<Bytes>>;
type Asked = Request<Empty<Bytes>>;
type BoxError = Box<dyn Error + Send + Sync>;

fn hosts() -> (Arc<ManualClock>, Hosts) {
    let clock = Arc::new(ManualClock::new());
    let hosts = KeyedThrottle::with_clock_and_hasher(64, Arc::clone(&clock), Seed::new(7, 8)).unwrap();
    (clock, Arc::new(hosts))
}

fn transport() -> Transport {
    Client::builder(TokioExecutor::new()).build_http()
}

fn request(server: SocketAddr) -> Asked {
    Request::get(format!("http://{server}/")).body(Empty::new()).unwrap()
}

/// The outcomes of calls.
#[derive(Debug, Default)]
struct Calls {
    made: u32,
    refused: u32,
    accepted: u32,
}

/// The calls of this many concurrent callers.
async fn crowd<S, R, E>(client: &S, callers: u32, request: impl Fn() -> Asked) -> Calls
where
    S: Service<Asked, Response = Response<R>, Error = CallError<E, Throttled>> + Clone,
{
    let answers = join_all((0..callers).map(|_| client.clone().oneshot(request()))).await;
    let mut calls = Calls { made: callers, ..Calls::default() };
    for answer in answers {
        match answer {
            Ok(response) => calls.accepted += u32::from(response.status() == StatusCode::OK),
            Err(error) => calls.refused += u32::from(error.refusal().is_some()),
        }
    }
    calls
}

/// The port is closed, so each call is a refused connection.
#[tokio::test]
async fn dead_upstream_gets_one_of_a_hundred_calls_of_a_thousand_callers() {
    let closed_port = ClosedPort::new();
    let dead = closed_port.address();
    let (clock, hosts) = hosts();
    let client = ThrottleLayer::new(PerKey::new(TargetHost, Arc::clone(&hosts))).layer(transport());
    let (mut made, mut sent) = (0, 0);
    // A thousand callers make one call a second each.
    for tenth in 0..200 {
        let calls = crowd(&client, 100, || request(dead)).await;
        if tenth >= 50 {
            made += calls.made;
            sent += calls.made - calls.refused;
        }
        clock.advance(SECOND / 10);
    }
    assert_eq!(made, 15_000);
    // Each call is sent with a chance of 1 in 100, so the standard deviation is 12. These are five of them.
    assert!((90..=210).contains(&sent), "{sent} of {made} were sent after 5 s");
}

#[tokio::test]
async fn recovered_upstream_gets_all_calls_within_15_seconds() {
    let upstream = Upstream::start().await;
    let (clock, hosts) = hosts();
    let client = ThrottleLayer::new(PerKey::new(TargetHost, Arc::clone(&hosts))).layer(transport());
    upstream.answer(StatusCode::SERVICE_UNAVAILABLE);
    for _ in 0..600 {
        crowd(&client, 5, || upstream.request()).await;
        clock.advance(SECOND / 20);
    }
    let hits = upstream.hits();
    assert!(hits < 200, "{hits} of 3,000");
    upstream.answer(StatusCode::OK);
    for _ in 0..300 {
        crowd(&client, 5, || upstream.request()).await;
        clock.advance(SECOND / 20);
    }
    let calls = crowd(&client, 100, || upstream.request()).await;
    assert!(calls.accepted >= 95, "{calls:?}");
}

#[tokio::test]
async fn rejecting_host_leaves_another_unthrottled() {
    let (sick, sound) = (Upstream::start().await, Upstream::start().await);
    sick.answer(StatusCode::SERVICE_UNAVAILABLE);
    let (_, hosts) = hosts();
    let client = ThrottleLayer::new(PerKey::new(TargetHost, Arc::clone(&hosts))).layer(transport());
    for _ in 0..20 {
        crowd(&client, 10, || sick.request()).await;
        let calls = crowd(&client, 10, || sound.request()).await;
        assert_eq!((calls.accepted, calls.refused), (10, 0));
    }
    assert!(sick.hits() < 30, "{} of 200", sick.hits());
    assert_eq!(sound.hits(), 200);
    assert_eq!(hosts.store().len(), 2);
    let throttle = hosts.store().get(&sick.address.to_string()).expect("the key is the host and port");
    assert!(throttle.status().share_refused() > 0.9);
}

/// On the default clock an outage is noticed at once, whatever the time is.
#[tokio::test]
async fn layers_without_settings_throttle() {
    let upstream = Upstream::start().await;
    upstream.answer(StatusCode::SERVICE_UNAVAILABLE);
    let per_host = ThrottleLayer::per_host().layer(transport());
    let single = ThrottleLayer::single().layer(transport());
    let [hosts, one] =
        [crowd(&per_host, 20, || upstream.request()).await, crowd(&single, 20, || upstream.request()).await];
    assert_eq!((hosts.refused, one.refused), (0, 0), "all of them were sent before the first was answered");
    assert!(crowd(&per_host, 100, || upstream.request()).await.refused > 80);
    assert!(crowd(&single, 100, || upstream.request()).await.refused > 80);
}

fn throttle() -> Arc<AdaptiveThrottle> {
    Arc::new(AdaptiveThrottle::new())
}

/// Returns the calls that a throttle has counted, and how many of them were accepted.
fn counted(throttle: &AdaptiveThrottle) -> (u64, u64) {
    (throttle.status().requests(), throttle.status().accepted())
}

type Answer = Result<Response<Empty<Bytes>>, io::Error>;

/// A service that always gives this response.
fn answering(
    answer: impl Fn() -> Answer + Clone,
) -> impl Service<Asked, Response = Response<Empty<Bytes>>, Error = io::Error, Future = Ready<Answer>> + Clone {
    service_fn(move |_: Asked| ready(answer()))
}

#[expect(clippy::unnecessary_wraps, reason = "the return type of a service")]
fn status(status: u16) -> Answer {
    Ok(Response::builder().status(status).body(Empty::new()).unwrap())
}

#[tokio::test]
async fn rejections_are_counted_and_other_responses_are_accepted() {
    // A 429 is about one quota, which the other callers of this client need not share.
    for (code, counts) in [
        (200, (1, 1)),
        (301, (1, 1)),
        (400, (1, 1)),
        (404, (1, 1)),
        (408, (1, 1)),
        (429, (0, 0)),
        (500, (1, 1)),
        (501, (1, 1)),
        (502, (1, 0)),
        (503, (1, 0)),
        (504, (1, 0)),
    ] {
        let throttle = throttle();
        let mut client = ThrottleLayer::new(Arc::clone(&throttle)).layer(answering(move || status(code)));
        let response = client.ready().await.unwrap().call(Asked::default()).await.unwrap();
        assert_eq!(response.status(), code);
        assert_eq!(counted(&throttle), counts, "{code}");
    }
    let throttle = throttle();
    let refused = || Err(io::ErrorKind::ConnectionRefused.into());
    let mut client = ThrottleLayer::new(Arc::clone(&throttle)).layer(answering(refused));
    let error = client.ready().await.unwrap().call(Asked::default()).await.unwrap_err();
    assert_eq!(error.into_failed().unwrap().kind(), io::ErrorKind::ConnectionRefused);
    assert_eq!(counted(&throttle), (1, 0));
}

/// An inner bulkhead refused the call, so no server saw it.
#[tokio::test]
async fn refusal_of_a_layer_inside_is_not_counted() {
    let throttle = throttle();
    let full = Bulkhead::new(0).try_acquire().unwrap_err();
    let mut client = ThrottleLayer::new(Arc::clone(&throttle)).layer(answering(move || Err(io::Error::other(full))));
    for _ in 0..100 {
        let error = client.ready().await.unwrap().call(Asked::default()).await.unwrap_err();
        assert!(error.refusal().is_none() && is_refusal(&error));
    }
    assert_eq!(counted(&throttle), (0, 0));
}

#[tokio::test]
async fn classifier_decides_what_is_a_rejection() {
    let throttle = throttle();
    let layer = ThrottleLayer::new(Arc::clone(&throttle));
    let layer = layer.classify(|response: Result<&ResponseHead<'_>, &io::Error>| match response {
        Ok(head) if head.status.as_u16() == 529 => Verdict::of(Ending::Unavailable),
        other => Statuses::judge(other.map_err(|error| error as _)),
    });
    for (code, expected) in [(529, (1, 0)), (200, (2, 1)), (503, (3, 1))] {
        layer.layer(answering(move || status(code))).oneshot(Asked::default()).await.unwrap();
        assert_eq!(counted(&throttle), expected, "{code}");
    }
}

/// A timeout inside is a boxed error.
#[tokio::test]
async fn timeout_of_an_attempt_is_a_rejection() {
    let throttle = throttle();
    let mut client = ServiceBuilder::new()
        .layer(ThrottleLayer::new(Arc::clone(&throttle)).classify(Statuses::judge_boxed))
        .layer(TimeoutLayer::new(Duration::from_millis(5)))
        .service(service_fn(|_: Asked| pending::<Answer>()));
    let error = client.ready().await.unwrap().call(Asked::default()).await.unwrap_err();
    assert!(error.into_failed().unwrap().is::<tower::timeout::error::Elapsed>());
    assert_eq!(counted(&throttle), (1, 0));
}

/// The deadline layer outside drops the call.
#[tokio::test]
async fn call_dropped_after_its_deadline_is_a_rejection() {
    let throttle = throttle();
    let layer = ThrottleLayer::new(Arc::clone(&throttle));
    for (min_budget, expected) in [(Duration::ZERO, (1, 0)), (SECOND, (1, 0))] {
        let mut client = ServiceBuilder::new()
            .layer(ClientDeadlineLayer::new(Duration::from_millis(5)))
            .layer(layer.clone().min_budget(min_budget))
            .service(service_fn(|_: Asked| pending::<Answer>()));
        client.ready().await.unwrap().call(Asked::default()).await.unwrap_err();
        assert_eq!(counted(&throttle), expected, "given at least {min_budget:?}");
    }
}

/// A stream's reader goes away, or its deadline ends it, while the server is healthy.
///
/// Without data, an expired deadline is a rejection.
#[tokio::test]
async fn stream_is_accepted_at_its_first_data() {
    type Body = StreamBody<stream::BoxStream<'static, io::Result<Frame<Bytes>>>>;
    for (messages, left, expected) in [
        (1, Duration::from_millis(5), (1, 1)),
        (1, 60 * SECOND, (1, 1)),
        (0, Duration::from_millis(5), (1, 0)),
        (0, 60 * SECOND, (0, 0)),
    ] {
        let throttle = throttle();
        let layer =
            ThrottleLayer::new(Arc::clone(&throttle)).completion(AtBodyEnd::new()).min_budget(Duration::from_millis(1));
        let service = service_fn(move |_: Asked| {
            let frames = stream::iter((0..messages).map(|_| Ok(Frame::data(Bytes::from("message")))));
            ready(Ok::<_, io::Error>(Response::new(Body::new(frames.chain(stream::pending()).boxed()))))
        });
        let mut request = Asked::default();
        let deadline = Deadline::after(left);
        request.extensions_mut().insert(deadline);
        let mut body = layer.layer(service).oneshot(request).await.unwrap().into_body();
        for _ in 0..messages {
            body.frame().await.unwrap().unwrap();
        }
        assert!(body.frame().now_or_never().is_none());
        while left < SECOND && !deadline.is_expired() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(body);
        assert_eq!(counted(&throttle), expected, "{messages} messages, {left:?}");
    }
}

#[tokio::test]
async fn call_dropped_before_its_deadline_is_not_counted() {
    let throttle = throttle();
    let mut client = ThrottleLayer::new(Arc::clone(&throttle)).layer(service_fn(|_: Asked| pending::<Answer>()));
    let mut request = Asked::default();
    assert!(client.ready().await.unwrap().call(request.clone()).now_or_never().is_none());
    request.extensions_mut().insert(Deadline::after(60 * SECOND));
    assert!(client.ready().await.unwrap().call(request).now_or_never().is_none());
    assert_eq!(counted(&throttle), (0, 0));
}

/// A server that had 5 ms for a call is not overloaded if it sends 504. A 503 is its own.
#[tokio::test]
async fn gateway_timeout_of_a_short_call_is_not_counted() {
    let throttle = throttle();
    let layer = ThrottleLayer::new(Arc::clone(&throttle)).min_budget(SECOND);
    for (code, expected) in [(504, (0, 0)), (503, (1, 0))] {
        let mut request = Asked::default();
        request.extensions_mut().insert(Deadline::after(SECOND / 2));
        layer.layer(answering(move || status(code))).oneshot(request).await.unwrap();
        assert_eq!(counted(&throttle), expected, "{code}");
    }
}

#[test]
fn panic_is_not_counted_and_reaches_the_caller() {
    let throttle = throttle();
    let layer = ThrottleLayer::new(Arc::clone(&throttle));
    let mut at_once = layer.layer(service_fn(|_: Asked| -> Ready<Answer> { resume_unwind(Box::new("in `call`")) }));
    assert!(catch_unwind(AssertUnwindSafe(|| Service::call(&mut at_once, Asked::default()))).is_err());
    let mut unwinding = layer.layer(service_fn(|_: Asked| async {
        if true {
            resume_unwind(Box::new("in the future"));
        }
        status(200)
    }));
    let polled = || Service::call(&mut unwinding, Asked::default()).now_or_never();
    assert!(catch_unwind(AssertUnwindSafe(polled)).is_err());
    assert_eq!(counted(&throttle), (0, 0));
}

/// An `async fn` would panic if it was polled again.
#[tokio::test]
async fn call_that_was_ready_stays_pending() {
    let mut client = ThrottleLayer::new(throttle()).layer(service_fn(async |_: Asked| status(200)));
    let mut call = Box::pin(client.call(Asked::default()));
    assert!(call.as_mut().now_or_never().is_some());
    assert!(call.as_mut().now_or_never().is_none());
}

/// By default the head ends a call.
#[tokio::test]
async fn completion_decides_when_a_call_has_ended() {
    let throttle = throttle();
    let layer = ThrottleLayer::new(Arc::clone(&throttle)).completion(AtBodyEnd::new());
    let body = || StreamBody::new(stream::iter([Err::<Frame<Bytes>, _>(io::Error::other("reset"))]));
    let client = layer.layer(service_fn(move |_: Asked| ready(Ok::<_, io::Error>(Response::new(body())))));
    let response = client.oneshot(Asked::default()).await.unwrap();
    assert_eq!(counted(&throttle), (0, 0), "the call continues in the body");
    assert!(response.into_body().collect().await.is_err());
    assert_eq!(counted(&throttle), (1, 0));
}

/// Services of hyper, with throttles chosen by the request.
#[tokio::test]
async fn service_of_hyper_is_throttled_too() {
    let apart = Arc::new(KeyedThrottle::<bool>::new(2).unwrap());
    let by_method = PerKey::new(|head: &Head<'_>| head.method.is_safe(), Arc::clone(&apart));
    let service = hyper::service::service_fn(|_: Asked| ready(status(503)));
    let client = ThrottleLayer::new(by_method).layer(service);
    let mut refused = 0;
    for _ in 0..200 {
        let answer = hyper::service::Service::call(&client, Asked::default()).await;
        refused += u32::from(answer.is_err_and(|error| error.refusal().is_some()));
    }
    assert!(refused > 150, "{refused}");
    assert_eq!([false, true].map(|is_safe| counted(&apart.get_or_create(&is_safe)).0), [0, 200]);
}

/// A service that is not ready makes the caller wait. Its error reaches the caller and is not counted.
#[tokio::test]
async fn readiness_is_that_of_the_service() {
    #[derive(Clone)]
    struct Unready(Option<&'static str>);

    impl Service<Asked> for Unready {
        type Response = Response<Empty<Bytes>>;
        type Error = io::Error;
        type Future = Ready<Answer>;

        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), io::Error>> {
            match self.0 {
                None => std::task::Poll::Pending,
                Some(error) => std::task::Poll::Ready(Err(io::Error::other(error))),
            }
        }

        fn call(&mut self, _: Asked) -> Self::Future {
            ready(status(200))
        }
    }

    let throttle = throttle();
    let layer = ThrottleLayer::new(Arc::clone(&throttle));
    assert!(layer.layer(Unready(None)).ready().now_or_never().is_none());
    let error = layer.layer(Unready(Some("closed"))).ready().await.map(drop).unwrap_err();
    assert_eq!(error.into_failed().unwrap().to_string(), "closed");
    assert_eq!(counted(&throttle), (0, 0));
}

/// In the guide's order each attempt counts.
///
/// A refusal is neither retried nor counted against the server.
#[tokio::test]
async fn refusal_is_not_retried_and_no_failure_for_a_breaker() {
    let throttle = Arc::new(AdaptiveThrottle::with_clock(ManualClock::new(), 7));
    let breaker = Arc::new(CircuitBreaker::new(BreakerConfig::builder().failure_threshold(1).build().unwrap()));
    let requests = Arc::new(AtomicU32::new(0));
    let of_server = Arc::clone(&requests);
    let mut client = ServiceBuilder::new()
        .layer(CircuitBreakerLayer::new(Arc::clone(&breaker)))
        .layer(RetryLayer::new(
            Retry::new(1_000).backoff(Backoff::constant(Duration::ZERO)).budget(damper::retry::Unlimited),
        ))
        .layer(ThrottleLayer::new(Arc::clone(&throttle)))
        .service(service_fn(move |_: Asked| {
            of_server.fetch_add(1, Ordering::Relaxed);
            ready(status(503))
        }));
    let error = client.ready().await.unwrap().call(Asked::default()).await.unwrap_err();
    let throttled = *Throttled::find_in(&error).expect("the refusal is in the chain");
    assert!(throttled.retry_after() <= SECOND);
    assert_eq!(throttled.to_string(), "throttled, 99 % of the calls are not sent");
    let gave_up = error.into_failed().unwrap();
    assert_eq!(gave_up.reason(), GaveUp::NotRetryable);
    assert_eq!(gave_up.attempts(), requests.load(Ordering::Relaxed) + 1, "all attempts but the refused one were sent");
    assert_eq!(throttle.status().requests(), u64::from(gave_up.attempts()));
    assert_eq!(breaker.state(), State::Closed);
}

/// The error names the layer, and boxes keep it.
#[tokio::test]
async fn errors_in_boxes_keep_the_refusal() {
    let dead = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let client = ServiceBuilder::new()
        .map_err(CallError::into_boxed)
        .layer(ThrottleLayer::single().named("dead"))
        .service(transport());
    let mut throttled = None;
    while throttled.is_none() {
        let error: BoxError = client.clone().oneshot(request(dead)).await.unwrap_err();
        match error.downcast_ref::<legacy::Error>() {
            Some(error) => assert!(error.is_connect()),
            None => throttled = Throttled::find_in(&*error).copied(),
        }
    }
}
