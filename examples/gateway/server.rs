//! An HTTP server on a socket: what the upstream and the gateway have in common.

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;

/// Serves every connection with a service of its own, until the task is dropped.
pub(crate) async fn serve<S, B>(listener: TcpListener, service: impl Fn(SocketAddr) -> S)
where
    S: Service<Request<Incoming>, Response = Response<B>, Future: Send> + Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of descriptors, most likely: some will be closed.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        // Answers are small and nothing follows them.
        let _ = stream.set_nodelay(true);
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service(peer));
        // Its error is the client's going away in the middle of something.
        tokio::spawn(async move { drop(connection.await) });
    }
}
