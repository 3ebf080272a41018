//! Requests that wait for a token, on tokio's paused time.

use crate::tokio_clock::TokioClock;
use damper::http::{Detail, Head, Headers, Limit, LimitAnswer, LimitDecision, RateLimitLayer, Refusal};
use damper::{Deadline, ManualClock, Quota, RateLimiter};
use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use http_body_util::{BodyExt, Empty};
use std::convert::Infallible;
use std::future::Ready;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tower::{Service, ServiceExt};

type EmptyResponse = Response<Empty<bytes::Bytes>>;

/// Responds with the time of the call, in milliseconds.
fn server(
    start: Instant,
) -> impl Service<Request<()>, Response = EmptyResponse, Error = Infallible, Future: Send> + Clone + Send {
    tower::service_fn(move |_: Request<()>| {
        let at = start.elapsed().as_millis().to_string();
        async move { Ok(Response::builder().header("at", at).body(Empty::new()).unwrap()) }
    })
}

/// At ten a second, requests pass in FIFO order, 100 ms apart.
#[tokio::test(start_paused = true)]
async fn requests_wait_in_fifo_order() {
    let start = Instant::now();
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(10).burst(1), TokioClock(start)));
    let layer = RateLimitLayer::new(Arc::clone(&limiter)).wait(Duration::from_secs(1)).headers(Headers::OnAllResponses);
    let mut client = layer.layer(server(start));
    let calls: Vec<_> = (0..5).map(|_| tokio::spawn(client.call(Request::new(())))).collect();
    for (index, call) in calls.into_iter().enumerate() {
        let answer = call.await.unwrap().unwrap();
        assert_eq!(answer.headers()["at"].to_str().unwrap().parse::<usize>().unwrap(), index * 100);
        assert_eq!(answer.headers()["ratelimit-policy"], r#""default";q=10;w=1"#);
    }
    assert_eq!(limiter.debt(), 0);
}

/// A request that would have to wait too long is refused at its first poll.
///
/// `Retry-After` is the part of the wait beyond the layer's own longest wait.
#[tokio::test(start_paused = true)]
async fn too_long_a_wait_is_refused_at_once() {
    let start = Instant::now();
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1), TokioClock(start)));
    let mut client = RateLimitLayer::new(limiter).wait(Duration::from_secs(2)).layer(server(start));
    let waiting: Vec<_> = (0..3).map(|_| tokio::spawn(client.call(Request::new(())))).collect();
    tokio::task::yield_now().await;
    let refused = client.call(Request::new(())).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()[RETRY_AFTER], "1");
    assert!(refused.into_body().collect().await.unwrap().to_bytes().starts_with(b"rate limit exceeded"));
    for call in waiting {
        assert_eq!(call.await.unwrap().unwrap().status(), StatusCode::OK);
    }
}

/// A request whose wait would pass its deadline is refused, and takes no token.
#[tokio::test(start_paused = true)]
async fn a_wait_past_the_deadline_is_refused_at_once() {
    let start = Instant::now();
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_hour(1), TokioClock(start)));
    limiter.check().unwrap();
    let mut client = RateLimitLayer::new(Arc::clone(&limiter)).wait(Duration::from_hours(2)).layer(server(start));
    let mut request = Request::new(());
    request.extensions_mut().insert(Deadline::after(Duration::from_mins(1)));
    let refused = client.call(request).await.unwrap();
    assert_eq!((start.elapsed(), refused.status()), (Duration::ZERO, StatusCode::TOO_MANY_REQUESTS));
    let retry_after: u64 = refused.headers()[RETRY_AFTER].to_str().unwrap().parse().unwrap();
    assert!((3_540..=3_541).contains(&retry_after), "the wait beyond the deadline, {retry_after} s");
    assert_eq!(limiter.debt(), 0);
    assert_eq!(
        client.call(Request::new(())).await.unwrap().headers()["at"],
        "3600000",
        "a request without a deadline waits"
    );
}

/// The layer calls a clone of a hyper service.
#[tokio::test(start_paused = true)]
async fn hyper_services_wait() {
    use hyper::service::{Service, service_fn};
    let start = Instant::now();
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1), TokioClock(start)));
    let answer =
        service_fn(|_: Request<Empty<bytes::Bytes>>| std::future::ready(Ok::<_, Infallible>(EmptyResponse::default())));
    let client = RateLimitLayer::new(limiter).wait(Duration::from_secs(2)).layer(answer);
    for seconds in 0..3 {
        assert_eq!(client.call(Request::default()).await.unwrap().status(), StatusCode::OK);
        assert_eq!(start.elapsed(), Duration::from_secs(seconds));
    }
}

/// A call that is dropped while it waits frees its place and does not call the service.
#[tokio::test(start_paused = true)]
async fn dropped_wait_frees_its_place() {
    let start = Instant::now();
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1), TokioClock(start)));
    let mut client = RateLimitLayer::new(Arc::clone(&limiter)).wait(Duration::from_secs(9)).layer(server(start));
    client.call(Request::new(())).await.unwrap();
    let mut waiting = Box::pin(client.call(Request::new(())));
    assert!(poll(waiting.as_mut()).is_pending());
    assert_eq!(limiter.debt(), 1);
    drop(waiting);
    assert_eq!(limiter.debt(), 0);
    client.call(Request::new(())).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(1));
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(std::task::Waker::noop()))
}

/// A limit whose decisions arrive through a channel.
#[derive(Clone)]
struct Remote(Arc<std::sync::Mutex<Vec<oneshot::Sender<LimitAnswer>>>>);

impl Limit for Remote {
    type Future = Pin<Box<dyn Future<Output = LimitAnswer> + Send>>;

    fn decide(&self, _: &Head<'_>, _: u32, _: Detail) -> LimitDecision<Self::Future> {
        let (sender, receiver) = oneshot::channel();
        self.0.lock().unwrap().push(sender);
        LimitDecision::Wait(Box::pin(async move { receiver.await.unwrap_or_else(|error| Err(Refusal::failed(error))) }))
    }
}

/// A service that is ready for one call after each `poll_ready`, and panics on any other call.
struct OncePerReady {
    is_ready: bool,
    calls: Arc<AtomicUsize>,
}

impl Clone for OncePerReady {
    fn clone(&self) -> Self {
        Self { is_ready: false, calls: Arc::clone(&self.calls) }
    }
}

impl Service<Request<()>> for OncePerReady {
    type Response = EmptyResponse;
    type Error = Infallible;
    type Future = Ready<Result<EmptyResponse, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "called before it was ready");
        self.calls.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok(Response::default()))
    }
}

/// The ready service is called when the decision arrives, and not before.
#[tokio::test]
async fn service_is_called_after_a_later_decision() {
    let remote = Remote(Arc::default());
    let calls = Arc::new(AtomicUsize::new(0));
    let service = OncePerReady { is_ready: false, calls: Arc::clone(&calls) };
    let mut service = RateLimitLayer::new(remote.clone()).layer(service);
    let mut asked = async || {
        let mut future = Box::pin(service.ready().await.unwrap().call(Request::new(())));
        assert!(poll(future.as_mut()).is_pending());
        (future, remote.0.lock().unwrap().pop().unwrap())
    };
    let (allowed, sender) = asked().await;
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    sender.send(Ok(None)).unwrap();
    assert_eq!(allowed.await.unwrap().status(), StatusCode::OK);

    let (refused, sender) = asked().await;
    let denied = RateLimiter::with_clock(Quota::per_second(1).burst(0), ManualClock::new()).check().unwrap_err();
    sender.send(Err(damper::http::Limited::by(denied, Quota::per_second(1)).into())).unwrap();
    assert_eq!(refused.await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);

    let (failed, sender) = asked().await;
    drop(sender);
    let failed = failed.await.unwrap();
    assert_eq!(failed.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let text = failed.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(&*text, b"the rate limit could not decide\n", "the client does not see the cause");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}
