//! A client's service behind a breaker.

use crate::breaker::{CallError, CircuitBreaker, CircuitOpen, OnStateChange, Permit};
use crate::clock::{Clock, DefaultClock};
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http::{Request, Response};
use hyper::service::Service;
use pin_project_lite::pin_project;

/// Calls a client's service through a breaker.
///
/// Errors of the transport and answers with a status of 5xx are failures; every other answer is a success, 429
/// included. Put a timeout into the service: a probe that never ends keeps others out. The verdict falls when the head of the answer is there. Answers and errors reach the caller unchanged,
/// the latter as [`CallError::Failed`]; an open breaker is [`CallError::Open`], and the service is not called.
///
/// # Cancel safety
///
/// A future that is dropped before its answer is there tells no verdict, and a probe gives its place back.
///
/// # Examples
///
/// `send` stands for a client's call, `SendRequest::send_request` or the like:
///
/// ```
/// use bytes::Bytes;
/// use damper::hyper::CircuitBreak;
/// use damper::{CallError, CircuitBreaker};
/// use http_body_util::Empty;
/// use hyper::service::{Service, service_fn};
/// use hyper::{Request, Response};
/// use std::sync::Arc;
///
/// # async fn send(_: Request<Empty<Bytes>>) -> Result<Response<Empty<Bytes>>, std::io::Error> {
/// #     Ok(Response::default())
/// # }
/// # async fn run() {
/// let upstream = CircuitBreak::new(service_fn(send), Arc::new(CircuitBreaker::default()));
/// match upstream.call(Request::new(Empty::new())).await {
///     Ok(response) => println!("{}", response.status()),
///     Err(CallError::Open(open)) => println!("{open}"), // circuit open, next probe in 28 s
///     Err(CallError::Failed(error)) => println!("{error}"),
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct CircuitBreak<S, C = DefaultClock, L = ()> {
    service: S,
    breaker: Arc<CircuitBreaker<C, L>>,
}

impl<S, C: Clock, L: OnStateChange> CircuitBreak<S, C, L> {
    /// Puts `breaker` before `service`.
    pub fn new(service: S, breaker: Arc<CircuitBreaker<C, L>>) -> Self {
        Self { service, breaker }
    }
}

/// Clones share the breaker.
impl<S: Clone, C, L> Clone for CircuitBreak<S, C, L> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), breaker: Arc::clone(&self.breaker) }
    }
}

impl<S, C, L, B, R> Service<Request<B>> for CircuitBreak<S, C, L>
where
    S: Service<Request<B>, Response = Response<R>>,
    C: Clock,
    L: OnStateChange,
{
    type Response = Response<R>;
    type Error = CallError<S::Error>;
    type Future = CircuitBreakFuture<S::Future, C, L>;

    fn call(&self, request: Request<B>) -> Self::Future {
        let state = match self.breaker.try_acquire_owned() {
            Ok(permit) => State::Permitted { future: self.service.call(request), permit: Some(permit) },
            Err(open) => State::Refused { open },
        };
        CircuitBreakFuture { state }
    }
}

pin_project! {
    /// The future of [`CircuitBreak`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct CircuitBreakFuture<F, C: Clock = DefaultClock, L: OnStateChange = ()> {
        #[pin]
        state: State<F, C, L>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = StateProjection]
    enum State<F, C: Clock, L: OnStateChange> {
        // The permit is there until the answer is.
        Permitted { #[pin] future: F, permit: Option<Permit<Arc<CircuitBreaker<C, L>>>> },
        Refused { open: CircuitOpen },
    }
}

impl<F, C, L, R, E> Future for CircuitBreakFuture<F, C, L>
where
    F: Future<Output = Result<Response<R>, E>>,
    C: Clock,
    L: OnStateChange,
{
    type Output = Result<Response<R>, CallError<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Permitted { future, permit } => {
                let result = ready!(future.poll(cx));
                if let Some(permit) = permit.take() {
                    if is_failure(&result) { permit.failure() } else { permit.success() }
                }
                Poll::Ready(result.map_err(CallError::Failed))
            }
            StateProjection::Refused { open } => Poll::Ready(Err(CallError::Open(*open))),
        }
    }
}

fn is_failure<R, E>(result: &Result<Response<R>, E>) -> bool {
    result.as_ref().map_or(true, |response| response.status().is_server_error())
}
