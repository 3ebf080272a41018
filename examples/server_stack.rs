//! An axum server with a deadline and limits in the one right order.
//!
//! A client runs into each of them.

use axum::http::{HeaderName, StatusCode};
use axum::{Router, routing::get};
use damper::Quota;
use damper::http::{DeadlineLayer, TimeoutUnit, server_stack};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");

/// The calls of the handler.
static CALLS: AtomicU32 = AtomicU32::new(0);

async fn page() -> &'static str {
    if CALLS.fetch_add(1, Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    "page"
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let stack = server_stack()
        .limit(Quota::per_hour(1_000).burst(5)) // of all clients together
        .limit_per_client(Quota::per_hour(100).burst(3))
        .deadline_layer(DeadlineLayer::new(Duration::from_secs(5)).header(TIMEOUT, TimeoutUnit::Milliseconds));
    let app = Router::new().route("/", get(page)).layer(stack);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    // Adds the peer's address to each request.
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });

    let client = reqwest::Client::new();
    let get = async |timeout: &str| -> Result<StatusCode, Box<dyn Error>> {
        let response = client.get(&url).header(TIMEOUT, timeout).send().await?;
        let (status, text) = (response.status(), response.text().await?);
        println!("within {timeout} ms: {status}, {} calls: {}", CALLS.load(Ordering::Relaxed), text.trim());
        Ok(status)
    };
    // It arrives too late, takes no token and reaches no handler.
    assert!(get("0").await? == StatusCode::GATEWAY_TIMEOUT && CALLS.load(Ordering::Relaxed) == 0);
    // The handler takes too long and is dropped.
    assert!(get("100").await? == StatusCode::GATEWAY_TIMEOUT && CALLS.load(Ordering::Relaxed) == 1);
    for expected in [StatusCode::OK, StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
        assert_eq!(get("1000").await?, expected, "three requests of one client, the late one among them");
    }
    assert_eq!(CALLS.load(Ordering::Relaxed), 3, "a request over the limit reaches no handler");
    Ok(())
}
