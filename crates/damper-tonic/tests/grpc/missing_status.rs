//! Responses to gRPC calls from proxies and broken servers, over real sockets.

use crate::support::echo::echo_client::EchoClient;
use crate::support::{BoxError, LOCALHOST, channel, message, uri};
use bytes::Bytes;
use damper::breaker::State;
use damper::http::{CircuitBreakerLayer, RateLimitLayer};
use damper::tonic::AtTrailers;
use damper::{BreakerConfig, CircuitBreaker, ManualClock, Quota};
use futures_util::stream::{self, StreamExt};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Service, ServiceExt};

/// A gRPC message: its length, and the text `a`.
const MESSAGE: &[u8] = b"\0\0\0\0\x03\x0a\x01a";
const PAGE: &[u8] = b"<html>An error occurred</html>";

/// A response: its status, its content type, the gRPC status in its headers, and its body's frames.
#[derive(Clone, Default)]
struct Sent {
    status: u16,
    content_type: &'static str,
    in_headers: Option<&'static str>,
    body: &'static [u8],
    trailers: &'static [(&'static str, &'static str)],
}

impl Sent {
    fn grpc(body: &'static [u8], trailers: &'static [(&'static str, &'static str)]) -> Self {
        Self { status: 200, content_type: "application/grpc", body, trailers, ..Self::default() }
    }

    fn page(status: u16) -> Self {
        Self { status, content_type: "text/html", body: PAGE, ..Self::default() }
    }

    fn response(&self) -> Response<Body> {
        let mut frames = Vec::new();
        if !self.body.is_empty() {
            frames.push(Ok::<_, BoxError>(Frame::data(Bytes::from_static(self.body))));
        }
        if !self.trailers.is_empty() {
            let trailers = self
                .trailers
                .iter()
                .map(|&(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)));
            frames.push(Ok(Frame::trailers(trailers.collect())));
        }
        let mut response = Response::builder().status(self.status).header("content-type", self.content_type);
        if let Some(status) = self.in_headers {
            response = response.header("grpc-status", status);
        }
        let body = if frames.is_empty() { Body::empty() } else { Body::new(StreamBody::new(stream::iter(frames))) };
        response.body(body).unwrap()
    }
}

/// Serves this service over HTTP/2.
async fn serve<S, B>(service: S) -> SocketAddr
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send> + Clone + Send + 'static,
    B: http_body::Body<Data = Bytes, Error = Status> + Send + 'static,
{
    let listener = TcpListener::bind((LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

/// Sends this response to every request.
async fn serve_with(answer: impl Fn(Request<Incoming>) -> Response<Body> + Clone + Send + 'static) -> SocketAddr {
    serve(tower::service_fn(move |request| ready(Ok(answer(request))))).await
}

fn breaker() -> Arc<CircuitBreaker<ManualClock>> {
    let config = BreakerConfig::builder().failure_threshold(1).build().unwrap();
    Arc::new(CircuitBreaker::with_clock(config, ManualClock::new()))
}

/// Returns the code that a tonic client sees, and whether the breaker counted a failure.
async fn outcome(sent: Sent) -> (Code, bool) {
    let server = serve_with(move |_| sent.response()).await;
    let breaker = breaker();
    let mut client = EchoClient::new(
        CircuitBreakerLayer::new(Arc::clone(&breaker)).completion(AtTrailers::new()).layer(channel(server)),
    );
    let code = client.unary(message("hello")).await.map_or_else(|status| status.code(), |_| Code::Ok);
    (code, breaker.state() == State::Open)
}

#[tokio::test]
async fn status_is_read_from_headers_or_trailers() {
    let ok = Sent::grpc(MESSAGE, &[("grpc-status", "0")]);
    assert_eq!(outcome(ok).await, (Code::Ok, false));
    assert_eq!(outcome(Sent::grpc(MESSAGE, &[("grpc-status", "14")])).await, (Code::Unavailable, true));
    assert_eq!(outcome(Sent::grpc(b"", &[("grpc-status", "8")])).await, (Code::ResourceExhausted, true));
    assert_eq!(outcome(Sent::grpc(b"", &[("grpc-status", "5")])).await, (Code::NotFound, false));
    let in_headers = Sent { in_headers: Some("4"), ..Sent::grpc(b"", &[]) };
    assert_eq!(outcome(in_headers).await, (Code::DeadlineExceeded, true));
    // A gRPC status takes precedence over the HTTP status. A malformed code is `UNKNOWN`, and counts as the server's.
    assert_eq!(outcome(Sent { in_headers: Some("5"), ..Sent::page(503) }).await, (Code::NotFound, false));
    assert_eq!(outcome(Sent::grpc(MESSAGE, &[("grpc-status", "nonsense")])).await, (Code::Unknown, false));
}

/// By the protocol, a stream that ends without a status is `UNKNOWN`.
///
/// It is a failure, because no server sent that status.
#[tokio::test]
async fn end_without_a_status_is_a_failure() {
    assert_eq!(outcome(Sent::grpc(MESSAGE, &[])).await, (Code::Unknown, true));
    assert_eq!(outcome(Sent::grpc(b"", &[])).await, (Code::Unknown, true));
    assert_eq!(outcome(Sent::grpc(MESSAGE, &[("x-other", "1")])).await, (Code::Unknown, true));
}

/// The connection of a stream is lost after a message.
#[tokio::test]
async fn truncated_stream_is_a_failure() {
    let (cut, is_cut) = tokio::sync::watch::channel(false);
    let server = serve_with(move |_| {
        let mut is_cut = is_cut.clone();
        let end = async move {
            is_cut.wait_for(|is_cut| *is_cut).await.unwrap();
            Err(BoxError::from("cut off"))
        };
        let message = ready(Ok(Frame::data(Bytes::from_static(MESSAGE))));
        let frames = stream::once(message).chain(stream::once(end));
        Response::builder().header("content-type", "application/grpc").body(Body::new(StreamBody::new(frames))).unwrap()
    })
    .await;
    let breaker = breaker();
    let mut client = EchoClient::new(
        CircuitBreakerLayer::new(Arc::clone(&breaker)).completion(AtTrailers::new()).layer(channel(server)),
    );
    let mut answers = client.server_streaming(message("hello")).await.unwrap().into_inner();
    assert_eq!(answers.message().await.unwrap(), Some(message("a")));
    assert_eq!(breaker.state(), State::Closed);
    cut.send_replace(true);
    assert_eq!(answers.message().await.unwrap_err().code(), Code::Internal, "unchanged");
    assert_eq!(breaker.state(), State::Open);
}

/// A client drops an HTML page before its end, so the verdict is recorded at the head.
#[tokio::test]
async fn missing_status_is_mapped_from_http() {
    for (status, is_failure) in [
        (200, true),
        (302, true),
        (400, false),
        (401, false),
        (403, false),
        (404, false),
        (429, true),
        (431, false),
        (500, true),
        (502, true),
        (503, true),
        (504, true),
    ] {
        assert_eq!(outcome(Sent::page(status)).await.1, is_failure, "{status}");
        assert_eq!(outcome(Sent { body: b"", ..Sent::page(status) }).await.1, is_failure, "{status}, empty");
    }
}

/// A proxy's 429 that names a wait is a limiter's refusal, and no failure.
#[tokio::test]
async fn http_limiter_refusal_is_a_success() {
    for (status, is_failure) in [(429, false), (503, true)] {
        let server = serve_with(move |_| {
            let head = Response::builder().status(status).header("content-type", "text/html");
            head.header("retry-after", "1").body(Body::new(Full::from(PAGE).map_err(BoxError::from))).unwrap()
        })
        .await;
        let breaker = breaker();
        let client =
            CircuitBreakerLayer::new(Arc::clone(&breaker)).completion(AtTrailers::new()).layer(channel(server));
        client.oneshot(Request::post(uri(server)).body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(breaker.state() == State::Open, is_failure, "{status}");
    }
}

/// tonic panics on details that are not base64, and damper does not.
#[tokio::test]
async fn malformed_details_are_ignored() {
    for details in ["!!!", "AAAA", "", "CAgSA2ZvbxoC"] {
        let server = serve_with(move |_| {
            let head = Response::builder().header("content-type", "application/grpc").header("grpc-status", "14");
            head.header("grpc-status-details-bin", details).body(Body::empty()).unwrap()
        })
        .await;
        let breaker = breaker();
        let client =
            CircuitBreakerLayer::new(Arc::clone(&breaker)).completion(AtTrailers::new()).layer(channel(server));
        client.oneshot(Request::post(uri(server)).body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(breaker.state(), State::Open);
    }
}

/// The headers of deadlines and retries pass both layers unchanged.
///
/// The values of `grpc.json` include valid and invalid ones.
#[tokio::test]
async fn timeout_and_pushback_headers_pass_unchanged() {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../../../damper-core/tests/core/conformance/vectors/grpc.json")).unwrap();
    let suites: Vec<_> =
        vectors["suites"].as_array().unwrap().iter().filter(|suite| suite["conformance"] == "must").collect();
    let strings = |values: &serde_json::Value| -> Vec<String> {
        values.as_array().into_iter().flatten().filter_map(|value| value.as_str().map(str::to_owned)).collect()
    };
    let mut timeouts = 0;
    for suite in suites.iter().filter(|suite| suite["id"].as_str().unwrap().starts_with("timeout_")) {
        let steps = suite["steps"].as_array().into_iter().flatten().filter_map(|step| step["value"].as_str());
        for value in steps.map(str::to_owned).chain(strings(&suite["values"])) {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            assert_eq!(passed_on("grpc-timeout", std::slice::from_ref(&value)).await, [value]);
            timeouts += 1;
        }
    }
    let pushback = suites.iter().find(|suite| suite["id"] == "pushback").unwrap();
    for step in pushback["steps"].as_array().unwrap() {
        let values: Vec<_> = strings(&step["values"]).iter().map(|value| value.parse().unwrap()).collect();
        assert_eq!(passed_on("grpc-retry-pushback-ms", &values).await, values);
    }
    assert!(timeouts > 40, "{timeouts}");
}

/// Sends these values of a header through a breaker and a limit to a server that echoes them.
async fn passed_on(name: &'static str, values: &[HeaderValue]) -> Vec<HeaderValue> {
    let send_back = move |request: Request<Incoming>| {
        let mut response = Sent { in_headers: Some("14"), ..Sent::grpc(b"", &[]) }.response();
        for value in request.headers().get_all(name) {
            response.headers_mut().append(name, value.clone());
        }
        ready(Ok(response))
    };
    let server = serve(RateLimitLayer::global(Quota::per_second(1)).layer(tower::service_fn(send_back))).await;
    let stream = TokioIo::new(TcpStream::connect(server).await.unwrap());
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let client =
        CircuitBreakerLayer::new(breaker()).completion(AtTrailers::new()).layer(tower::service_fn(move |request| {
            let mut sender = sender.clone();
            async move { sender.send_request(request).await }
        }));
    let mut request = Request::post(uri(server)).header("content-type", "application/grpc");
    for value in values {
        request = request.header(name, value);
    }
    let answer = client.oneshot(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap();
    answer.headers().get_all(name).iter().cloned().collect()
}
