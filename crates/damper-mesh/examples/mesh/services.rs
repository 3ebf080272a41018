//! The two services: orders, which calls inventory.

use bytes::Bytes;
use damper_core::limit::FixedWindow;
use damper_core::retry::Retry;
use damper_core::time::Sleep;
use damper_core::{ManualClock, Quota, RetryBudget};
use damper_mesh::{Client, ClientBuilder, IncomingCall, MeshError, MeshLayer, Request, Scopes};
use http_body_util::Full;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use std::error::Error;
use std::future::{Ready, ready};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tower::util::MapRequestLayer;
use tower::{Layer, service_fn};

/// The manual clock that services and clients share.
pub(crate) type SharedClock = Arc<ManualClock>;

pub(crate) type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

pub(crate) type Http = HttpClient<HttpConnector, Full<Bytes>>;

type Call = IncomingCall<SharedClock>;

/// A client's sleep that advances the clock instead of waiting.
#[derive(Clone)]
pub(crate) struct SkipTime {
    pub(crate) clock: SharedClock,
    /// The times slept so far.
    pub(crate) slept: Arc<Mutex<Vec<Duration>>>,
}

impl SkipTime {
    pub(crate) fn on(clock: &SharedClock) -> Self {
        Self { clock: Arc::clone(clock), slept: Arc::default() }
    }

    /// Returns the times slept since the previous call.
    pub(crate) fn take(&self) -> Vec<Duration> {
        std::mem::take(&mut *self.slept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sleep for SkipTime {
    type Sleeping = Ready<()>;

    fn sleep(&self, duration: Duration) -> Ready<()> {
        self.slept.lock().unwrap_or_else(PoisonError::into_inner).push(duration);
        self.clock.advance(duration);
        ready(())
    }
}

/// A timer that polls again soon, for deadlines whose clock a function advances.
fn look_again(_: Duration) -> tokio::time::Sleep {
    tokio::time::sleep(Duration::from_millis(1))
}

/// The type of a sleep function.
pub(crate) type Timer = fn(Duration) -> tokio::time::Sleep;

/// A client on the shared clock.
pub(crate) type ClientBy<Z> = Client<Http, Z, RetryBudget, SharedClock>;

pub(crate) fn http() -> Http {
    HttpClient::builder(TokioExecutor::new()).build_http()
}

/// A client whose own waits advance the clock.
pub(crate) fn skipping_client(address: SocketAddr, sleep: SkipTime) -> Fallible<ClientBy<SkipTime>> {
    let clock = Arc::clone(&sleep.clock);
    client(address, clock, sleep)
}

fn client<Z>(address: SocketAddr, clock: SharedClock, sleep: Z) -> Fallible<ClientBy<Z>> {
    let retry = Retry::with_clock(5, clock, 1).budget(RetryBudget::DEFAULT);
    let builder = ClientBuilder::sleeping_by(http(), format!("http://{address}/").parse()?, sleep);
    Ok(builder.retry(retry).backoff(damper_mesh::MeshBackoff::default().jitter(0)).build())
}

/// The requests that inventory received.
pub(crate) type Received = Arc<Mutex<Vec<Value>>>;

/// Serves the stock. It has no limits.
pub(crate) async fn inventory(clock: &SharedClock, received: &Received) -> Fallible<SocketAddr> {
    let received = Arc::clone(received);
    let check = service_fn(move |call: Call| {
        let document = serde_json::from_slice(&call.request().to_json()).unwrap_or_default();
        received.lock().unwrap_or_else(PoisonError::into_inner).push(document);
        ready(Ok::<_, MeshError>(json!({ "sku": call.arguments()["sku"], "in_stock": 7 })))
    });
    let scopes = Scopes::none_with_clock(Arc::clone(clock));
    serve(MeshLayer::sleeping_by("inventory", scopes, look_again as Timer).layer(check)).await
}

/// Serves orders, and calls inventory.
///
/// A function takes as long as its argument `takes_ms` says.
pub(crate) async fn orders(clock: &SharedClock, inventory: SocketAddr) -> Fallible<SocketAddr> {
    let inventory = client(inventory, Arc::clone(clock), look_again as Timer)?;
    let scopes = Scopes::with_clock(Arc::clone(clock))
        .algorithm::<FixedWindow>()
        .service(Quota::per_minute(1_000))
        .function("orders.create", Quota::per_minute(100))
        .build()?;
    let time = Arc::clone(clock);
    let functions = service_fn(move |call: Call| {
        let (time, inventory) = (Arc::clone(&time), inventory.clone());
        async move {
            time.advance(Duration::from_millis(call.arguments()["takes_ms"].as_u64().unwrap_or(0)));
            match call.function() {
                "orders.create" => Ok(json!({ "order_id": 456, "status": "created" })),
                "orders.reserve" => reserve(&call, &inventory).await,
                "reports.generate" => Ok(json!({ "report_url": "https://..." })),
                other => Err(MeshError::new("FUNCTION_NOT_FOUND", format!("There is no function {other}"))),
            }
        }
    });
    let layer = MeshLayer::sleeping_by("orders-api", scopes, look_again as Timer)
        .caller(|caller, head, _| caller.service(head.extensions.get::<Verified>().map_or("", |verified| verified.0)));
    let authenticate = MapRequestLayer::new(|mut request: hyper::Request<hyper::body::Incoming>| {
        // Stands for the check of a token or of a client's certificate.
        request.extensions_mut().insert(Verified("web"));
        request
    });
    serve(authenticate.layer(layer.layer(functions))).await
}

/// The calling service, as found by authentication.
#[derive(Clone)]
struct Verified(&'static str);

/// Calls inventory within the remaining deadline.
async fn reserve(call: &Call, inventory: &ClientBy<Timer>) -> Result<Value, MeshError> {
    let request = Request::new("req_downstream", "inventory.check", "1", json!({ "sku": "WIDGET-01" }));
    let answer = inventory.call_within(call.deadline(), request).await;
    answer?.into_result().map_err(MeshError::from_downstream)
}

/// Serves on a port chosen by the system, until the program ends.
async fn serve<S>(service: S) -> Fallible<SocketAddr>
where
    S: tower::Service<
            hyper::Request<hyper::body::Incoming>,
            Response = hyper::Response<Full<Bytes>>,
            Error = std::convert::Infallible,
            Future: Send,
        > + Clone
        + Send
        + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    Ok(address)
}
