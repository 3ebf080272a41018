//! Clients of a limited server that sleep before their calls.
//!
//! So the server rarely rejects a call, and no caller ever sees it.

use axum::extract::Request as Asked;
use axum::middleware::{Next, from_fn};
use axum::{Router, http::StatusCode, routing::get};
use damper::Quota;
use damper::http::{Headers, PacingLayer, RateLimitLayer};
use damper::throttle::PacedRetry;
use http_body_util::Empty;
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;
use tower::ServiceExt;

const QUOTA: Quota = Quota::per_second(100).burst(50);

static REQUESTS: AtomicU32 = AtomicU32::new(0);
static REJECTED: AtomicU32 = AtomicU32::new(0);

/// Counts what comes to the server, and what it rejects.
async fn counted(request: Asked, next: Next) -> axum::response::Response {
    REQUESTS.fetch_add(1, Ordering::Relaxed);
    let response = next.run(request).await;
    REJECTED.fetch_add(u32::from(response.status() == StatusCode::TOO_MANY_REQUESTS), Ordering::Relaxed);
    response
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    // The headers say what remains, by which the clients slow down before they are rejected.
    let limit = RateLimitLayer::global(QUOTA).headers(Headers::OnAllResponses);
    let app = Router::new().route("/", get(|| async { "page" })).layer(limit).layer(from_fn(counted));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, app).await });

    let client = PacingLayer::per_host(QUOTA) // all tasks share what it learns
        .retry(PacedRetry::new(20))
        .layer(Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>());

    let began = Instant::now();
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let (client, url) = (client.clone(), url.clone());
            tokio::spawn(async move {
                for _ in 0..20 {
                    let request = Request::get(&url).body(Empty::new())?;
                    let response = client.clone().oneshot(request).await?; // sleeps while the limit is near
                    assert_eq!(response.status(), StatusCode::OK);
                }
                Ok::<_, Box<dyn Error + Send + Sync>>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    let [requests, rejected] = [&REQUESTS, &REJECTED].map(|counter| counter.load(Ordering::Relaxed));
    println!("200 pages by {requests} requests in {:.1} s, {rejected} of them rejected", began.elapsed().as_secs_f64());
    assert!(requests - rejected == 200);
    Ok(())
}
