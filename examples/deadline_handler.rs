//! A handler that checks its deadline before each costly step.
//!
//! The layer drops a handler that waits; what computes on a thread of its own has to look itself, or it goes on for a
//! client that has left.

use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router, routing::get};
use damper::http::{DeadlineLayer, TimeoutUnit};
use damper::{Deadline, DeadlineExceeded};
use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");

/// The steps that were taken, of all requests.
static STEPS: AtomicU32 = AtomicU32::new(0);

/// A step that takes 20 ms of a processor.
fn costly_step(page: u32) -> String {
    STEPS.fetch_add(1, Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(20));
    format!("page {page}\n")
}

/// Twenty steps: 400 ms.
fn build_report(deadline: Deadline) -> Result<String, DeadlineExceeded> {
    let mut report = String::new();
    for page in 1..=20 {
        deadline.check()?;
        report += &costly_step(page);
    }
    Ok(report)
}

/// The error that a handler returns by `?`.
struct Failure(StatusCode, String);

impl From<DeadlineExceeded> for Failure {
    fn from(exceeded: DeadlineExceeded) -> Self {
        Self(StatusCode::GATEWAY_TIMEOUT, exceeded.to_string())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}

async fn report(Extension(deadline): Extension<Deadline>) -> Result<String, Failure> {
    let built = tokio::task::spawn_blocking(move || build_report(deadline)).await;
    Ok(built.map_err(|error| Failure(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))??)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let deadlines = DeadlineLayer::new(Duration::from_secs(5)).header(TIMEOUT, TimeoutUnit::Milliseconds);
    let app = Router::new().route("/report", get(report)).layer(deadlines);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/report", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, app).await });

    let client = reqwest::Client::new();
    let patient = client.get(&url).send().await?;
    let (status, steps) = (patient.status(), STEPS.swap(0, Ordering::SeqCst));
    println!("without a timeout: {status}, {steps} steps");
    assert!(status == StatusCode::OK && steps == 20);

    let hurried = client.get(&url).header(TIMEOUT, "100").send().await?;
    // Twenty steps would have been taken by then.
    tokio::time::sleep(Duration::from_millis(600)).await;
    let (status, steps) = (hurried.status(), STEPS.load(Ordering::SeqCst));
    println!("within 100 ms: {status}, {steps} steps: {}", hurried.text().await?.trim());
    assert!(status == StatusCode::GATEWAY_TIMEOUT && steps <= 6, "no step begins after the deadline");
    Ok(())
}
