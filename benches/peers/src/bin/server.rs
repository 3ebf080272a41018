//! Two servers that answer alike, for `benches/end_to_end`.
//!
//! One of them is behind a limit per client and a breaker.
//!
//! Prints the address of the bare one and that of the other, and serves on one thread until it is killed.

use bytes::Bytes;
use damper::http::RateLimitLayer;
use damper::{BreakerConfig, CircuitBreaker, Quota};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::error::Error;
use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Stands for what a handler calls, which might fail.
#[expect(clippy::unnecessary_wraps, reason = "what a breaker is put before can fail")]
fn work() -> Result<Full<Bytes>, Infallible> {
    Ok(Full::new(Bytes::from_static(b"Hello, world\n")))
}

async fn bare(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(work()?))
}

async fn serve<S>(listener: TcpListener, service: impl Fn(SocketAddr) -> S) -> std::io::Result<()>
where
    S: HttpService<Incoming, Future: Send, ResBody: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send>
        + Send
        + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
{
    loop {
        let (stream, peer) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .pipeline_flush(true)
            .serve_connection(TokioIo::new(stream), service(peer));
        tokio::spawn(connection);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (one, other) = (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
    println!("{} {}", one.local_addr()?, other.local_addr()?);

    // More than can come, so that every request passes.
    let limits = RateLimitLayer::per_client(Quota::per_second(u32::MAX));
    let breaker = Arc::new(CircuitBreaker::new(BreakerConfig::DEFAULT));
    let guarded = move |peer| {
        let breaker = Arc::clone(&breaker);
        limits.for_peer(peer).layer(service_fn(move |_: Request<Incoming>| {
            let response = match breaker.call(work) {
                Ok(body) => Response::new(body),
                Err(error) => {
                    let mut response = Response::new(Full::new(error.to_string().into()));
                    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                    response
                }
            };
            ready(Ok::<_, Infallible>(response))
        }))
    };
    tokio::try_join!(serve(one, |_| service_fn(bare)), serve(other, guarded))?;
    Ok(())
}
