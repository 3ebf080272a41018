//! Limits before tonic's servers, over real sockets, on a manual clock.

use crate::support::echo::echo_client::EchoClient;
use crate::support::echo::echo_server::EchoServer;
use crate::support::echo::health_client::HealthClient;
use crate::support::{LOCALHOST, Upstream, channel, client, message, messages, serve, uri};
use bytes::Bytes;
use damper::gate::{Ask, Standing};
use damper::http::{Head, Headers, Limited, PerClient, RateLimitLayer, RetryLayer};
use damper::tonic::{GrpcRetries, IntoStatus, RateLimitInterceptor};
use damper::{
    Bulkhead, CircuitBreaker, CircuitOpen, ClientAddress, KeyedLimiter, LimitSet, ManualClock, Quota, RateLimiter,
    Retry,
};
use http::{HeaderName, Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::future::ready;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpStream;
use tonic::service::Interceptor;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig};
use tonic::{Code, Status};
use tonic_types::StatusExt;

const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const HALF_A_SECOND: Duration = Duration::from_millis(500);

type Clients = Arc<KeyedLimiter<ClientAddress, Arc<ManualClock>>>;

type Clocked = Arc<RateLimiter<damper::TokenBucket, Arc<ManualClock>>>;

fn clocked(quota: Quota) -> (Arc<ManualClock>, RateLimitLayer<Clocked>) {
    let clock = Arc::new(ManualClock::new());
    (Arc::clone(&clock), RateLimitLayer::new(Arc::new(RateLimiter::with_clock(quota, clock))))
}

fn per_client(quota: Quota) -> RateLimitLayer<PerClient<Clients>> {
    let limits = KeyedLimiter::builder(quota).clock(Arc::new(ManualClock::new())).build().unwrap();
    RateLimitLayer::new(PerClient::new(Arc::new(limits)))
}

fn is_health(head: &Head<'_>) -> bool {
    head.uri.path() == "/damper.test.Health/Check"
}

fn retry_after(status: &Status) -> Option<Duration> {
    status.get_details_retry_info().and_then(|info| info.retry_delay)
}

#[track_caller]
fn assert_limited(status: &Status) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
}

async fn call(client: &mut EchoClient<Channel>) -> Result<(), Status> {
    client.unary(message("hello")).await.map(|answer| assert_eq!(answer.into_inner().text, "hello"))
}

/// Connects a channel from an address of this machine.
fn channel_from(address: impl Into<IpAddr>, server: SocketAddr) -> Channel {
    Endpoint::from(uri(server)).local_address(Some(address.into())).connect_lazy()
}

/// The scenario of the specification.
///
/// A limit of two a second refuses three of five rapid requests.
#[tokio::test]
async fn two_a_second_refuses_three_of_five() {
    let (clock, layer) = clocked(Quota::per_second(2));
    let upstream = Upstream::default();
    let router = Server::builder().layer(layer.exempt(is_health)).add_service(upstream.echo());
    let server = serve(router.add_service(upstream.health()));
    let mut client = client(server);
    for _ in 0..2 {
        call(&mut client).await.unwrap();
    }
    for _ in 0..3 {
        let status = call(&mut client).await.unwrap_err();
        assert_limited(&status);
        assert_eq!(status.message(), "rate limit exceeded, retry in 500 ms");
        assert_eq!(retry_after(&status), Some(HALF_A_SECOND), "exactly");
    }
    assert_eq!(upstream.hits(), 2);
    let mut health = HealthClient::new(channel(server));
    for _ in 0..5 {
        health.check(message("well?")).await.expect("exempt");
    }
    clock.advance(HALF_A_SECOND);
    call(&mut client).await.unwrap();
    assert_limited(&call(&mut client).await.unwrap_err());
}

/// A stream of any kind is refused when it opens, and its handler is not called.
#[tokio::test]
async fn streams_are_refused_when_they_open() {
    let (clock, layer) = clocked(Quota::per_second(2).burst(3));
    let upstream = Upstream::default();
    let mut client = client(serve(Server::builder().layer(layer).add_service(upstream.echo())));
    for round in 1..=2 {
        let all = client.client_streaming(messages(&["a", "b"])).await.unwrap();
        assert_eq!(all.into_inner().text, "ab");
        let mut three = client.server_streaming(message("c")).await.unwrap().into_inner();
        assert_eq!(three.message().await.unwrap(), Some(message("c")));
        client.bidirectional(messages(&["d", "e"])).await.unwrap();
        for refused in [
            client.client_streaming(messages(&["a", "b"])).await.map(drop),
            client.server_streaming(message("c")).await.map(drop),
            client.bidirectional(messages(&["d", "e"])).await.map(drop),
        ] {
            let status = refused.unwrap_err();
            assert_limited(&status);
            assert_eq!(retry_after(&status), Some(HALF_A_SECOND));
        }
        assert_eq!(upstream.hits(), 3 * round);
        clock.advance(Duration::from_secs(10));
    }
}

/// An open stream stays open, with any number of messages.
#[tokio::test]
async fn open_streams_have_unlimited_messages() {
    let (_, layer) = clocked(Quota::per_hour(1));
    let mut client = client(serve(Server::builder().layer(layer).add_service(Upstream::default().echo())));
    let mut answers = client.bidirectional(messages(&["again"; 100])).await.unwrap().into_inner();
    for _ in 0..100 {
        assert_eq!(answers.message().await.unwrap(), Some(message("again")));
    }
    assert_eq!(answers.message().await.unwrap(), None);
    assert_limited(&call(&mut client).await.unwrap_err());
}

/// Sends one request over HTTP/2, without tonic.
async fn send(server: SocketAddr, method: Method, content_type: &str) -> Response<Incoming> {
    let stream = TokioIo::new(TcpStream::connect(server).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(format!("http://{server}/damper.test.Echo/Unary"))
        .header("content-type", content_type);
    sender.send_request(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap()
}

/// A cache may store a `200 OK` to a GET. Every gRPC call is a POST, so only a POST gets a gRPC status.
#[tokio::test]
async fn only_a_post_is_refused_with_a_grpc_status() {
    let (_, layer) = clocked(Quota::per_second(1).burst(0));
    let server = serve(Server::builder().layer(layer).add_service(Upstream::default().echo()));
    for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE] {
        let answer = send(server, method.clone(), "application/grpc").await;
        assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS, "{method}");
        assert!(!answer.headers().contains_key("grpc-status"), "{method}");
        assert_eq!(answer.headers()["cache-control"], "no-store", "{method}");
    }
    let answer = send(server, Method::POST, "application/grpc").await;
    assert_eq!((answer.status(), &answer.headers()["grpc-status"]), (StatusCode::OK, &"8".parse().unwrap()));
}

/// Refusals by the layer, by the interceptor and by a handler's `?`, for every reason.
#[tokio::test]
async fn grpc_refusals_forbid_caching() {
    let (_, layer) = clocked(Quota::per_second(1).burst(0));
    let upstream = Upstream::default();
    let behind_layer = serve(Server::builder().layer(layer.clone()).add_service(upstream.echo()));
    let intercepted = EchoServer::with_interceptor(upstream.clone(), RateLimitInterceptor::new(&layer));
    let intercepted = serve(Server::builder().add_service(intercepted));
    for server in [behind_layer, intercepted] {
        let answer = send(server, Method::POST, "application/grpc").await;
        assert_eq!(answer.headers()["grpc-status"], "8");
        assert_eq!(answer.headers()["cache-control"], "no-store");
    }
    let limiter = RateLimiter::with_clock(Quota::per_second(1).burst(0), ManualClock::new());
    let status = limiter.check().unwrap_err().into_status();
    assert_eq!(status.metadata().get("cache-control").unwrap(), "no-store");
    let breaker = CircuitBreaker::default();
    breaker.force_open();
    let status = breaker.try_acquire().unwrap_err().into_status();
    assert_eq!(status.metadata().get("cache-control").unwrap(), "no-store");
}

/// On the wire a refusal is one block of headers that ends the stream.
///
/// Requests of plain HTTP get their usual refusal.
#[tokio::test]
async fn refusal_is_a_trailers_only_response() {
    let (_, layer) = clocked(Quota::per_second(1).burst(0));
    let server = serve(Server::builder().layer(layer).add_service(Upstream::default().echo()));
    for content_type in ["application/grpc", "application/grpc+proto", "application/grpc-web+proto"] {
        let answer = send(server, Method::POST, content_type).await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["grpc-status"], "8");
        assert_eq!(answer.headers()["grpc-message"], "rate%20limit%20exceeded,%20and%20no%20wait%20helps");
        assert_eq!(answer.headers()["content-type"], content_type);
        let details = Status::from_header_map(answer.headers()).unwrap().get_error_details();
        assert!(details.retry_info().is_none(), "no wait helps");
        assert_eq!(details.quota_failure().unwrap().violations[0].description, "1/s burst 0");
        assert_eq!(details.error_info().unwrap().reason, "OVER_LIMIT");
        assert!(!answer.headers().contains_key("retry-after"));
        assert!(answer.body().is_end_stream());
        let end = answer.into_body().collect().await.unwrap();
        assert!(end.trailers().is_none() && end.to_bytes().is_empty());
    }
    let answer = send(server, Method::POST, "application/json").await;
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "rate limit exceeded, and no wait helps\n");
}

/// tonic's server adds the peer's address itself.
#[tokio::test]
async fn peers_have_separate_limits() {
    let layer = per_client(Quota::per_minute(1).burst(2));
    let server = serve(Server::builder().layer(layer).add_service(Upstream::default().echo()));
    // Two connections of one address share its limit.
    let mut clients = [LOCALHOST, LOCALHOST, NEIGHBOUR].map(|from| EchoClient::new(channel_from(from, server)));
    for (client, passes) in [(0, true), (1, true), (0, false), (1, false), (2, true), (2, true), (2, false)] {
        let result = call(&mut clients[client]).await;
        assert_eq!(result.as_ref().map_err(Status::code), if passes { Ok(&()) } else { Err(Code::ResourceExhausted) });
    }
}

/// The same over TLS.
#[tokio::test]
async fn peers_over_tls_have_separate_limits() {
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
    let identity = Identity::from_pem(cert.pem(), signing_key.serialize_pem());
    let server = Server::builder().tls_config(ServerTlsConfig::new().identity(identity)).unwrap();
    let layer = per_client(Quota::per_minute(1).burst(1));
    let server = serve(server.layer(layer).add_service(Upstream::default().echo()));
    let tls = ClientTlsConfig::new().domain_name("localhost").ca_certificate(Certificate::from_pem(cert.pem()));
    for from in [LOCALHOST, NEIGHBOUR] {
        let endpoint = Endpoint::from_shared(format!("https://{server}")).unwrap().local_address(Some(from.into()));
        let mut client = EchoClient::new(endpoint.tls_config(tls.clone()).unwrap().connect_lazy());
        call(&mut client).await.unwrap();
        assert_limited(&call(&mut client).await.unwrap_err());
    }
}

/// A peer without an address shares no limit with others.
///
/// The status does not expose the server's configuration.
#[cfg(unix)]
#[tokio::test]
async fn missing_peer_is_an_internal_error() {
    let (sender, errors) = std::sync::mpsc::channel();
    let layer = per_client(Quota::per_second(1)).on_error(move |_, error| sender.send(error.to_string()).unwrap());
    let path = std::env::temp_dir().join(format!("damper-{}.sock", std::process::id()));
    _ = std::fs::remove_file(&path);
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let incoming = futures_util::stream::unfold(listener, async |listener| {
        let stream = listener.accept().await.map(|(stream, _)| stream);
        Some((stream, listener))
    });
    let router = Server::builder().layer(layer).add_service(Upstream::default().echo());
    tokio::spawn(router.serve_with_incoming(incoming));
    let mut client = EchoClient::connect(format!("unix://{}", path.display())).await.unwrap();
    let status = call(&mut client).await.unwrap_err();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(status.code(), Code::Internal);
    assert_eq!(status.message(), "the rate limit could not decide");
    assert_eq!(status.metadata().get("cache-control").unwrap(), "no-store");
    assert_eq!(errors.try_iter().collect::<Vec<_>>(), ["the rate limit could not decide"]);
}

/// A call with this API key.
async fn call_as(client: &mut EchoClient<Channel>, key: &'static str) -> Result<(), Status> {
    let mut request = tonic::Request::new(message("hello"));
    request.metadata_mut().insert("x-api-key", key.parse().unwrap());
    client.unary(request).await.map(drop)
}

#[tokio::test]
async fn metadata_value_is_a_key() {
    let layer = RateLimitLayer::by_header(HeaderName::from_static("x-api-key"), Quota::per_hour(1));
    let mut client = client(serve(Server::builder().layer(layer).add_service(Upstream::default().echo())));
    for key in ["alice", "bob"] {
        call_as(&mut client, key).await.unwrap();
        assert_limited(&call_as(&mut client, key).await.unwrap_err());
    }
    call(&mut client).await.unwrap();
    assert_limited(&call(&mut client).await.unwrap_err());
}

/// The full method is the path. A closure may build a key from any part of the head.
#[tokio::test]
async fn full_method_is_a_key() {
    let key = |head: &Head<'_>| (head.uri.path().to_owned(), head.headers.get("x-api-key").cloned());
    let layer = RateLimitLayer::by(key, Quota::per_hour(1));
    let mut client = client(serve(Server::builder().layer(layer).add_service(Upstream::default().echo())));
    call(&mut client).await.unwrap();
    assert_limited(&call(&mut client).await.unwrap_err());
    call_as(&mut client, "alice").await.unwrap();
    assert_limited(&call_as(&mut client, "alice").await.unwrap_err());
    client.server_streaming(message("c")).await.unwrap();
    assert_limited(&client.server_streaming(message("c")).await.unwrap_err());
}

/// One service of a router has its own limit, and the router finds it by its name.
#[tokio::test]
async fn layer_limits_one_service_of_a_router() {
    let (_, layer) = clocked(Quota::per_hour(1));
    let upstream = Upstream::default();
    let router = Server::builder().add_service(layer.layer(upstream.echo())).add_service(upstream.health());
    let server = serve(router);
    let mut client = client(server);
    call(&mut client).await.unwrap();
    assert_limited(&call(&mut client).await.unwrap_err());
    HealthClient::new(channel(server)).check(message("well?")).await.unwrap();
}

/// As an interceptor, the same limit refuses with the same status, by peer and by metadata.
#[tokio::test]
async fn interceptor_refuses_with_the_same_status() {
    let (_, layer) = clocked(Quota::per_second(2));
    let (sender, refusals) = std::sync::mpsc::channel();
    let layer = layer
        .exempt(|head| head.headers.contains_key("x-api-key"))
        .on_limited(move |head, limited| sender.send(format!("{}: {limited}", head.peer().unwrap().ip())).unwrap());
    let upstream = Upstream::default();
    let server = EchoServer::with_interceptor(upstream.clone(), RateLimitInterceptor::new(&layer));
    let mut client = client(serve(Server::builder().add_service(server)));
    for _ in 0..2 {
        call(&mut client).await.unwrap();
    }
    for refused in [call(&mut client).await, client.bidirectional(messages(&["d"])).await.map(drop)] {
        let status = refused.unwrap_err();
        assert_limited(&status);
        assert_eq!(retry_after(&status), Some(HALF_A_SECOND));
    }
    call_as(&mut client, "alice").await.expect("exempt");
    assert_eq!(upstream.hits(), 3);
    assert_eq!(refusals.try_iter().collect::<Vec<_>>(), ["127.0.0.1: rate limit exceeded, retry in 500 ms"; 2]);
}

/// An interceptor is not told the method, but every call of gRPC is a POST.
#[test]
fn request_of_an_interceptor_is_a_post() {
    let (_, layer) = clocked(Quota::per_second(50).burst(1));
    let posts = layer.clone().exempt(|head| *head.method == Method::POST);
    let mut interceptor = RateLimitInterceptor::new(&posts);
    for _ in 0..3 {
        assert!(interceptor.call(tonic::Request::new(())).is_ok(), "a POST is exempt");
    }
    let mut interceptor = RateLimitInterceptor::new(&layer.exempt(|head| *head.method == Method::GET));
    assert!(interceptor.call(tonic::Request::new(())).is_ok());
    assert!(interceptor.call(tonic::Request::new(())).is_err(), "no request is a GET");
}

/// Headers are metadata, on all responses if configured.
#[tokio::test]
async fn metadata_report_the_standing() {
    let (_, layer) = clocked(Quota::per_minute(2));
    let layer = layer.headers(Headers::OnAllResponses).named("calls").unwrap();
    let mut client = client(serve(Server::builder().layer(layer).add_service(Upstream::default().echo())));
    let answer = client.unary(message("hello")).await.unwrap();
    assert_eq!(answer.metadata().get("ratelimit").unwrap(), r#""calls";r=1;t=30"#);
    call(&mut client).await.unwrap();
    let status = call(&mut client).await.unwrap_err();
    assert_eq!(status.metadata().get("ratelimit").unwrap(), r#""calls";r=0;t=30"#);
    assert_eq!(status.metadata().get("ratelimit-policy").unwrap(), r#""calls";q=2;w=60"#);
}

/// Of many concurrent calls, exactly the burst passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_calls_stay_within_the_burst() {
    let (_, layer) = clocked(Quota::per_hour(10));
    let upstream = Upstream::default();
    let server = serve(Server::builder().layer(layer).add_service(upstream.echo()));
    let calls = (0..64).map(|_| tokio::spawn(async move { call(&mut client(server)).await }));
    let results = futures_util::future::join_all(calls).await;
    assert_eq!(results.into_iter().filter(|result| result.as_ref().unwrap().is_ok()).count(), 10);
    assert_eq!(upstream.hits(), 10);
}

/// The client waits as long as the server asks for, in the details and in the pushback.
#[tokio::test]
async fn refused_call_is_retried_after_the_servers_wait() {
    let (clock, limit) = clocked(Quota::per_second(5).burst(1));
    let upstream = Upstream::default();
    let server = serve(Server::builder().layer(limit).add_service(upstream.echo()));
    let mut plain = client(server);
    call(&mut plain).await.unwrap();
    let refusal = call(&mut plain).await.unwrap_err();
    assert_eq!(retry_after(&refusal), Some(Duration::from_millis(200)));
    assert_eq!(refusal.metadata().get("grpc-retry-pushback-ms").unwrap(), "200");

    let waits = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&waits);
    let retry = RetryLayer::sleeping_by(Retry::new(2), move |wait: Duration| {
        log.lock().unwrap().push(wait);
        clock.advance(wait);
        ready(())
    });
    let mut retrying = EchoClient::new(retry.protocol(GrpcRetries::new()).layer(channel(server)));
    retrying.unary(message("hello")).await.unwrap();
    let waits = waits.lock().unwrap().clone();
    let [wait] = waits[..] else { panic!("{waits:?}") };
    assert!((200..=300).contains(&wait.as_millis()), "the wait and its jitter, not a base of a second: {wait:?}");
    assert_eq!(upstream.hits(), 2);
}

/// Refusals become statuses, so handlers may use `map_err(IntoStatus::into_status)?`.
#[test]
fn refusals_become_statuses() {
    let limiter = RateLimiter::with_clock(Quota::per_second(2).burst(0), ManualClock::new());
    let handler = || -> Result<(), Status> {
        limiter.check().map_err(IntoStatus::into_status)?;
        Ok(())
    };
    let status = handler().unwrap_err();
    assert_eq!(status.message(), "rate limit exceeded: the burst is 0");
    assert_eq!((status.code(), retry_after(&status)), (Code::ResourceExhausted, None));

    let clock = ManualClock::new();
    let layered = LimitSet::with_clock([Quota::per_second(10), Quota::per_minute(1)], &clock);
    layered.check().unwrap();
    let status = layered.check().unwrap_err().into_status();
    assert_eq!((status.code(), retry_after(&status)), (Code::ResourceExhausted, Some(Duration::from_mins(1))));

    let calls = LimitSet::with_clock([Quota::per_minute(1)], &clock).with_bulkhead(Bulkhead::new(1));
    let call = calls.reserve([0]).unwrap();
    let status = calls.reserve([1]).unwrap_err().into_status();
    assert_eq!((status.code(), retry_after(&status)), (Code::Unavailable, Some(Duration::from_secs(1))));
    drop(call);
    drop(calls.reserve([1]).unwrap());
    let status = calls.reserve([1]).unwrap_err().into_status();
    assert_eq!((status.code(), retry_after(&status)), (Code::ResourceExhausted, Some(Duration::from_mins(1))));

    let breaker = CircuitBreaker::with_clock(damper::BreakerConfig::DEFAULT, &clock);
    for _ in 0..5 {
        breaker.try_acquire().unwrap().failure();
    }
    let status = breaker.try_acquire().unwrap_err().into_status();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "circuit open, next probe in 30 s"));
    assert_eq!(retry_after(&status), Some(Duration::from_secs(30)));
    assert!(CircuitOpen::find_in(&status).is_some());

    // The refusal of a pair is that of the gate that refused.
    let open = CircuitBreaker::with_clock(damper::BreakerConfig::DEFAULT, &clock);
    open.force_open();
    let closed = RateLimiter::with_clock(Quota::per_second(2).burst(0), &clock);
    let passes = RateLimiter::with_clock(Quota::per_second(2), &clock);
    let status = (&closed, &open).ask("a call").into_result().unwrap_err().into_status();
    assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, "rate limit exceeded: the burst is 0"));
    let status = (&passes, &open).ask("a call").into_result().unwrap_err().into_status();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "circuit forced open"));

    let standing = Standing::new(Quota::per_second(2), 0, None);
    let status = Limited::new(Some(Duration::from_secs(3)), standing).into_status();
    assert_eq!((status.code(), retry_after(&status)), (Code::ResourceExhausted, Some(Duration::from_secs(3))));

    clock.advance(Duration::from_secs(30));
    let probe = breaker.try_acquire().unwrap();
    let status = breaker.try_acquire().unwrap_err().into_status();
    assert_eq!(retry_after(&status), Some(Duration::from_secs(1)), "a probe may take any time");
    drop(probe);

    let failed = breaker.call(|| Err::<(), _>(Status::not_found("no such thing"))).unwrap_err();
    assert_eq!(failed.into_status().code(), Code::NotFound);
    breaker.force_open();
    let refused = breaker.call(|| Ok::<_, Status>(())).unwrap_err();
    assert_eq!(refused.into_status().code(), Code::Unavailable);
}
