//! The timeout of one attempt.

use super::BoxError;
use crate::deadline::Expiry;
use alloc::boxed::Box;
use core::error::Error;
use core::fmt;
use core::iter::successors;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::internal::{Human, source_of};
use damper_core::setting::Setting;
use damper_core::time::Sleep;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

/// Ends an attempt with [`AttemptTimedOut`] if its response has not begun before a timeout.
///
/// Retries treat that error as transient.
///
/// A [`ClientDeadlineLayer`](crate::ClientDeadlineLayer) ends the call as a whole. This layer ends one attempt inside of the retries. It
/// does not bound the body of the response. The service's errors are boxed.
///
/// For gRPC, put it into a [stack](crate::client_stack) with the protocol `damper::tonic::Grpc`, where the error is `UNAVAILABLE`. Around a
/// bare `Channel`, tonic turns it into `UNKNOWN`, which `GrpcRetries` do not retry by default.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
/// # #[cfg(all(feature = "hyper", feature = "tokio"))] {
/// use damper::Retry;
/// use damper::http::{AttemptTimeoutLayer, RetryLayer, Statuses};
/// use hyper_util::{client::legacy::Client, rt::TokioExecutor};
/// use std::time::Duration;
///
/// let client = tower::ServiceBuilder::new()
///     .layer(RetryLayer::new(Retry::new(3)).when(Statuses::failure_boxed))
///     .layer(AttemptTimeoutLayer::new(Duration::from_millis(500)))
///     .service(Client::builder(TokioExecutor::new()).build_http::<String>());
/// # let _ = client;
/// # }
/// ```
#[derive(Clone)]
pub struct AttemptTimeoutLayer<Z> {
    timeout: Setting<Duration>,
    sleep: Z,
}

#[cfg(feature = "tokio")]
impl AttemptTimeoutLayer<TokioSleep> {
    /// Creates a layer that sleeps by tokio's timer.
    ///
    /// To change the timeout while calls are made, pass a [`Live`](damper_core::Live).
    #[must_use]
    pub fn new(timeout: impl Into<Setting<Duration>>) -> Self {
        Self::sleeping_by(timeout, TokioSleep)
    }
}

impl<Z> AttemptTimeoutLayer<Z> {
    /// Creates a layer that sleeps by the timer of any runtime.
    #[must_use]
    pub fn sleeping_by(timeout: impl Into<Setting<Duration>>, sleep: Z) -> Self {
        Self { timeout: timeout.into(), sleep }
    }

    /// Returns the timeout in force.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout.get()
    }
}

impl<S, Z: Clone> Layer<S> for AttemptTimeoutLayer<Z> {
    type Service = AttemptTimeout<S, Z>;

    fn layer(&self, service: S) -> AttemptTimeout<S, Z> {
        AttemptTimeout { service, layer: self.clone() }
    }
}

impl<Z> fmt::Debug for AttemptTimeoutLayer<Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttemptTimeoutLayer").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// A service whose calls time out, created by [`AttemptTimeoutLayer`].
///
/// # Cancel safety
///
/// Dropping the future drops the call.
#[derive(Clone)]
pub struct AttemptTimeout<S, Z> {
    service: S,
    layer: AttemptTimeoutLayer<Z>,
}

impl<S, Z, R> Service<R> for AttemptTimeout<S, Z>
where
    S: Service<R, Error: Into<BoxError>>,
    Z: Sleep + Clone,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = AttemptTimeoutFuture<S::Future, Z>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(context).map_err(Into::into)
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        let AttemptTimeoutLayer { timeout, sleep } = &self.layer;
        let timeout = timeout.get();
        let expiry = Expiry::new(Deadline::after(timeout), sleep.clone());
        AttemptTimeoutFuture { future: Some(self.service.call(request)), expiry, timeout }
    }
}

impl<S: fmt::Debug, Z> fmt::Debug for AttemptTimeout<S, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttemptTimeout").field("service", &self.service).field("layer", &self.layer).finish()
    }
}

pin_project! {
    /// The future of [`AttemptTimeout`].
    #[must_use = "futures do nothing unless they are polled"]
    pub struct AttemptTimeoutFuture<F, Z: Sleep> {
        // Dropped at the timeout, and not only when the caller drops this future.
        #[pin]
        future: Option<F>,
        #[pin]
        expiry: Expiry<Z>,
        timeout: Duration,
    }
}

impl<F, Z, T, E> Future for AttemptTimeoutFuture<F, Z>
where
    F: Future<Output = Result<T, E>>,
    Z: Sleep,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(future) = this.future.as_mut().as_pin_mut() else { return Poll::Pending };
        if let Poll::Ready(result) = future.poll(context) {
            return Poll::Ready(result.map_err(Into::into));
        }
        ready!(this.expiry.poll_exceeded(context));
        this.future.set(None);
        Poll::Ready(Err(Box::new(AttemptTimedOut { timeout: *this.timeout })))
    }
}

impl<F, Z: Sleep> fmt::Debug for AttemptTimeoutFuture<F, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttemptTimeoutFuture").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// The error of an attempt whose response did not begin in time.
///
/// Another attempt may be faster, so retries treat it as transient, and breakers as a failure.
///
/// It is displayed as `attempt timed out after 500 ms`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttemptTimedOut {
    timeout: Duration,
}

impl AttemptTimedOut {
    /// Returns the timeout of the attempt.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the first such error in the chain of an error's sources, the error itself included.
    #[must_use]
    pub fn find_in<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        successors(Some(error), |&error| source_of(error)).find_map(|error| error.downcast_ref())
    }
}

impl fmt::Display for AttemptTimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt timed out after {}", Human(self.timeout))
    }
}

damper_core::internal::debug_by_display!(AttemptTimedOut);

impl Error for AttemptTimedOut {}
