//! A second upstream, for as long as the circuit of the first is open.
//!
//! Callers do not wait for a server that is known to be down.

use axum::{Router, extract::State, http::StatusCode, routing::get};
use damper::gate::Ending;
use damper::tower::{GateLayer, GateService, Plain};
use damper::{BreakerConfig, CallError, CircuitBreaker};
use reqwest::{Client, Response};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tower::{Layer, Service, ServiceExt};

/// An upstream that can be down, and how many requests it has seen.
#[derive(Default)]
struct Upstream {
    is_down: AtomicBool,
    requests: AtomicU32,
}

async fn page(State(upstream): State<Arc<Upstream>>) -> StatusCode {
    upstream.requests.fetch_add(1, Ordering::Relaxed);
    if upstream.is_down.load(Ordering::Relaxed) { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }
}

/// Starts an upstream, and returns its address.
async fn start(upstream: &Arc<Upstream>) -> std::io::Result<String> {
    let app = Router::new().route("/", get(page)).with_state(Arc::clone(upstream));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(url)
}

/// How a call of the first upstream ended. An error and a 5xx are failures of it.
fn ending(result: &reqwest::Result<Response>) -> Ending {
    result.as_ref().map_or(Ending::Broken, |response| Ending::of_status(response.status().as_u16()))
}

type Primary = GateService<Client, Plain<Arc<CircuitBreaker>, fn(&reqwest::Result<Response>) -> Ending>>;

/// Two upstreams with the same pages.
struct Upstreams {
    http: Client,
    primary: Primary,
    primary_url: String,
    backup_url: String,
}

impl Upstreams {
    /// Gets the page, and returns which upstream answered.
    async fn get(&mut self) -> reqwest::Result<(&'static str, StatusCode)> {
        let request = self.http.get(&self.primary_url).build()?;
        let called = match self.primary.ready().await {
            Ok(primary) => primary.call(request).await,
            Err(error) => Err(error),
        };
        match called {
            Ok(response) => Ok(("primary", response.status())),
            Err(CallError::Refused(_)) => Ok(("backup", self.http.get(&self.backup_url).send().await?.status())),
            Err(CallError::Failed(error)) => Err(error),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (primary, backup) = (Arc::<Upstream>::default(), Arc::<Upstream>::default());
    let config = BreakerConfig::builder().failure_threshold(2).cooldown(Duration::from_millis(200)).build()?;
    let layer = GateLayer::new(Arc::new(CircuitBreaker::new(config))).classify(ending as fn(&_) -> _);
    let http = Client::new();
    let mut upstreams = Upstreams {
        primary: layer.layer(http.clone()),
        http,
        primary_url: start(&primary).await?,
        backup_url: start(&backup).await?,
    };

    let (ok, unavailable) = (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(upstreams.get().await?, ("primary", ok));
    primary.is_down.store(true, Ordering::Relaxed);
    for expected in [("primary", unavailable), ("primary", unavailable), ("backup", ok), ("backup", ok)] {
        let answer = upstreams.get().await?;
        println!("{}: {}", answer.0, answer.1);
        assert_eq!(answer, expected);
    }
    // It is back. The next call after the cooldown is the probe, which closes the circuit.
    primary.is_down.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(upstreams.get().await?, ("primary", ok));
    assert_eq!((primary.requests.load(Ordering::Relaxed), backup.requests.load(Ordering::Relaxed)), (4, 2));
    Ok(())
}
