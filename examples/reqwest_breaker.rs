//! `reqwest::Client` as it is behind a breaker per host.
//!
//! The requests and responses stay those of reqwest.

use axum::{Router, http::StatusCode, routing::get};
use damper::breaker::State;
use damper::gate::{Ending, PerKey};
use damper::tower::GateLayer;
use damper::{BreakerConfig, CallError, KeyedCircuitBreaker};
use reqwest::{Client, Request, Response};
use std::error::Error;
use std::sync::Arc;
use tower::{Service, ServiceBuilder, ServiceExt};

/// Starts a server that answers everything with this status, and returns its port.
async fn upstream(status: StatusCode) -> std::io::Result<u16> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(
        async move { axum::serve(listener, Router::new().route("/", get(move || async move { status }))).await },
    );
    Ok(port)
}

/// The host and port of a request.
fn host(request: &Request) -> String {
    format!("{}:{}", request.url().host_str().unwrap_or_default(), request.url().port_or_known_default().unwrap_or(0))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (up, down) = (upstream(StatusCode::OK).await?, upstream(StatusCode::BAD_GATEWAY).await?);
    let breakers = Arc::new(KeyedCircuitBreaker::new(BreakerConfig::default(), 1_000)?);
    let layer =
        GateLayer::new(PerKey::new(host, Arc::clone(&breakers))).classify(|result: &reqwest::Result<Response>| {
            match result {
                Ok(response) => Ending::of_status(response.status().as_u16()),
                Err(_) => Ending::Broken,
            }
        });
    let http = Client::new();
    let mut client = ServiceBuilder::new().layer(layer).service(http.clone());

    for attempt in 1..=6 {
        for port in [up, down] {
            let request = http.get(format!("http://127.0.0.1:{port}/")).build()?;
            match client.ready().await?.call(request).await {
                Ok(response) => println!("{attempt}: {port}: {}", response.status()),
                Err(CallError::Refused(open)) => println!("{attempt}: {port}: not called: {open}"),
                Err(CallError::Failed(error)) => println!("{attempt}: {port}: failed: {error}"),
            }
        }
    }
    assert_eq!(breakers.get_or_create(&format!("127.0.0.1:{down}")).state(), State::Open);
    assert_eq!(breakers.get_or_create(&format!("127.0.0.1:{up}")).state(), State::Closed);
    Ok(())
}
