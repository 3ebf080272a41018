//! The server's layer of deadlines: finds the deadline of a request and enforces it.

use super::{
    Answer, Bounds, BoundsOf, BoxError, DeadlineBody, DeadlineService, End, InstantHeader, Over, Protocol, Side,
    TimeoutHeader, TimeoutUnit, Timeouts,
};
use crate::rate_limit::Refused;
use crate::telemetry::{DeadlineStage, Kind, Telemetry};
use crate::{Body, Head};
use alloc::sync::Arc;
use bytes::Bytes;
use core::fmt;
use core::time::Duration;
#[cfg(feature = "tower")]
use damper_core::deadline::Deadline;
use damper_core::deadline::{Arrival, SkewGuard};
use damper_core::setting::Setting;
use damper_core::time::Sleep;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use http::{HeaderName, Request, Response};

/// Gives each request of a server one deadline, from its arrival to the last byte of its response.
///
/// The deadline is the earliest of the client's timeout, the server's own, and the deadline of an outer layer. The layer puts it into the
/// request's extensions. Take it by axum's `Extension<Deadline>` or tonic's `request.extensions()`, call
/// [`check`](damper_core::Deadline::check) before each costly step, and pass it on by a
/// [`ClientDeadlineLayer`](crate::ClientDeadlineLayer).
///
/// | when the deadline has passed | the client gets |
/// |---|---|
/// | on arrival | `504 Gateway Timeout` at once; the service is not called |
/// | before the response | `504 Gateway Timeout`; the service's future is dropped |
/// | while the body streams | the data so far, and then a broken connection or stream; the service's body is dropped |
///
/// The client's timeout is in the [header](Self::header) that you choose. A gRPC request carries it in
/// `grpc-timeout`, and the response is the status `DEADLINE_EXCEEDED`, in the trailers of a body that has begun. Without a valid timeout,
/// the server's own applies. So a client can shorten it, but never lengthen it.
///
/// Around a router it applies to all routes, around a handler to that one. Leave out handlers whose responses are meant to last, such as
/// server-sent events.
///
/// # Work that must go on
///
/// The handler's future is dropped at the deadline, as it is when the client goes away. Detach work that must go on, such as an audit
/// record or the filling of a cache. With the feature `tokio`, `deadline.detach(write(record)).await` awaits it until the deadline, and
/// moves it to a task if it has not ended by then. On another runtime, spawn it. Give it its own deadline, not the request's.
///
/// # Examples
///
/// With axum:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// # #[cfg(all(feature = "axum", feature = "tokio"))] {
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
/// # }
/// ```
#[derive(Clone)]
pub struct DeadlineLayer<S> {
    timeouts: Timeouts,
    instants: InstantHeader,
    sleep: S,
    telemetry: Telemetry,
}

#[cfg(feature = "tokio")]
impl DeadlineLayer<TokioSleep> {
    /// Creates a layer with the server's own timeout, which no request can lengthen.
    ///
    /// It sleeps by tokio's timer. To change the timeout while requests are served, pass a [`Live`](damper_core::Live).
    #[must_use]
    pub fn new(timeout: impl Into<Setting<Duration>>) -> Self {
        Self::sleeping_by(timeout, TokioSleep)
    }

    /// Creates a layer without its own timeout, which enforces the deadlines of requests.
    ///
    /// It sleeps by tokio's timer.
    #[must_use]
    pub fn propagating() -> Self {
        Self::propagating_by(TokioSleep)
    }
}

impl<S> DeadlineLayer<S> {
    /// Creates a layer with the server's own timeout and another [`Sleep`](damper_core::time::Sleep).
    #[must_use]
    pub fn sleeping_by(timeout: impl Into<Setting<Duration>>, sleep: S) -> Self {
        Self::with_timeouts(Timeouts::new(Some(timeout.into())), sleep)
    }

    /// Creates a layer without its own timeout and with another [`Sleep`](damper_core::time::Sleep).
    #[must_use]
    pub fn propagating_by(sleep: S) -> Self {
        Self::with_timeouts(Timeouts::new(None), sleep)
    }

    fn with_timeouts(timeouts: Timeouts, sleep: S) -> Self {
        let telemetry = Telemetry::new(Kind::ServerDeadline, "default");
        Self { timeouts, instants: InstantHeader::default(), sleep, telemetry }
    }

    /// Sets the header in which clients send their timeouts, as a whole number. Default: none.
    ///
    /// A malformed number is ignored. gRPC requests have their own header, `grpc-timeout`.
    #[must_use]
    pub fn header(mut self, name: HeaderName, unit: TimeoutUnit) -> Self {
        self.timeouts.header = Some(TimeoutHeader { name, unit });
        self
    }

    /// Sets the header in which clients send their deadlines as instants. Default: none.
    ///
    /// An instant is a number of milliseconds since 1970. Prefer [timeouts](Self::header), because an instant is right only if the clocks
    /// of client and server agree. If a server's clock is ahead by more than its clients wait, it would refuse every request, unless a
    /// [guard](Self::skew_guard) prevents that. A malformed number is ignored.
    #[must_use]
    pub fn instant_header(mut self, name: HeaderName) -> Self {
        self.instants.name = Some(name);
        self
    }

    /// Sets the guard that decides on requests whose [instant](Self::instant_header) has passed on arrival.
    ///
    /// Default: none, so all of them are refused.
    ///
    /// A request that the guard lets pass is served with the server's own timeout. To read [`served_expired`](SkewGuard::served_expired)
    /// elsewhere, pass an `Arc`.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// # #[cfg(feature = "tokio")] {
    /// use damper::deadline::SkewGuard;
    /// use damper::http::DeadlineLayer;
    /// use http::HeaderName;
    /// use std::time::Duration;
    ///
    /// const DEADLINE: HeaderName = HeaderName::from_static("x-deadline-unix-ms");
    ///
    /// let deadlines =
    ///     DeadlineLayer::new(Duration::from_secs(2)).instant_header(DEADLINE).skew_guard(SkewGuard::new());
    /// # let _ = deadlines;
    /// # }
    /// ```
    #[must_use]
    pub fn skew_guard(mut self, guard: impl Into<Arc<SkewGuard>>) -> Self {
        self.instants.guard = Some(guard.into());
        self
    }

    /// Sets the name in logs and metrics. Default: `default`.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.telemetry = Telemetry::new(Kind::ServerDeadline, name);
        self
    }
}

impl<S> DeadlineLayer<S> {
    /// Returns the deadline that a request of this head would get now.
    ///
    /// The guard against skew is not asked, because it counts.
    #[cfg(feature = "tower")]
    pub(crate) fn forecast(&self, head: &Head<'_>) -> Deadline {
        let deadline = self.timeouts.deadline(head, &Protocol::of(head));
        self.instants.deadline(head.headers).map_or(deadline, |instant| deadline.earlier(instant))
    }
}

impl<S: Clone> DeadlineLayer<S> {
    /// Gives deadlines to the requests of a service.
    pub fn layer<T>(&self, service: T) -> DeadlineService<T, Self> {
        DeadlineService::new(service, self.clone())
    }
}

#[cfg(feature = "tower")]
impl<S: Clone, T> tower_layer::Layer<T> for DeadlineLayer<S> {
    type Service = DeadlineService<T, Self>;

    fn layer(&self, service: T) -> DeadlineService<T, Self> {
        self.layer(service)
    }
}

impl<S: Sleep + Clone> Side for DeadlineLayer<S> {
    type Sleep = S;
    type Report = Protocol;

    #[inline]
    fn begin<B>(&self, request: &mut Request<B>) -> Result<BoundsOf<Self>, Over<Protocol>> {
        let head = Head::of(request);
        let protocol = Protocol::of(&head);
        let mut deadline = self.timeouts.deadline(&head, &protocol);
        let mut arrival = deadline.check();
        if let Some((instant, arrived)) = self.instants.read(head.headers) {
            match arrived {
                Arrival::InTime => deadline = deadline.earlier(instant),
                Arrival::Expired(exceeded) => arrival = Err(exceeded),
                Arrival::Skewed => self.telemetry.record_skewed(),
            }
        }
        if let Err(exceeded) = arrival {
            self.telemetry.record_exceeded(DeadlineStage::Arrival, &exceeded);
            return Err(Over { exceeded, report: protocol, stage: DeadlineStage::Arrival });
        }
        request.extensions_mut().insert(deadline);
        Ok(Bounds { deadline, sleep: self.sleep.clone(), report: protocol, telemetry: self.telemetry.clone() })
    }
}

impl<S, R, E> Answer<R, E> for DeadlineLayer<S>
where
    S: Sleep + Clone,
    R: http_body::Body<Data = Bytes, Error: Into<BoxError>>,
{
    type Body = Body<DeadlineBody<R, S>>;
    type Error = E;

    fn in_time(result: Result<Response<R>, E>, bounds: BoundsOf<Self>) -> Result<Response<Self::Body>, E> {
        Ok(result?.map(|body| Body::service(DeadlineBody::new(body, bounds, End::Served))))
    }

    fn over(Over { exceeded, report, stage }: Over<Protocol>) -> Result<Response<Self::Body>, E> {
        let response = report.response(exceeded).map(Body::refusal);
        Ok(if stage == DeadlineStage::Arrival { Refused::mark(response) } else { response })
    }

    fn not_ready(error: E) -> E {
        error
    }
}

impl<S> fmt::Debug for DeadlineLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineLayer")
            .field("timeouts", &self.timeouts)
            .field("instants", &self.instants)
            .finish_non_exhaustive()
    }
}
