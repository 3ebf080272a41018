//! The limiters behind layers, over real sockets.
//!
//! Responses are those that a local limit of the same quota gives.

use crate::fake::{Fake, Mode, until};
use axum::Router;
use axum::routing::{Route, get};
use damper_core::gate::WaitsWith;
use damper_core::{ClientAddress, KeyedLimiter, Quota, RateLimiter};
use damper_http::{ByHeader, Head, Headers, Limit, PerClient, RateLimitLayer, Settle};
use damper_redis::{RedisLimiter, RedisLimiterBuilder, WhenDown};
use http::HeaderName;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// So slow that the seconds in headers do not change within a test.
const QUOTA: Quota = Quota::per_hour(10);

fn builder(fake: &Fake) -> RedisLimiterBuilder {
    let second = Duration::from_secs(1);
    RedisLimiter::connect(fake.url()).name("http").quota(QUOTA).deadline(second).when_down(WhenDown::Closed)
}

/// Serves behind a layer.
async fn serve<L>(layer: RateLimitLayer<L>) -> SocketAddr
where
    L: Limit<Future: WaitsWith<Route> + Send + 'static> + Clone + Send + Sync + 'static,
{
    let app = Router::new().route("/", get(|| async { "hello" })).layer(layer.headers(Headers::OnAllResponses));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await });
    address
}

/// The status and the headers of a response, but for its date.
async fn request(server: SocketAddr, header: &str) -> (u16, BTreeMap<String, String>) {
    let mut stream = TcpStream::connect(server).await.unwrap();
    let text = format!("GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{header}\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, _) = response.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers =
        lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_owned(), value.to_owned()));
    (status, headers.filter(|(name, _)| name != "date").collect())
}

#[tokio::test]
async fn responses_are_those_of_a_local_limit() {
    let fake = Fake::start(10);
    let fleet = serve(RateLimitLayer::new(builder(&fake).build().await.unwrap())).await;
    let local = serve(RateLimitLayer::new(Arc::new(RateLimiter::new(QUOTA)))).await;
    for number in 0..13 {
        let (of_fleet, of_local) = (request(fleet, "").await, request(local, "").await);
        assert_eq!(of_fleet, of_local, "request {number}");
        assert_eq!(of_fleet.0, if number < 10 { 200 } else { 429 });
    }
    let (_, headers) = request(fleet, "").await;
    assert_eq!(headers["retry-after"], "360");
}

#[tokio::test]
async fn responses_per_client_are_those_of_a_local_limit() {
    let fake = Fake::start(10);
    let limits = builder(&fake).build_keyed().await.unwrap();
    let fleet = serve(RateLimitLayer::new(PerClient::new(limits.clone()))).await;
    let locals = KeyedLimiter::<ClientAddress>::builder(QUOTA).capacity(16).build().unwrap();
    let local = serve(RateLimitLayer::new(PerClient::new(Arc::new(locals)))).await;
    for number in 0..12 {
        assert_eq!(request(fleet, "").await, request(local, "").await, "request {number}");
    }
    assert_eq!(fake.calls()[0].keys[1], "damper:{127.0.0.1}:http:0");
    assert_eq!(limits.len(), 1);
}

#[tokio::test]
async fn header_values_are_keys_whatever_they_contain() {
    let fake = Fake::start(10);
    let limits = builder(&fake).build_keyed().await.unwrap();
    let server = serve(RateLimitLayer::new(ByHeader::new(HeaderName::from_static("x-tenant"), limits))).await;
    for header in ["x-tenant: a}b\r\n", ""] {
        assert_eq!(request(server, header).await.0, 200);
    }
    let keys: Vec<_> = fake.calls().into_iter().map(|call| call.keys[1].clone()).collect();
    assert_eq!(keys, ["damper:{a%7db}:http:0", "damper:{%}:http:0"]);
}

#[tokio::test]
async fn policy_decides_on_requests_while_the_server_does_not() {
    for (policy, status) in [(WhenDown::Open, 200), (WhenDown::Closed, 429)] {
        let fake = Fake::start(10);
        let limiter = builder(&fake).deadline(Duration::from_millis(50)).when_down(policy).build().await.unwrap();
        let server = serve(RateLimitLayer::new(limiter)).await;
        fake.set(Mode::Silent);
        for _ in 0..8 {
            assert_eq!(request(server, "").await.0, status, "{policy}");
        }
    }
}

#[tokio::test]
async fn cost_is_corrected_by_the_response() {
    let fake = Fake::start(10);
    let limiter = builder(&fake).build().await.unwrap();
    let layer = RateLimitLayer::new(limiter).cost(|_| 4).charge_by_response(|_, _| 1);
    let server = serve(layer).await;
    assert_eq!(request(server, "").await.0, 200);
    until("the refund", async || fake.tokens() == 9).await;
}

#[test]
fn limiters_are_limits_behind_arcs_too() {
    fn is_settled<L: for<'a> Settle<Head<'a>>>(_: &L) {}
    let limiter = RedisLimiter::connect("redis://127.0.0.1/").quota(QUOTA).build_lazy().unwrap();
    is_settled(&Arc::new(limiter));
    let keyed = RedisLimiter::connect("redis://127.0.0.1/").quota(QUOTA).build_keyed_lazy().unwrap();
    is_settled(&PerClient::new(Arc::new(keyed)));
}
