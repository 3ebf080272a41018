//! A server with and without damper's live page, for `benches/live_page` to measure.
//!
//! ```text
//! damper-live-cost count KIND REQUESTS   answers so many requests over a pipe in memory, for callgrind
//! damper-live-cost serve KIND            serves on a free port, and prints the address
//! ```
//!
//! The server says hello behind a limit per client and a breaker. KIND adds to that:
//!
//! | kind | what is there |
//! |---|---|
//! | `bare` | nothing |
//! | `counted` | what the page shows: latencies, a log of decisions, counters of layers |
//! | `mounted` | these, and the page beside the service |
//! | `open` | these, and five pages that are open, with a sample in each second |
//!
//! `count` has one thread, and a clock of tokio that moves only when it is told to: by a second after every 5,000 requests. A timer runs in
//! each kind, as in any server that has a timeout, because the first one makes tokio look at the time more often.

use bytes::Bytes;
use damper::decision_log::DecisionLog;
use damper::http::{CircuitBreakerLayer, PerClient, RateLimitLayer};
use damper::live::{Latencies, LivePage, LiveRecorder, LiveService};
use damper::{CircuitBreaker, ClientAddress, KeyedLimiter, Quota};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::error::Error;
use std::future::ready;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

static DECISIONS: DecisionLog = DecisionLog::new(1 << 16);

/// Fewer than a core answers, so that a sample falls to few requests.
const REQUESTS_A_SECOND: u32 = 5_000;

type AnyError = Box<dyn Error + Send + Sync>;

/// The parts of a server. Which of them are used depends on the kind.
struct Parts {
    keys: Arc<KeyedLimiter<ClientAddress>>,
    breaker: Arc<CircuitBreaker>,
    latencies: Latencies,
    page: LiveService,
}

impl Parts {
    fn new(is_counted: bool) -> Result<Self, AnyError> {
        let keys = Arc::new(KeyedLimiter::builder(Quota::per_second(1 << 30)).build()?);
        let breaker = Arc::new(CircuitBreaker::default());
        let latencies = Latencies::new("server");
        let counts = LiveRecorder::new();
        if is_counted {
            counts.install()?;
        }
        let page = LivePage::new()
            .limit("clients", Arc::clone(&keys))
            .decision_log("clients", &DECISIONS)
            .breaker("upstream", Arc::clone(&breaker))
            .latencies(&latencies)
            .recorder(&counts)
            .build()?;
        Ok(Self { keys, breaker, latencies, page })
    }
}

fn hello() -> impl Service<Request<Incoming>, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    service_fn(|_| ready(Ok(Response::new(Full::from("hello")))))
}

/// Answers the requests of a connection.
async fn answer<S, B>(stream: impl AsyncRead + AsyncWrite + Unpin, service: S)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error: Into<AnyError>>,
    B: Body<Data = Bytes, Error: Into<AnyError>> + 'static,
{
    // An error means that the client went away.
    _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// Answers the requests of a connection to a server of this kind.
async fn answer_as(kind: &str, parts: &Parts, peer: SocketAddr, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let breaker = CircuitBreakerLayer::new(Arc::clone(&parts.breaker));
    let limit = RateLimitLayer::new(PerClient::new(Arc::clone(&parts.keys)));
    if kind == "bare" {
        return answer(stream, limit.for_peer(peer).layer(breaker.layer(hello()))).await;
    }
    let limited = limit.decision_log(&DECISIONS).for_peer(peer).layer(breaker.layer(hello()));
    let timed = parts.latencies.layer(limited);
    if kind == "counted" {
        return answer(stream, timed).await;
    }
    answer(stream, parts.page.for_peer(peer).beside(timed)).await;
}

/// Opens a page, and reads what it is sent.
async fn look(mut stream: DuplexStream) {
    let head = b"GET /damper/events HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut read = vec![0; 64 << 10];
    if stream.write_all(head).await.is_ok() {
        while stream.read(&mut read).await.is_ok_and(|bytes| bytes > 0) {}
    }
}

/// The part that is counted.
#[inline(never)]
fn measured(runtime: &Runtime, client: &mut DuplexStream, requests: u32) -> Result<(), AnyError> {
    runtime.block_on(request(client, requests))
}

/// Makes requests, and lets a second pass now and then.
async fn request(client: &mut DuplexStream, requests: u32) -> Result<(), AnyError> {
    let mut answer = vec![0; 4096];
    for number in 1..=requests {
        client.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\n\r\n").await?;
        let bytes = client.read(&mut answer).await?;
        assert!(answer[..bytes].starts_with(b"HTTP/1.1 200") && answer[..bytes].ends_with(b"hello"));
        if number % REQUESTS_A_SECOND == 0 {
            tokio::time::advance(Duration::from_secs(1)).await;
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
        }
    }
    Ok(())
}

fn count(runtime: &Runtime, kind: &'static str, requests: u32) -> Result<(), AnyError> {
    let _entered = runtime.enter();
    let mut client = prepare(kind)?;
    // Warms up: the first use of each part is not counted.
    runtime.block_on(request(&mut client, REQUESTS_A_SECOND))?;
    measured(runtime, &mut client, requests)
}

/// Opens the pages, and a connection for requests.
fn prepare(kind: &'static str) -> Result<DuplexStream, AnyError> {
    let parts = Arc::new(Parts::new(kind != "bare")?);
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 5_000));
    let connect = || {
        let (client, server) = duplex(64 << 10);
        let parts = Arc::clone(&parts);
        tokio::spawn(async move { answer_as(kind, &parts, peer, server).await });
        client
    };
    tokio::spawn(tokio::time::sleep(Duration::from_hours(1)));
    if kind == "open" {
        for _ in 0..5 {
            tokio::spawn(look(connect()));
        }
    }
    Ok(connect())
}

async fn serve(kind: &'static str) -> Result<(), AnyError> {
    let parts = Arc::new(Parts::new(kind != "bare")?);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, peer) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let parts = Arc::clone(&parts);
        tokio::spawn(async move { answer_as(kind, &parts, peer, stream).await });
    }
}

fn main() -> Result<(), AnyError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let usage = "damper-live-cost count KIND REQUESTS | serve KIND, where KIND is bare, counted, mounted or open";
    let kind =
        |kind: &str| ["bare", "counted", "mounted", "open"].into_iter().find(|known| *known == kind).ok_or(usage);
    let mut runtime = Builder::new_current_thread();
    match arguments[..] {
        ["count", name, requests] => {
            let runtime = runtime.enable_time().start_paused(true).build()?;
            count(&runtime, kind(name)?, requests.parse()?)
        }
        ["serve", name] => runtime.enable_all().build()?.block_on(serve(kind(name)?)),
        _ => Err(usage.into()),
    }
}
