//! Instructions that a layer adds to a service.
//!
//! A request is made, sent through a clone of the service, as axum and tonic have it (hyper calls one of the
//! connection's), answered when it is first polled, and its answer read to its end and dropped: all that is in the bare
//! service's call too.

use crate::still::{SEED, still};
use crate::{Call, Row, prepared, rows};
use bytes::Bytes;
use damper::concurrency::{KeyedBulkhead, LimitBounds};
use damper::gate::PerKey;
use damper::http::{
    CircuitBreakerLayer, ClientConcurrencyLayer, ConcurrencyLayer, Headers, HedgeLayer, PeerAddress, PerClient,
    RateLimitLayer, RetryLayer, TargetHost, ThrottleLayer, client_stack,
};
use damper::keyed::KeyedLimiterBuilder;
use damper::retry::{Hedge, HedgeConfig};
use damper::throttle::{AdaptiveThrottle, KeyedThrottle};
use damper::tonic::AtTrailers;
use damper::{
    AdaptiveLimit, BreakerConfig, Bulkhead, CircuitBreaker, ClientAddress, Clock, KeyedCircuitBreaker, KeyedLimiter,
    Quota, RateLimiter, Retry,
};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use http_body_util::Empty;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tonic::transport::server::TcpConnectInfo;
use tower::{Layer, Service};

pub(crate) const ROWS: &[Row] = rows![
    tower_limit_global - tower_bare,
    tower_limit_client - tower_bare,
    tower_limit_client_headers - tower_bare,
    tower_limit_client_refused - tower_bare,
    tower_limit_client_shadow - tower_limit_client,
    tower_breaker - tower_bare,
    tower_breaker_host - tower_bare,
    tower_breaker_open - tower_bare,
    tower_hedge - tower_bare,
    tower_retry - tower_bare,
    tower_bulkhead - tower_bare,
    tower_bulkhead_refused - tower_bare,
    tower_bulkhead_host - tower_bare,
    tower_adaptive - tower_bare,
    tower_throttle - tower_bare,
    tower_throttle_host - tower_bare,
    tower_stack - tower_bare,
    tower_any_breaker - tower_bare,
    tower_any_breaker_open - tower_bare,
    tower_any_breaker_keyed - tower_bare,
    tower_any_limit - tower_bare,
    tower_any_throttle - tower_bare,
    tower_any_bulkhead - tower_bare,
    tower_any_adaptive - tower_bare,
    hyper_limit_client - hyper_bare,
    hyper_breaker - hyper_bare,
    hyper_retry - hyper_bare,
    hyper_bulkhead - hyper_bare,
    hyper_throttle - hyper_bare,
    tonic_limit_client - tonic_bare,
    tonic_limit_client_refused - tonic_bare,
    tonic_breaker - tonic_bare,
    tonic_breaker_open - tonic_bare,
    tonic_bulkhead - tonic_bare,
    tonic_bulkhead_refused - tonic_bare,
    tonic_throttle - tonic_bare,
];

const PLENTY: Quota = Quota::per_hour(1).burst(1_000_000);
const ONE: Quota = Quota::per_hour(1);

type Asked = Request<Empty<Bytes>>;

type Answer = Result<Response<Answered>, Infallible>;

/// Some data; of gRPC, trailers too.
#[derive(Debug)]
struct Answered {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Body for Answered {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = self.data.take().map(Frame::data);
        Poll::Ready(data.or_else(|| self.trailers.take().map(Frame::trailers)).map(Ok))
    }
}

fn answer(_: Asked) -> Ready<Answer> {
    ready(Ok(Response::new(Answered { data: Some(Bytes::from_static(b"Hello")), trailers: None })))
}

fn answer_grpc(_: Asked) -> Ready<Answer> {
    let trailers = HeaderMap::from_iter([(tonic::Status::GRPC_STATUS, HeaderValue::from_static("0"))]);
    let data = Some(Bytes::from_static(b"\0\0\0\0\0"));
    let mut response = Response::new(Answered { data, trailers: Some(trailers) });
    response.headers_mut().insert(CONTENT_TYPE, GRPC);
    ready(Ok(response))
}

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

fn request() -> Asked {
    let mut request = Request::new(Empty::new());
    *request.uri_mut() = http::Uri::from_static("http://api.example.com/");
    request.extensions_mut().insert(PeerAddress(([192, 0, 2, 7], 5_000).into()));
    request
}

fn request_grpc() -> Asked {
    let mut request = Request::post("/").body(Empty::new()).expect("the path is one");
    request.headers_mut().insert(CONTENT_TYPE, GRPC);
    let remote_addr = Some(([192, 0, 2, 7], 5_000).into());
    request.extensions_mut().insert(TcpConnectInfo { local_addr: None, remote_addr });
    request
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// An answer that was read to its end, with this status of HTTP.
    Answered(u16),
    /// With this status of gRPC in its head.
    Status(u8),
    Failed,
}

fn end_of<B: Body, E>(call: impl Future<Output = Result<Response<B>, E>>) -> End {
    let context = &mut Context::from_waker(Waker::noop());
    let Poll::Ready(result) = pin!(call).poll(context) else { panic!("it answers at once") };
    let Ok(answer) = result else { return End::Failed };
    let (head, body) = answer.into_parts();
    let mut body = pin!(body);
    while let Poll::Ready(Some(Ok(_))) = body.as_mut().poll_frame(context) {}
    match head.headers.get(tonic::Status::GRPC_STATUS) {
        Some(status) => End::Status(status.as_bytes()[0] - b'0'),
        None => End::Answered(head.status.as_u16()),
    }
}

/// Calls of a service of tower's.
fn tower<S, B>(service: S, request: fn() -> Asked, end: End) -> Call
where
    S: Service<Asked, Response = Response<B>> + Clone + 'static,
    B: Body,
{
    Box::new(move || {
        let mut service = service.clone();
        let context = &mut Context::from_waker(Waker::noop());
        service.poll_ready(context).is_ready() && end_of(service.call(request())) == end
    })
}

/// Calls of a service of hyper's.
fn hyper<S, B>(service: S) -> Call
where
    S: hyper::service::Service<Asked, Response = Response<B>> + 'static,
    B: Body,
{
    Box::new(move || end_of(service.call(request())) == End::Answered(200))
}

fn per_client<C: Clock>(quota: Quota, clock: C) -> RateLimitLayer<PerClient<Arc<KeyedLimiter<ClientAddress, C>>>> {
    let limits = KeyedLimiterBuilder::<ClientAddress, _, _>::new(quota, clock, SEED);
    RateLimitLayer::new(PerClient::new(Arc::new(limits.build().expect("the default capacity"))))
}

/// Which refuses everything.
fn open<C: Clock>(clock: C) -> Arc<CircuitBreaker<C>> {
    let config = BreakerConfig::builder().failure_threshold(1).build().expect("at least one");
    let breaker = CircuitBreaker::with_clock(config, clock);
    breaker.try_acquire().expect("it is closed").failure();
    Arc::new(breaker)
}

fn tower_bare() -> Call {
    tower(tower::service_fn(answer), request, End::Answered(200))
}

fn tower_limit_global() -> Call {
    let layer = RateLimitLayer::new(Arc::new(RateLimiter::with_clock(PLENTY, still!())));
    tower(layer.layer(tower::service_fn(answer)), request, End::Answered(200))
}

fn tower_limit_client() -> Call {
    tower(per_client(PLENTY, still!()).layer(tower::service_fn(answer)), request, End::Answered(200))
}

fn tower_limit_client_headers() -> Call {
    tower(
        per_client(PLENTY, still!()).headers(Headers::OnAllResponses).layer(tower::service_fn(answer)),
        request,
        End::Answered(200),
    )
}

fn tower_limit_client_refused() -> Call {
    prepared(tower(per_client(ONE, still!()).layer(tower::service_fn(answer)), request, End::Answered(429)))
}

/// One more decision, of a limit by the same key.
fn tower_limit_client_shadow() -> Call {
    let candidate = KeyedLimiterBuilder::new(PLENTY, still!(), SEED).build().expect("a capacity in range");
    let layer = per_client(PLENTY, still!()).shadow(PerClient::new(Arc::new(candidate)));
    tower(layer.layer(tower::service_fn(answer)), request, End::Answered(200))
}

fn tower_breaker() -> Call {
    let layer = CircuitBreakerLayer::single(BreakerConfig::default());
    tower(layer.layer(tower::service_fn(answer)), request, End::Answered(200))
}

/// The hasher has a random seed here; with one host they make no difference.
fn tower_breaker_host() -> Call {
    let breakers = KeyedCircuitBreaker::with_clock(BreakerConfig::default(), 100, still!()).unwrap();
    let layer = CircuitBreakerLayer::new(PerKey::new(TargetHost, Arc::new(breakers)));
    tower(layer.layer(tower::service_fn(answer)), request, End::Answered(200))
}

fn tower_breaker_open() -> Call {
    tower(CircuitBreakerLayer::new(open(still!())).layer(tower::service_fn(answer)), request, End::Failed)
}

/// A call that needs no hedge.
///
/// Here the clock stands still, so there is no delay yet, and nothing sleeps.
fn tower_hedge() -> Call {
    let hedge = Hedge::with_clock(HedgeConfig::DEFAULT, still!());
    let layer = HedgeLayer::sleeping_by(hedge, |_| ready(()));
    tower(layer.layer(tower::service_fn(answer)), request, End::Answered(200))
}

/// A call that needs no retry. It might, so a copy of its request is kept.
fn tower_retry() -> Call {
    let layer = RetryLayer::sleeping_by(Retry::with_clock(3, still!(), 7), |_| ready(()));
    tower(layer.layer(tower::service_fn(answer)), request, End::Answered(200))
}

fn tower_bulkhead() -> Call {
    let layer = ConcurrencyLayer::new(Arc::new(Bulkhead::with_clock(64, still!())));
    tower(layer.layer(tower::service_fn(answer)), request, End::Answered(200))
}

fn tower_bulkhead_refused() -> Call {
    tower(ConcurrencyLayer::bulkhead(0).layer(tower::service_fn(answer)), request, End::Answered(503))
}

/// Of a client. The hasher has a random seed here; with one host they make no difference.
fn tower_bulkhead_host() -> Call {
    let hosts = KeyedBulkhead::<String, _>::with_clock(64, 100, still!()).expect("a capacity in range");
    let layer = ClientConcurrencyLayer::new(PerKey::new(TargetHost, Arc::new(hosts)));
    tower(layer.layer(tower::service_fn(answer)), request, End::Answered(200))
}

/// The clock stands still, so no window ends.
fn tower_adaptive() -> Call {
    let layer = ConcurrencyLayer::new(Arc::new(AdaptiveLimit::with_clock(LimitBounds::DEFAULT, still!())));
    tower(layer.layer(tower::service_fn(answer)), request, End::Answered(200))
}

fn throttle<C: Clock>(clock: C) -> Arc<AdaptiveThrottle<C>> {
    Arc::new(AdaptiveThrottle::with_clock(clock, 7))
}

fn tower_throttle() -> Call {
    let layer = ThrottleLayer::new(throttle(still!()));
    tower(layer.layer(tower::service_fn(answer)), request, End::Answered(200))
}

/// The hasher has a random seed here; with one host they make no difference.
fn tower_throttle_host() -> Call {
    let hosts = KeyedThrottle::<String, _>::with_clock(100, still!()).expect("a capacity");
    let layer = ThrottleLayer::new(PerKey::new(TargetHost, Arc::new(hosts)));
    tower(layer.layer(tower::service_fn(answer)), request, End::Answered(200))
}

/// A breaker, a throttle, a limit and a bulkhead of a client.
fn tower_stack() -> Call {
    let stack = client_stack()
        .breakers(Arc::new(CircuitBreaker::with_clock(BreakerConfig::DEFAULT, still!())))
        .throttles(throttle(still!()))
        .limiter(Arc::new(RateLimiter::with_clock(PLENTY, still!())))
        .concurrency(Arc::new(Bulkhead::with_clock(64, still!())));
    tower(stack.service(tower::service_fn(answer)), request, End::Answered(200))
}

/// A breaker in a `static`. Its clock is not read.
fn tower_any_breaker() -> Call {
    static BREAKER: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT);
    tower(damper::tower::GateLayer::new(&BREAKER).layer(tower::service_fn(answer)), request, End::Answered(200))
}

fn tower_any_breaker_open() -> Call {
    tower(damper::tower::GateLayer::new(open(still!())).layer(tower::service_fn(answer)), request, End::Failed)
}

/// The hasher has a random seed here; with one key they make no difference.
fn tower_any_breaker_keyed() -> Call {
    let breakers =
        KeyedCircuitBreaker::with_clock(BreakerConfig::default(), 100, still!()).expect("a capacity in range");
    let layer =
        damper::tower::GateLayer::new(PerKey::new(|request: &Asked| request.uri().port_u16(), Arc::new(breakers)));
    tower(layer.layer(tower::service_fn(answer)), request, End::Answered(200))
}

fn tower_any_limit() -> Call {
    let layer = damper::tower::GateLayer::limit(Arc::new(RateLimiter::with_clock(PLENTY, still!())));
    tower(layer.layer(tower::service_fn(answer)), request, End::Answered(200))
}

fn tower_any_throttle() -> Call {
    let layer = damper::tower::GateLayer::new(throttle(still!()));
    tower(layer.layer(tower::service_fn(answer)), request, End::Answered(200))
}

fn tower_any_bulkhead() -> Call {
    let layer = damper::tower::GateLayer::limit(Arc::new(Bulkhead::new(64)));
    tower(layer.layer(tower::service_fn(answer)), request, End::Answered(200))
}

/// The clock stands still, so no window ends.
fn tower_any_adaptive() -> Call {
    let limit = Arc::new(AdaptiveLimit::with_clock(LimitBounds::DEFAULT, still!()));
    tower(damper::tower::GateLayer::limit(limit).layer(tower::service_fn(answer)), request, End::Answered(200))
}

fn hyper_bare() -> Call {
    hyper(hyper::service::service_fn(answer))
}

fn hyper_limit_client() -> Call {
    hyper(per_client(PLENTY, still!()).layer(hyper::service::service_fn(answer)))
}

fn hyper_breaker() -> Call {
    hyper(CircuitBreakerLayer::single(BreakerConfig::default()).layer(hyper::service::service_fn(answer)))
}

fn hyper_retry() -> Call {
    let layer = RetryLayer::sleeping_by(Retry::with_clock(3, still!(), 7), |_| ready(()));
    hyper(layer.layer(hyper::service::service_fn(answer)))
}

fn hyper_bulkhead() -> Call {
    hyper(ConcurrencyLayer::new(Arc::new(Bulkhead::with_clock(64, still!()))).layer(hyper::service::service_fn(answer)))
}

fn hyper_throttle() -> Call {
    hyper(ThrottleLayer::new(throttle(still!())).layer(hyper::service::service_fn(answer)))
}

fn tonic_bare() -> Call {
    tower(tower::service_fn(answer_grpc), request_grpc, End::Answered(200))
}

fn tonic_limit_client() -> Call {
    tower(per_client(PLENTY, still!()).layer(tower::service_fn(answer_grpc)), request_grpc, End::Answered(200))
}

/// `RESOURCE_EXHAUSTED`, beside a 200 of HTTP.
fn tonic_limit_client_refused() -> Call {
    prepared(tower(per_client(ONE, still!()).layer(tower::service_fn(answer_grpc)), request_grpc, End::Status(8)))
}

/// Of a client: the verdict falls by the trailers.
fn tonic_breaker() -> Call {
    let layer = CircuitBreakerLayer::single(BreakerConfig::default()).completion(AtTrailers::new());
    tower(layer.layer(tower::service_fn(answer_grpc)), request_grpc, End::Answered(200))
}

fn tonic_breaker_open() -> Call {
    let layer = CircuitBreakerLayer::new(open(still!())).completion(AtTrailers::new());
    tower(layer.layer(tower::service_fn(answer_grpc)), request_grpc, End::Failed)
}

fn tonic_bulkhead() -> Call {
    let layer = ConcurrencyLayer::new(Arc::new(Bulkhead::with_clock(64, still!())));
    tower(layer.layer(tower::service_fn(answer_grpc)), request_grpc, End::Answered(200))
}

/// `UNAVAILABLE`, whose code has two digits, of which the first is read.
fn tonic_bulkhead_refused() -> Call {
    tower(ConcurrencyLayer::bulkhead(0).layer(tower::service_fn(answer_grpc)), request_grpc, End::Status(1))
}

/// Of a client: the verdict falls by the trailers.
fn tonic_throttle() -> Call {
    let layer = ThrottleLayer::new(throttle(still!())).completion(AtTrailers::rejections());
    tower(layer.layer(tower::service_fn(answer_grpc)), request_grpc, End::Answered(200))
}
