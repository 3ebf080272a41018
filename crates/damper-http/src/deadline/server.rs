//! The layer of a server: finds the deadline of a request and enforces it.

use super::{
    Answer, Bounds, BoundsOf, BoxError, DeadlineBody, Deadlines, End, InstantHeader, Over, Protocol, Role, Side,
};
use crate::rate_limit::Refused;
use crate::telemetry::{DeadlineStage, Kind};
use crate::{Body, Head};
use alloc::sync::Arc;
use bytes::Bytes;
use damper_core::deadline::{Arrival, Deadline, SkewGuard};
use damper_core::time::Sleep;
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
/// The client's timeout is in the `header` that you choose. A gRPC request carries it in
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
pub type DeadlineLayer<S> = Deadlines<S, AtServer>;

/// The settings of a server's layer.
#[derive(Clone, Debug, Default)]
pub struct AtServer {
    instants: InstantHeader,
}

impl Role for AtServer {
    const KIND: Kind = Kind::ServerDeadline;
}

impl<S> DeadlineLayer<S> {
    /// Sets the header in which clients send their deadlines as instants. Default: none.
    ///
    /// An instant is a number of milliseconds since 1970. Prefer [timeouts](Self::header), because an instant is right only if the clocks
    /// of client and server agree. If a server's clock is ahead by more than its clients wait, it would refuse every request, unless a
    /// [guard](Self::skew_guard) prevents that. A malformed number is ignored.
    #[must_use]
    pub fn instant_header(mut self, name: HeaderName) -> Self {
        self.role.instants.name = Some(name);
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
        self.role.instants.guard = Some(guard.into());
        self
    }

    /// Returns the deadline that a request of this head would get now.
    ///
    /// The guard against skew is not asked, because it counts.
    pub(crate) fn forecast(&self, head: &Head<'_>) -> Deadline {
        let deadline = self.timeouts.deadline(head, &Protocol::of(head));
        self.role.instants.deadline(head.headers).map_or(deadline, |instant| deadline.earlier(instant))
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
        if let Some((instant, arrived)) = self.role.instants.read(head.headers) {
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
