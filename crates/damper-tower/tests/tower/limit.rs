//! A limiter before services of any request type.

use damper::http::RetryLayer;
use damper::retry::{GaveUp, Unlimited};
use damper::tower::GateLayer;
use damper::{Backoff, CallError, Deadline, Denied, LimitSet, ManualClock, Quota, RateLimiter, Retry};
use http::{Request, Response};
use std::convert::Infallible;
use std::error::Error;
use std::future::{Ready, ready};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

fn double(number: u32) -> Ready<Result<u32, Infallible>> {
    ready(Ok(2 * number))
}

#[tokio::test]
async fn call_without_a_token_is_refused() {
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(2), ManualClock::new()));
    let mut service = GateLayer::limit(Arc::clone(&limiter)).layer(service_fn(double));
    for number in 1..=2 {
        assert_eq!(service.ready().await.unwrap().call(number).await, Ok(2 * number));
    }
    let Err(CallError::Refused(denied)) = service.ready().await.unwrap().call(3).await else { panic!("it passed") };
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
}

#[tokio::test]
async fn call_takes_its_cost() {
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(10), ManualClock::new()));
    let mut service = GateLayer::limit(Arc::clone(&limiter)).cost(|number: &u32| *number).layer(service_fn(double));
    assert_eq!(service.ready().await.unwrap().call(7).await, Ok(14));
    assert_eq!(limiter.peek().used(), 7);
    assert!(service.ready().await.unwrap().call(4).await.unwrap_err().refusal().is_some());
    assert_eq!(service.ready().await.unwrap().call(0).await, Ok(0), "costs nothing");
    assert_eq!(limiter.peek().used(), 7);
}

/// A call waits for all its tokens.
#[tokio::test]
async fn call_waits_for_its_cost() {
    let limiter = Arc::new(RateLimiter::new(Quota::per_second(1_000).burst(50)));
    limiter.check_n(50).unwrap();
    let layer = GateLayer::limit(Arc::clone(&limiter)).cost(|number: &u32| *number).waiting(Duration::from_secs(1));
    let service = layer.layer(service_fn(double));
    let began = Instant::now();
    assert_eq!(service.oneshot(50).await, Ok(100));
    assert!(began.elapsed() >= Duration::from_millis(45), "a millisecond for each token");
}

#[tokio::test]
async fn every_limiter_refuses() {
    let clock = ManualClock::new();
    let limits = Arc::new(LimitSet::with_clock([Quota::per_second(5), Quota::per_hour(1)], clock));
    let mut service = GateLayer::limit(limits).layer(service_fn(double));
    assert!(service.ready().await.unwrap().call(1).await.is_ok());
    assert!(service.ready().await.unwrap().call(1).await.unwrap_err().refusal().is_some());
}

#[tokio::test]
async fn calls_wait_in_their_order_and_within_a_time() {
    static LIMIT: RateLimiter = RateLimiter::new(Quota::per_second(20).burst(1));
    let shared = Arc::new(RateLimiter::new(Quota::per_second(20).burst(1)));
    let layer = ServiceBuilder::new().layer(GateLayer::limit(&LIMIT).waiting(Duration::from_millis(120)));
    let service =
        layer.layer(GateLayer::limit(shared).waiting_by(Duration::from_secs(1), tokio::time::sleep)).service_fn(double);
    let began = Instant::now();
    let calls = (0..5).map(|number| service.clone().oneshot(number));
    let results = futures_util::future::join_all(calls).await;
    assert_eq!(
        results[..3].iter().map(|result| result.as_ref().ok().copied()).collect::<Vec<_>>(),
        [Some(0), Some(2), Some(4)]
    );
    assert!(began.elapsed() >= Duration::from_millis(100), "50 ms for each call but the first");
    for refused in &results[3..] {
        assert!(refused.as_ref().unwrap_err().refusal().is_some(), "the wait would be 150 ms");
    }
}

#[tokio::test]
async fn call_dropped_while_it_waits_gives_its_token_back() {
    let clock = ManualClock::new();
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(1), clock));
    let layer = GateLayer::limit(Arc::clone(&limiter)).waiting(Duration::from_secs(10));
    let mut service = layer.layer(service_fn(double));
    assert!(service.ready().await.unwrap().call(1).await.is_ok());
    let before = limiter.debt();
    let mut waiting = Box::pin(service.ready().await.unwrap().call(2));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_ne!(limiter.debt(), before);
    drop(waiting);
    assert_eq!(limiter.debt(), before);
}

/// The client's own limit is inside the retries.
///
/// Each attempt takes a token, and a refusal ends the call.
#[tokio::test]
async fn own_limit_inside_a_retry_is_not_retried() {
    static REQUESTS: AtomicU32 = AtomicU32::new(0);
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_hour(1).burst(2), ManualClock::new()));
    let retry = Retry::new(5).backoff(Backoff::constant(Duration::from_millis(1))).budget(Unlimited);
    let mut client = ServiceBuilder::new().layer(RetryLayer::new(retry)).layer(GateLayer::limit(limiter)).service_fn(
        |_: Request<String>| {
            REQUESTS.fetch_add(1, Ordering::Relaxed);
            ready(Err::<Response<()>, _>(io::Error::other("connection reset")))
        },
    );
    let error = client.ready().await.unwrap().call(Request::new(String::new())).await.unwrap_err();
    assert_eq!(REQUESTS.load(Ordering::Relaxed), 2, "the burst");
    assert_eq!((error.reason(), error.attempts()), (GaveUp::NotRetryable, 3));
    let last: &dyn Error = error.source().unwrap();
    assert!(last.source().unwrap().is::<Denied>(), "{last}");
}

/// The next token arrives in half an hour, and the request has a minute left.
#[tokio::test]
async fn wait_beyond_the_deadline_is_refused_at_once() {
    struct Query(Option<Deadline>);

    static LIMIT: RateLimiter = RateLimiter::new(Quota::per_hour(2).burst(1));
    let layer = GateLayer::limit(&LIMIT)
        .waiting(Duration::from_hours(2))
        .time_left(|query: &Query| query.0.as_ref().map(Deadline::remaining));
    let mut service = layer.layer(service_fn(|_: Query| ready(Ok::<_, Infallible>(()))));
    assert!(service.ready().await.unwrap().call(Query(None)).await.is_ok());
    let near = Query(Some(Deadline::after(Duration::from_mins(1))));
    assert!(service.ready().await.unwrap().call(near).await.unwrap_err().refusal().is_some());
    for deadline in [None, Some(Deadline::after(Duration::from_hours(1)))] {
        let call = pin!(service.ready().await.unwrap().call(Query(deadline)));
        assert!(call.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
}
