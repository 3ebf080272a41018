//! The smallest layer: written by hand around a limiter, for one service.
//!
//! It knows axum's address of the client only, refuses with an empty response, and has no headers, names, callbacks or logs.

use axum::body::Body;
use axum::extract::ConnectInfo;
use damper::KeyedLimiter;
use http::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::{Layer, Service};

/// A limit for each client address.
#[derive(Clone, Debug)]
pub(crate) struct ByHand(pub(crate) Arc<KeyedLimiter<IpAddr>>);

impl<S> Layer<S> for ByHand {
    type Service = Limited<S>;

    fn layer(&self, service: S) -> Limited<S> {
        Limited { service, limits: Arc::clone(&self.0) }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Limited<S> {
    service: S,
    limits: Arc<KeyedLimiter<IpAddr>>,
}

impl<S: Service<Request<()>, Response = Response<Body>>> Service<Request<()>> for Limited<S> {
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Answer<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<()>) -> Answer<S::Future> {
        let from = request.extensions().get::<ConnectInfo<SocketAddr>>();
        if from.is_some_and(|from| self.limits.check(&from.0.ip()).is_ok()) {
            Answer::Called { future: self.service.call(request) }
        } else {
            Answer::Refused
        }
    }
}

pin_project! {
    #[project = Projection]
    pub(crate) enum Answer<F> {
        Called { #[pin] future: F },
        Refused,
    }
}

impl<F: Future<Output = Result<Response<Body>, E>>, E> Future for Answer<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        match self.project() {
            Projection::Called { future } => future.poll(context),
            Projection::Refused => {
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                Poll::Ready(Ok(response))
            }
        }
    }
}
