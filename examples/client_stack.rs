//! A client with all its parts, in whatever order they are named.
//!
//! It calls a server that fails, one that hangs, and a healthy one.

use axum::{Router, http::StatusCode, routing::get};
use damper::http::{BoxedClient, StackError, StackPart, client_stack};
use damper::{BreakerConfig, CircuitOpen, Quota, Retry, RetryBudget};
use http_body_util::Empty;
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tower::{Service, ServiceExt};

static BUDGET: RetryBudget = RetryBudget::DEFAULT; // for 20 % of first attempts, and 10 a second
static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// Fails, then hangs, then answers once, and fails from then on.
async fn page() -> (StatusCode, &'static str) {
    match REQUESTS.fetch_add(1, Ordering::Relaxed) {
        1 => std::future::pending().await,
        2 => (StatusCode::OK, "page"),
        _ => (StatusCode::BAD_GATEWAY, "failed"),
    }
}

struct Pages {
    client: BoxedClient<Empty<Bytes>>, // whatever its parts are
    url: String,
}

impl Pages {
    async fn get(&mut self) -> Result<StatusCode, Box<dyn Error + Send + Sync>> {
        let request = Request::get(&self.url).body(Empty::new())?;
        Ok(self.client.ready().await?.call(request).await?.status())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/", get(page))).await });

    let stack = client_stack()
        .limit(Quota::per_second(100)) // sees every attempt, wherever it is named
        .attempt_timeout(Duration::from_millis(500))
        .retry(Retry::new(3).budget(&BUDGET))
        .breaker_per_host(BreakerConfig::builder().failure_threshold(1).build()?) // sees one outcome of each call
        .deadline(Duration::from_secs(10));
    let mut pages = Pages { client: stack.boxed(Client::builder(TokioExecutor::new()).build_http()), url };

    println!("{} after {} requests", pages.get().await?, REQUESTS.load(Ordering::Relaxed)); // 200 OK after 3 requests
    println!("{} after {} requests", pages.get().await?, REQUESTS.load(Ordering::Relaxed)); // 502 Bad Gateway after …
    let error = pages.get().await.unwrap_err().downcast::<StackError>()?;
    println!("{error:#}"); // call refused by the breaker: circuit open, next probe in 30 s
    assert!(error.part() == StackPart::Breaker && CircuitOpen::find_in(&*error).is_some());
    assert!(error.retry_after().is_some() && REQUESTS.load(Ordering::Relaxed) == 6);
    Ok(())
}
