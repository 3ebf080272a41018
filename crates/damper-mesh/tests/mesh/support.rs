//! Mesh services over real sockets, on a manual clock.

use bytes::Bytes;
use damper::limit::FixedWindow;
use damper::mesh::{IncomingCall, MeshError, MeshLayer, Scopes};
use damper::{ManualClock, Quota, RateLimiter};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tower::{Layer, Service, service_fn};

pub(crate) type SharedClock = Arc<ManualClock>;

pub(crate) type Timer = fn(Duration) -> tokio::time::Sleep;

/// Polls again soon, because the test moves the clock.
pub(crate) fn look_again(_: Duration) -> tokio::time::Sleep {
    tokio::time::sleep(Duration::from_millis(1))
}

/// A limit of windows of a minute.
pub(crate) fn per_minute(limit: u32, clock: &SharedClock) -> RateLimiter<FixedWindow, SharedClock> {
    RateLimiter::with_algorithm(FixedWindow::new(Quota::per_minute(limit)), Arc::clone(clock))
}

pub(crate) fn http() -> Client<HttpConnector, Full<Bytes>> {
    Client::builder(TokioExecutor::new()).build_http()
}

/// Posts a text, and returns the status, the header `Retry-After` and the document.
pub(crate) async fn post(address: SocketAddr, text: impl Into<Bytes>) -> (StatusCode, Option<String>, Value) {
    let request = Request::post(format!("http://{address}/")).body(Full::new(text.into())).unwrap();
    let response = http().request(request).await.unwrap();
    let retry_after = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(response.headers()["content-type"], "application/json");
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, retry_after, serde_json::from_slice(&body).unwrap())
}

/// Serves functions behind limits.
pub(crate) async fn serve_mesh<A, F>(
    scopes: impl Into<Arc<Scopes<SharedClock, A>>>,
    function: impl Fn(IncomingCall<SharedClock>) -> F + Clone + Send + 'static,
) -> SocketAddr
where
    A: damper::KeyedAlgorithm + 'static,
    F: Future<Output = Result<Value, MeshError>> + Send + 'static,
{
    let layer = MeshLayer::sleeping_by("orders-api", scopes, look_again as Timer).max_request(10_000);
    let layer = layer.caller(|caller, head, request| {
        let service = head.headers.get("x-service").and_then(|name| name.to_str().ok());
        caller.service(service.unwrap_or_default()).user(request.call.arguments["user"].as_str().unwrap_or_default())
    });
    serve(layer.layer(service_fn(function))).await
}

/// Serves every connection.
pub(crate) async fn serve<S>(service: S) -> SocketAddr
where
    S: Service<Request<hyper::body::Incoming>, Response = Response<Full<Bytes>>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}
