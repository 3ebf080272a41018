//! Where the deadline of a server's requests comes from.

use super::ServerDeadline;
use crate::deadline::{TimeoutHeader, TimeoutUnit, Timeouts};
use core::fmt;
use core::time::Duration;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use http::HeaderName;

/// Gives each request of a server one deadline, from its arrival to the last byte of its response.
///
/// The deadline is the earliest of the timeout that the client sent, the server's own, and the one that an outer layer has
/// set. The layer puts it into the request's extensions: take it by axum's `Extension<Deadline>` or tonic's
/// `request.extensions()`, call [`check`](damper_core::Deadline::check) before each costly step, and pass it on by a
/// [`ClientDeadlineLayer`](crate::ClientDeadlineLayer).
///
/// | when the deadline has passed | the client gets |
/// |---|---|
/// | on arrival | `504 Gateway Timeout` at once; the service is not called |
/// | before the response | `504 Gateway Timeout`; the service's future is dropped |
/// | while the body streams | the data so far, and then a broken connection or stream; the service's body is dropped |
///
/// The client's timeout is in the [header](Self::header) that you choose. With the feature `tonic`, a gRPC request has it
/// in `grpc-timeout`, and the answer is the status `DEADLINE_EXCEEDED`, in the trailers of a body that has begun. Without a
/// valid timeout the server's own holds, so that a client can shorten it and never lengthen it.
///
/// Around a router it holds for all routes, around a handler for that one. Leave out those whose responses are meant to
/// last, such as server-sent events.
///
/// # Work that must go on
///
/// The handler's future is dropped at the deadline, as it is when the client goes away. Spawn what must go on, such as an
/// audit record or the filling of a cache, as a task that owns its data: `tokio::spawn(write(record))`. Give it a deadline
/// of its own, not the request's.
///
/// # Examples
///
/// With axum:
///
#[cfg_attr(all(feature = "axum", feature = "tokio"), doc = "```")]
#[cfg_attr(not(all(feature = "axum", feature = "tokio")), doc = "```text")]
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use axum::http::{HeaderName, StatusCode};
/// use axum::{Extension, Router, routing::get};
/// use damper::Deadline;
/// use damper::http::{DeadlineLayer, TimeoutUnit};
/// use std::time::Duration;
///
/// async fn report(Extension(deadline): Extension<Deadline>) -> Result<String, StatusCode> {
///     let mut pages = 0;
///     for _ in 0..3 {
///         deadline.check().map_err(|_| StatusCode::GATEWAY_TIMEOUT)?; // before each costly step
///         pages += 1;
///     }
///     Ok(format!("{pages} pages"))
/// }
///
/// const TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");
///
/// let deadlines = DeadlineLayer::new(Duration::from_secs(2)).header(TIMEOUT, TimeoutUnit::Milliseconds);
/// let app: Router = Router::new().route("/report", get(report)).layer(deadlines);
/// # let _ = app;
/// ```
#[derive(Clone)]
pub struct DeadlineLayer<S> {
    pub(super) timeouts: Timeouts,
    pub(super) sleep: S,
}

#[cfg(feature = "tokio")]
impl DeadlineLayer<TokioSleep> {
    /// Creates a layer with the server's own timeout, which no request can lengthen. It sleeps by tokio's timer.
    #[must_use]
    pub fn new(timeout: Duration) -> Self {
        Self::sleeping_by(timeout, TokioSleep)
    }
}

impl<S> DeadlineLayer<S> {
    /// Creates a layer with the server's own timeout, which sleeps by `sleep`, a [`Sleep`](damper_core::time::Sleep).
    #[must_use]
    pub fn sleeping_by(timeout: Duration, sleep: S) -> Self {
        Self { timeouts: Timeouts::new(Some(timeout)), sleep }
    }

    /// Sets the header in which clients send their timeouts, as a whole number. Default: none.
    ///
    /// A malformed number is ignored. Requests of gRPC have their own header, `grpc-timeout`.
    #[must_use]
    pub fn header(mut self, name: HeaderName, unit: TimeoutUnit) -> Self {
        self.timeouts.header = Some(TimeoutHeader { name, unit });
        self
    }
}

impl<S: Clone> DeadlineLayer<S> {
    /// Gives the requests of a service deadlines.
    pub fn layer<T>(&self, service: T) -> ServerDeadline<T, S> {
        ServerDeadline::new(service, self.clone())
    }
}

#[cfg(feature = "tower")]
impl<S: Clone, T> tower_layer::Layer<T> for DeadlineLayer<S> {
    type Service = ServerDeadline<T, S>;

    fn layer(&self, service: T) -> ServerDeadline<T, S> {
        self.layer(service)
    }
}

impl<S> fmt::Debug for DeadlineLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineLayer").field("timeouts", &self.timeouts).finish_non_exhaustive()
    }
}
