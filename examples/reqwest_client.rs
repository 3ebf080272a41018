//! reqwest behind a breaker per host, retries within a budget and a limit of its own.
//!
//! Each call has a deadline.

use axum::{Router, http::StatusCode, http::header::RETRY_AFTER, response::IntoResponse, routing::get};
use damper::http::{CircuitBreakerLayer, ClientDeadlineLayer, RetryLayer};
use damper::tower::GateLayer;
use damper::wire::RateLimitStatus;
use damper::{BreakerConfig, Quota, RateLimiter, Retry, RetryBudget};
use http_body_util::BodyExt;
use hyper::{Request, Response};
use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tower::{Service, ServiceBuilder, ServiceExt};

/// Retries of all callers: for 20 % of first attempts, and 10 a second.
static BUDGET: RetryBudget = RetryBudget::DEFAULT;

/// The most that this client sends. It is inside of the retries, so each attempt counts.
static LIMIT: RateLimiter = RateLimiter::new(Quota::per_second(100));

static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// Fails, then asks to come back in a second, then answers and says what is left.
async fn page() -> impl IntoResponse {
    match REQUESTS.fetch_add(1, Ordering::Relaxed) {
        0 => StatusCode::BAD_GATEWAY.into_response(),
        1 => (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")]).into_response(),
        _ => ([("ratelimit", r#""minute";r=20;t=60"#)], "page").into_response(),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/", get(page))).await });

    let client = reqwest::Client::new();
    let send = tower::service_fn(move |request: Request<String>| {
        let client = client.clone();
        async move {
            let response = client.execute(request.try_into()?).await?;
            Ok::<_, reqwest::Error>(Response::<reqwest::Body>::from(response))
        }
    });
    let mut client = ServiceBuilder::new()
        .layer(ClientDeadlineLayer::new(Duration::from_secs(10))) // for waits, attempts and the body
        .layer(CircuitBreakerLayer::per_host(BreakerConfig::default()))
        .layer(RetryLayer::new(Retry::new(3).budget(&BUDGET)))
        .layer(GateLayer::limit(&LIMIT).waiting(Duration::from_secs(1)))
        .service(send);

    let began = Instant::now();
    let request = Request::get(format!("http://{address}/")).body(String::new())?;
    let response = client.ready().await?.call(request).await?;
    let (status, limit) = (response.status(), RateLimitStatus::in_headers(response.headers()));
    let text = response.into_body().collect().await?.to_bytes();
    println!("{status} after {:?} and {} requests", began.elapsed(), REQUESTS.load(Ordering::Relaxed));
    println!("a request each {:?} from here on", limit.and_then(|limit| limit.pace()));
    assert!(text == "page" && began.elapsed() >= Duration::from_secs(1), "no earlier than the server asked for");
    Ok(())
}
