//! The server of a row: an axum router before a pool of workers.

use crate::row::{Guard, Row};
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode};
use axum::{Router, routing::get};
use damper::concurrency::{Admission, LimitBounds};
use damper::http::{ConcurrencyLayer, DeadlineLayer, TimeoutUnit};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// Milliseconds that are left of a call's time.
pub(crate) const TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");

/// The time that the server gives a call without a timeout.
const LONGEST: Duration = Duration::from_secs(2);

/// Starts a server, which runs as long as the program.
pub(crate) async fn start(row: &Row, guard: Guard) -> io::Result<SocketAddr> {
    let app = Router::new()
        .route("/pool/{micros}", get(pool))
        .route("/beside/{status}/{micros}", get(beside))
        .with_state(Arc::new(Semaphore::new(row.workers as usize)));
    let app = match guard {
        Guard::ServerAdaptive => app.layer(ConcurrencyLayer::adaptive(LimitBounds::DEFAULT)),
        Guard::ServerAdmission => app.layer(ConcurrencyLayer::admission(Admission::new(LimitBounds::DEFAULT))),
        // Half as many again as there are workers: no worker waits for the next call.
        Guard::Fixed => app.layer(ConcurrencyLayer::bulkhead(row.workers * 3 / 2)),
        Guard::ClientAdaptive | Guard::ClientBreaker => app,
    };
    let app = app.layer(DeadlineLayer::new(LONGEST).header(TIMEOUT, TimeoutUnit::Milliseconds));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

/// Keeps a worker busy, once one is free.
async fn pool(State(workers): State<Arc<Semaphore>>, Path(micros): Path<u64>) -> StatusCode {
    let Ok(_worker) = workers.acquire().await else { return StatusCode::INTERNAL_SERVER_ERROR };
    sleep(Duration::from_micros(micros)).await;
    StatusCode::OK
}

async fn beside(Path((status, micros)): Path<(u16, u64)>) -> StatusCode {
    sleep(Duration::from_micros(micros)).await;
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
