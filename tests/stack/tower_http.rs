//! Middleware of tower-http around and inside of every layer of damper's, in one `ServiceBuilder`.
//!
//! Each pair compiles, and serves a request. It is served with a box between the two, so that each layer is compiled
//! to machine code once, and not again for each partner.

use bytes::Bytes;
use damper::concurrency::{Admission, LimitBounds};
use damper::http::{
    AtBodyEnd, AttemptTimeoutLayer, CircuitBreakerLayer, ClientConcurrencyLayer, ClientDeadlineLayer, ConcurrencyLayer,
    DeadlineLayer, HedgeLayer, PacingLayer, RateLimitLayer, RetryLayer, ThrottleLayer, client_stack, server_stack,
};
use damper::live::{Latencies, LivePage};
use damper::mesh::{IncomingCall, MeshError, MeshLayer, Scopes};
use damper::retry::{Hedge, HedgeConfig, Unlimited};
use damper::{BreakerConfig, Quota, Retry};
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, AUTHORIZATION, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::json;
use std::convert::{Infallible, identity};
use std::fmt::Debug;
use std::future::{Ready, ready};
use std::io;
use std::time::Duration;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, service_fn};
use tower_http::add_extension::AddExtensionLayer;
use tower_http::auth::AddAuthorizationLayer;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::decompression::{DecompressionLayer, RequestDecompressionLayer};
use tower_http::follow_redirect::FollowRedirectLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::map_request_body::MapRequestBodyLayer;
use tower_http::map_response_body::MapResponseBodyLayer;
use tower_http::metrics::InFlightRequestsLayer;
use tower_http::metrics::in_flight_requests::InFlightRequestsCounter;
use tower_http::normalize_path::NormalizePathLayer;
use tower_http::on_early_drop::OnEarlyDropLayer;
use tower_http::propagate_header::PropagateHeaderLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};
use tower_http::sensitive_headers::SetSensitiveHeadersLayer;
use tower_http::set_header::{SetRequestHeaderLayer, SetResponseHeaderLayer};
use tower_http::set_status::SetStatusLayer;
use tower_http::timeout::{RequestBodyTimeoutLayer, ResponseBodyTimeoutLayer, TimeoutLayer};
use tower_http::trace::TraceLayer;
use tower_http::validate_request::ValidateRequestHeaderLayer;

const LONG: Duration = Duration::from_secs(60);
const ID: HeaderName = HeaderName::from_static("x-request-id");

fn hello<B>(_: Request<B>) -> Ready<Result<Response<Full<Bytes>>, Infallible>> {
    ready(Ok(Response::new(Full::from("hello"))))
}

fn request() -> Request<Full<Bytes>> {
    Request::get("http://test.example/").header(AUTHORIZATION, "Bearer token").body(Full::default()).unwrap()
}

/// Makes a request, and returns the status once the body has ended.
async fn status<S, R>(service: S, request: Request<Full<Bytes>>) -> StatusCode
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>, Error: Debug>,
    R: http_body::Body<Error: Debug>,
{
    let (head, body) = service.oneshot(request).await.unwrap().into_parts();
    body.collect().await.unwrap();
    head.status
}

/// A service in a box, for requests with bodies of type `B`.
type Boxed<B> = BoxCloneSyncService<Request<B>, Response<UnsyncBoxBody<Bytes, BoxError>>, io::Error>;

fn boxed<S, B, R>(service: S) -> Boxed<B>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError> + 'static, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static,
    R: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    BoxCloneSyncService::new(
        service
            .map_response(|response: Response<R>| response.map(|body| body.map_err(Into::into).boxed_unsync()))
            .map_err(io::Error::other),
    )
}

/// Compiles if a service has the types that [`status`] needs. It is not made.
fn compiles<S, R>(_: impl FnOnce() -> S)
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>, Error: Debug>,
    R: http_body::Body<Error: Debug>,
{
}

/// Puts each of these layers around ours.
macro_rules! around {
    ($ours:expr, $service:expr, $request:expr, [$($theirs:expr),+ $(,)?]) => {
        $(
            compiles(|| ServiceBuilder::new().layer($theirs).layer($ours).service($service));
            let around = ServiceBuilder::new().layer($theirs).service(boxed($ours.layer($service)));
            assert_eq!(status(around, $request).await, StatusCode::OK, "{} around", stringify!($theirs));
        )+
    };
}

/// Puts each of these layers inside of ours.
macro_rules! inside {
    ($ours:expr, [$($theirs:expr),+ $(,)?]) => {
        $(
            compiles(|| ServiceBuilder::new().layer($ours).layer($theirs).service(service_fn(hello)));
            let inside = ServiceBuilder::new().layer($ours).service(boxed($theirs.layer(service_fn(hello))));
            assert_eq!(status(inside, request()).await, StatusCode::OK, "{} inside", stringify!($theirs));
        )+
    };
}

/// Puts each of these layers around and inside of ours.
macro_rules! both {
    ($ours:expr, [$($theirs:expr),+ $(,)?]) => {
        around!($ours, service_fn(hello), request(), [$($theirs),+]);
        inside!($ours, [$($theirs),+]);
    };
}

/// Passes the middleware that servers and clients have to a macro, after its other arguments.
macro_rules! with_all {
    ($check:ident, $($argument:expr),+) => {
        $check!($($argument),+, [
            AddExtensionLayer::new("state"),
            CatchPanicLayer::new(),
            CompressionLayer::new(),
            CorsLayer::permissive(),
            DecompressionLayer::new(),
            InFlightRequestsLayer::new(InFlightRequestsCounter::new()),
            MapRequestBodyLayer::new(identity),
            MapResponseBodyLayer::new(identity),
            NormalizePathLayer::trim_trailing_slash(),
            OnEarlyDropLayer::builder(),
            PropagateHeaderLayer::new(ID),
            PropagateRequestIdLayer::new(ID),
            ResponseBodyTimeoutLayer::new(LONG),
            SetRequestHeaderLayer::if_not_present(ID, HeaderValue::from_static("1")),
            SetRequestIdLayer::new(ID, MakeRequestUuid),
            SetResponseHeaderLayer::overriding(ID, HeaderValue::from_static("1")),
            SetSensitiveHeadersLayer::new([AUTHORIZATION]),
            SetStatusLayer::new(StatusCode::OK),
            TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, LONG),
            TraceLayer::new_for_http(),
            ValidateRequestHeaderLayer::accept("text/plain"),
        ]);
    };
}

/// Passes the middleware that only servers have to a macro, after its other arguments.
macro_rules! with_all_of_a_server {
    ($check:ident, $($argument:expr),+) => {
        with_all!($check, $($argument),+);
        $check!($($argument),+, [
            RequestBodyLimitLayer::new(1 << 20),
            RequestBodyTimeoutLayer::new(LONG),
            RequestDecompressionLayer::new(),
        ]);
    };
}

/// Puts all middleware around and inside of a layer of a server.
macro_rules! all_pairs_of_a_server {
    ($ours:expr) => {
        with_all_of_a_server!(both, $ours);
    };
}

/// Puts all middleware around and inside of a layer of a client.
///
/// A client that repeats requests needs bodies that it can clone, so limits of bodies are inside of it.
macro_rules! all_pairs_of_a_client {
    ($ours:expr) => {
        with_all!(both, $ours);
        both!($ours, [AddAuthorizationLayer::bearer("token"), FollowRedirectLayer::new()]);
        inside!($ours, [RequestBodyLimitLayer::new(1 << 20), RequestBodyTimeoutLayer::new(LONG)]);
    };
}

fn quota() -> Quota {
    Quota::per_second(1_000).burst(1_000)
}

#[tokio::test]
async fn tower_http_goes_around_and_inside_of_rate_limits() {
    all_pairs_of_a_server!(RateLimitLayer::global(quota()));
    all_pairs_of_a_server!(RateLimitLayer::global(quota()).wait(LONG));
}

#[tokio::test]
async fn tower_http_goes_around_and_inside_of_concurrency_limits() {
    all_pairs_of_a_server!(ConcurrencyLayer::bulkhead(8).waiting(LONG).stall_limit(LONG));
    all_pairs_of_a_server!(ConcurrencyLayer::adaptive(LimitBounds::DEFAULT));
}

#[tokio::test]
async fn tower_http_goes_around_and_inside_of_admission() {
    all_pairs_of_a_server!(ConcurrencyLayer::admission(Admission::fixed(8)));
}

#[tokio::test]
async fn tower_http_goes_around_and_inside_of_deadlines() {
    all_pairs_of_a_server!(DeadlineLayer::new(LONG));
}

#[tokio::test]
async fn tower_http_goes_around_and_inside_of_a_servers_stack() {
    all_pairs_of_a_server!(server_stack().deadline(LONG).limit(quota()).bulkhead(8));
}

#[tokio::test]
async fn tower_http_goes_around_and_inside_of_the_live_page() {
    all_pairs_of_a_server!(LivePage::new().build().unwrap());
    all_pairs_of_a_server!(Latencies::new("all"));
}

#[tokio::test]
async fn tower_http_goes_around_and_inside_of_breakers() {
    all_pairs_of_a_client!(CircuitBreakerLayer::per_host(BreakerConfig::DEFAULT));
    all_pairs_of_a_client!(CircuitBreakerLayer::per_host(BreakerConfig::DEFAULT).completion(AtBodyEnd::new()));
}

#[tokio::test]
async fn tower_http_goes_around_and_inside_of_retries() {
    all_pairs_of_a_client!(RetryLayer::new(Retry::new(2).budget(Unlimited)));
}

#[tokio::test]
async fn tower_http_goes_around_and_inside_of_hedges() {
    all_pairs_of_a_client!(HedgeLayer::new(Hedge::new(HedgeConfig::DEFAULT)));
}

#[tokio::test]
async fn tower_http_goes_around_and_inside_of_throttles() {
    all_pairs_of_a_client!(ThrottleLayer::per_host());
    all_pairs_of_a_client!(PacingLayer::per_host(quota()));
}

#[tokio::test]
async fn tower_http_goes_around_and_inside_of_a_clients_limits_and_deadlines() {
    all_pairs_of_a_client!(ClientConcurrencyLayer::bulkhead_per_host(8));
    all_pairs_of_a_client!(ClientDeadlineLayer::new(LONG));
    all_pairs_of_a_client!(AttemptTimeoutLayer::new(LONG));
}

#[tokio::test]
async fn tower_http_goes_around_and_inside_of_a_clients_stack() {
    all_pairs_of_a_client!(client_stack().deadline(LONG).breaker_per_host(BreakerConfig::DEFAULT));
    let boxed = || client_stack().deadline(LONG).boxed(service_fn(hello));
    let around = ServiceBuilder::new().layer(TraceLayer::new_for_http()).layer(CorsLayer::permissive());
    assert_eq!(status(around.service(boxed()), request()).await, StatusCode::OK);
}

#[tokio::test]
async fn tower_http_goes_around_mesh() {
    let call = || {
        let document = damper::mesh::Request::new("req_1", "total", "1", json!({}));
        Request::post("http://test.example/").body(Full::from(document.to_json())).unwrap()
    };
    let total = |_: IncomingCall| ready(Ok::<_, MeshError>(json!(7)));
    with_all_of_a_server!(around, MeshLayer::new("orders", Scopes::none()), service_fn(total), call());
}

/// The order that most servers have, from the outside in. A preflight and a request pass.
#[tokio::test]
async fn usual_order_of_a_server_compiles_and_serves() {
    let stack = ServiceBuilder::new()
        .layer(SetSensitiveHeadersLayer::new([AUTHORIZATION]))
        .layer(SetRequestIdLayer::new(ID, MakeRequestUuid))
        .layer(TraceLayer::new_for_http())
        .layer(PropagateRequestIdLayer::new(ID))
        .layer(CatchPanicLayer::new())
        .layer(CompressionLayer::new())
        .layer(CorsLayer::permissive())
        .layer(server_stack().deadline(LONG).limit(quota()).admission(Admission::fixed(8)))
        .layer(RequestBodyLimitLayer::new(1 << 20))
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, LONG))
        .service(service_fn(hello));
    assert_eq!(status(stack.clone(), request()).await, StatusCode::OK);
    let preflight = Request::options("http://test.example/").header("origin", "https://app.example");
    let preflight = preflight.header("access-control-request-method", "GET").body(Full::default()).unwrap();
    assert_eq!(status(stack, preflight).await, StatusCode::OK);
}

/// Makes three requests of a page of another origin, of which the limit refuses the last.
///
/// The first is a preflight. Returns the last response.
async fn refused_across_origins<S, R>(service: S) -> Response<R>
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>, Error: Debug> + Clone,
{
    let of_another_origin = |method| {
        let request = Request::builder().method(method).uri("http://test.example/");
        let request = request.header("origin", "https://app.example");
        request.header("access-control-request-method", "GET").body(Full::default()).unwrap()
    };
    service.clone().oneshot(of_another_origin("OPTIONS")).await.unwrap();
    service.clone().oneshot(of_another_origin("GET")).await.unwrap();
    service.oneshot(of_another_origin("GET")).await.unwrap()
}

/// A browser hides a response from a page of another origin unless CORS allows it.
#[tokio::test]
async fn limit_inside_of_cors_is_seen_by_browsers_and_leaves_preflights_alone() {
    let cors = || CorsLayer::permissive().expose_headers([RETRY_AFTER]);
    let limit = |burst| RateLimitLayer::global(Quota::per_hour(1).burst(burst));

    let inside = ServiceBuilder::new().layer(cors()).layer(limit(1)).service(service_fn(hello));
    let refused = refused_across_origins(inside).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS, "the preflight took no token");
    assert_eq!(refused.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
    assert_eq!(refused.headers()[ACCESS_CONTROL_EXPOSE_HEADERS], "retry-after");
    assert!(refused.headers().contains_key(RETRY_AFTER));

    let outside = ServiceBuilder::new().layer(limit(2)).layer(cors()).service(service_fn(hello));
    let refused = refused_across_origins(outside).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS, "the preflight took one of two tokens");
    assert!(!refused.headers().contains_key(ACCESS_CONTROL_ALLOW_ORIGIN), "a page sees a network error");
}
