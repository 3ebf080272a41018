//! An async client that waits its turn.
//!
//! Its tasks call a server as fast as its limit allows, and are never refused.

use bytes::Bytes;
use damper::{Clock, Monotonic, Quota, RateLimiter};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri, server};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The server's limit for its clients.
static LIMIT: RateLimiter = RateLimiter::new(Quota::per_second(50).burst(5));

async fn page(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from(format!("page {}", request.uri().path()))))
}

type Fetched = Result<String, Box<dyn Error + Send + Sync>>;

async fn fetch(client: Client<HttpConnector, Empty<Bytes>>, uri: Uri) -> Fetched {
    // First come, first served. Dropped while it waits, it gives its token back if no other task came after it.
    LIMIT.acquire(1).within(Duration::from_secs(10)).await?;
    let text = client.get(uri).await?.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(text.into())?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(page)));
        }
    });

    let start = Monotonic.now();
    let client = Client::builder(TokioExecutor::new()).build_http();
    let mut tasks = JoinSet::new();
    for number in 0..40 {
        tasks.spawn(fetch(client.clone(), format!("http://{address}/{number}").parse()?));
    }
    let pages = tasks.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?;
    let millis = (Monotonic.now() - start) * 1_000 / Monotonic.frequency();
    println!("{} pages in {millis} ms: a burst of 5, then {} a second", pages.len(), LIMIT.quota().limit());
    assert!(pages.len() == 40 && pages.iter().all(|page| page.starts_with("page /")));
    assert!(millis >= 35 * 1_000 / 50, "no faster than allowed");
    Ok(())
}
