//! A worker process: an HTTP server on a port that it shares with the other workers.

use crate::limits::{Limits, Permit};
use crate::listen;
use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};
use damper_core::limit::Denied;
use damper_shm::{SharedWords, inherited_seat};
use http_body::{Body, Frame};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::process;
use tokio::io::AsyncReadExt;

/// The header by which a client learns which process answered.
pub(crate) const WORKER: &str = "x-worker";

/// Serves until the supervisor is gone.
pub(crate) async fn serve(address: SocketAddr) -> Result<Infallible, Box<dyn Error>> {
    // Both live as long as the process.
    let shared: &'static SharedWords = Box::leak(Box::new(SharedWords::inherited(crate::layout::WORDS)?));
    let limits: &'static Limits = Box::leak(Box::new(Limits::attach(shared.words(), inherited_seat()?)?));
    let listener = listen::shared(address)?.listen(1024)?;
    tokio::spawn(async {
        // The supervisor holds the other end and writes nothing, so this ends when it dies.
        _ = tokio::io::stdin().read(&mut [0]).await;
        process::exit(0);
    });
    loop {
        // A client that was gone before its connection was accepted is no reason to stop.
        let Ok((stream, peer)) = listener.accept().await else { continue };
        _ = stream.set_nodelay(true);
        let service = service_fn(move |request| async move { Ok::<_, Infallible>(answer(limits, peer.ip(), request)) });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

fn answer(limits: &'static Limits, client: IpAddr, request: Request<Incoming>) -> Response<Answer> {
    let mut response = match (request.method(), request.uri().path()) {
        (&Method::GET, "/") => match limits.client(client) {
            Ok(()) => status(StatusCode::OK),
            Err(denied) => refused(denied),
        },
        // The answer's head comes at once, and its end when the request has ended. In between the request is in the bulkhead.
        (&Method::POST, "/hold") => match limits.enter() {
            Some(permit) => Response::new(Answer::Hold(request.into_body(), Some(permit))),
            None => status(StatusCode::SERVICE_UNAVAILABLE),
        },
        (&Method::POST, "/login") => match limits.login() {
            Ok(()) => status(StatusCode::OK),
            Err(denied) => refused(denied),
        },
        _ => status(StatusCode::NOT_FOUND),
    };
    response.headers_mut().insert(WORKER, process::id().into());
    response
}

fn status(status: StatusCode) -> Response<Answer> {
    let mut response = Response::new(Answer::Empty);
    *response.status_mut() = status;
    response
}

fn refused(denied: Denied) -> Response<Answer> {
    let mut response = status(StatusCode::TOO_MANY_REQUESTS);
    if let Some(wait) = denied.retry_after() {
        // Whole seconds, not too early.
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_millis().div_ceil(1_000) as u64));
    }
    response
}

/// The body of a response.
enum Answer {
    Empty,
    /// Ends when the request's body has ended, and leaves the bulkhead before that.
    Hold(Incoming, Option<Permit>),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self::Hold(request, permit) = self.get_mut() else { return Poll::Ready(None) };
        loop {
            match Pin::new(&mut *request).poll_frame(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(end) => {
                    *permit = None;
                    return Poll::Ready(end);
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Empty)
    }
}
