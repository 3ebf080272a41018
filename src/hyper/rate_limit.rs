//! A server's service behind a limit.

use super::Body;
use crate::limit::Denied;
use crate::wire;
use alloc::format;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::service::Service;
use pin_project_lite::pin_project;

/// Answers `429 Too Many Requests` in the place of a server's service when a check says no.
///
/// The refusal carries `Retry-After` in whole seconds, rounded up and at least 1 (absent if no wait helps), and a line of
/// text; it is ready at once, and the request's body is not read. What is checked, and for whom, is the closure's to say:
/// it sees the request, and knows the connection it was made for. The service's body has to have `Bytes` as its data.
///
/// # Cancel safety
///
/// The token is taken in `call`; dropping the future afterwards does not give it back.
///
/// # Examples
///
/// A limit per client address, with a health endpoint exempt. `handle` stands for your service, and the function is
/// called for every connection:
///
/// ```
/// use damper::hyper::RateLimit;
/// use damper::{KeyedLimiter, Quota};
/// use hyper::body::Incoming;
/// use hyper::service::{HttpService, service_fn};
/// use hyper::{Request, Response};
/// use std::convert::Infallible;
/// use std::net::{IpAddr, SocketAddr};
/// use std::sync::Arc;
///
/// # async fn handle(_: Request<Incoming>) -> Result<Response<http_body_util::Empty<bytes::Bytes>>, Infallible> {
/// #     Ok(Response::default())
/// # }
/// fn service(peer: SocketAddr, limits: Arc<KeyedLimiter<IpAddr>>) -> impl HttpService<Incoming> {
///     RateLimit::new(service_fn(handle), move |request: &Request<Incoming>| match request.uri().path() {
///         "/healthz" => Ok(()),
///         _ => limits.check(&peer.ip()).map(drop),
///     })
/// }
/// ```
#[derive(Clone, Debug)]
pub struct RateLimit<S, F> {
    service: S,
    check: F,
}

impl<S, F> RateLimit<S, F> {
    /// Puts `check` before `service`.
    pub fn new<B>(service: S, check: F) -> Self
    where
        F: Fn(&Request<B>) -> Result<(), Denied>,
    {
        Self { service, check }
    }
}

impl<S, F, B, R> Service<Request<B>> for RateLimit<S, F>
where
    S: Service<Request<B>, Response = Response<R>>,
    F: Fn(&Request<B>) -> Result<(), Denied>,
{
    type Response = Response<Body<R>>;
    type Error = S::Error;
    type Future = RateLimitFuture<S::Future>;

    fn call(&self, request: Request<B>) -> Self::Future {
        let state = match (self.check)(&request) {
            Ok(()) => State::Allowed { future: self.service.call(request) },
            Err(denied) => State::Denied { denied },
        };
        RateLimitFuture { state }
    }
}

pin_project! {
    /// The future of [`RateLimit`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct RateLimitFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = StateProjection]
    enum State<F> {
        Allowed { #[pin] future: F },
        Denied { denied: Denied },
    }
}

impl<F, R, E> Future for RateLimitFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<Body<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Allowed { future } => {
                Poll::Ready(ready!(future.poll(cx)).map(|response| response.map(Body::answer)))
            }
            StateProjection::Denied { denied } => Poll::Ready(Ok(too_many_requests(*denied))),
        }
    }
}

fn too_many_requests<R>(denied: Denied) -> Response<Body<R>> {
    let mut response = Response::new(Body::refusal(format!("{denied}\n")));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if let Some(wait) = denied.retry_after() {
        headers.insert(RETRY_AFTER, wire::retry_after(wait));
    }
    response
}
