//! The layer of a client: finds the deadline of a request and sends the time left.

use super::{
    Answer, Bounds, BoundsOf, BoxError, DeadlineBody, Deadlines, End, Over, Protocol, Role, SentTimeout, Side,
};
use crate::Head;
use crate::stack::{StackPart, StackProtocol};
use crate::telemetry::{DeadlineStage, Kind};
use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;
use damper_core::deadline::{Deadline, DeadlineExceeded};
use damper_core::internal::exceeded;
use damper_core::time::Sleep;
use http::{Request, Response};

/// Ends a client's calls at their deadlines, and sends the time left to the server.
///
/// The deadline is the earliest of the `Deadline` in the request's extensions, the client's own timeout, and a timeout that
/// the request carries already, such as that of tonic's `Request::set_timeout`. It covers the call and the body of its
/// response. The layer puts it into the request's extensions, where inner layers find it.
///
/// The server gets the time left minus a `margin`, in the `header` that you choose. A gRPC
/// request carries it in `grpc-timeout`. Nothing is sent once the time is spent. A [`RetryLayer`](crate::RetryLayer) inside updates
/// the header for each attempt.
///
/// The error of a call that took too long has a [`DeadlineExceeded`](damper_core::DeadlineExceeded) among its sources, see
/// [`find_in`](damper_core::DeadlineExceeded::find_in). With the `protocol` gRPC it is the status `DEADLINE_EXCEEDED`. The
/// service's own errors are boxed.
///
/// Put it outside of all other layers of a client, so that retries and waits share the one deadline.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// # #[cfg(all(feature = "hyper", feature = "tokio"))] {
/// use damper::http::{ClientDeadlineLayer, TimeoutUnit};
/// use damper::{Deadline, DeadlineExceeded};
/// use http::{HeaderName, Request};
/// use http_body_util::Empty;
/// use hyper_util::{client::legacy::Client, rt::TokioExecutor};
/// use std::time::Duration;
/// use tower::{Service, ServiceBuilder, ServiceExt};
///
/// const TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");
///
/// # async fn run(deadline: Deadline) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let deadlines = ClientDeadlineLayer::new(Duration::from_secs(2))
///     .header(TIMEOUT, TimeoutUnit::Milliseconds)
///     .margin(Duration::from_millis(5)); // for the way back
/// let mut client =
///     ServiceBuilder::new().layer(deadlines).service(Client::builder(TokioExecutor::new()).build_http());
///
/// // The deadline of the request that is being served.
/// let request = Request::get("http://localhost/").extension(deadline).body(Empty::<bytes::Bytes>::new())?;
/// match client.ready().await?.call(request).await {
///     Ok(response) => println!("{}", response.status()),
///     Err(error) => match DeadlineExceeded::find_in(&*error) {
///         Some(exceeded) => println!("{exceeded}"), // deadline of 2 s exceeded, 2 s elapsed
///         None => println!("{error}"),
///     },
/// }
/// # Ok(())
/// # }
/// # }
/// ```
pub type ClientDeadlineLayer<S> = Deadlines<S, AtClient>;

/// The settings of a client's layer.
#[derive(Clone)]
pub struct AtClient {
    margin: Duration,
    error: DeadlineError,
}

/// Makes the caller's error of a call that has ended at its deadline.
pub(crate) type DeadlineError = fn(DeadlineExceeded) -> BoxError;

impl Role for AtClient {
    const KIND: Kind = Kind::ClientDeadline;
}

impl Default for AtClient {
    fn default() -> Self {
        Self { margin: Duration::ZERO, error: |exceeded| Box::new(exceeded) }
    }
}

impl fmt::Debug for AtClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtClient").field("margin", &self.margin).finish_non_exhaustive()
    }
}

impl<S> ClientDeadlineLayer<S> {
    /// Sets the time that is withheld from the server, for the response's way back. Default: zero.
    ///
    /// A call is not made if no more than the margin is left.
    #[must_use]
    pub fn margin(mut self, margin: Duration) -> Self {
        self.role.margin = margin;
        self
    }

    /// Sets the protocol of the error of a call that took too long. Default: HTTP.
    ///
    /// For gRPC, pass `damper::tonic::Grpc::new()`. A generated client turns any other error than a status into `UNKNOWN`.
    #[must_use]
    pub fn protocol<P: StackProtocol>(self, _protocol: P) -> Self {
        self.with_errors_of::<P>()
    }

    pub(crate) fn with_errors_of<P: StackProtocol>(mut self) -> Self {
        self.role.error = |exceeded| P::ended(StackPart::Deadline, Box::new(exceeded));
        self
    }

    /// Returns the deadline that a call of this head would get now, and the margin.
    pub(crate) fn forecast(&self, head: &Head<'_>) -> (Deadline, Duration) {
        (self.timeouts.deadline(head, &Protocol::of(head)), self.role.margin)
    }
}

impl<S: Sleep + Clone> Side for ClientDeadlineLayer<S> {
    type Sleep = S;
    type Report = DeadlineError;

    #[inline]
    fn begin<B>(&self, request: &mut Request<B>) -> Result<BoundsOf<Self>, Over<DeadlineError>> {
        let head = Head::of(request);
        let protocol = Protocol::of(&head);
        let deadline = self.timeouts.deadline(&head, &protocol);
        if !deadline.is_never() {
            let left = deadline.remaining().saturating_sub(self.role.margin);
            if left.is_zero() {
                let exceeded = exceeded(&deadline);
                self.telemetry.record_exceeded(DeadlineStage::Departure, &exceeded);
                return Err(Over { exceeded, report: self.role.error, stage: DeadlineStage::Departure });
            }
            let header = self.timeouts.header.clone();
            protocol.write_timeout(request.headers_mut(), header.as_ref(), left);
            request.extensions_mut().insert(deadline);
            let sent = SentTimeout { deadline, margin: self.role.margin, protocol, header };
            request.extensions_mut().insert(sent);
        }
        Ok(Bounds { deadline, sleep: self.sleep.clone(), report: self.role.error, telemetry: self.telemetry.clone() })
    }
}

impl<S: Sleep + Clone, R, E: Into<BoxError>> Answer<R, E> for ClientDeadlineLayer<S> {
    type Body = DeadlineBody<R, S>;
    type Error = BoxError;

    fn in_time(result: Result<Response<R>, E>, bounds: BoundsOf<Self>) -> Result<Response<Self::Body>, BoxError> {
        Ok(result.map_err(Into::into)?.map(|body| DeadlineBody::new(body, bounds, End::Called)))
    }

    fn over(Over { exceeded, report, .. }: Over<DeadlineError>) -> Result<Response<Self::Body>, BoxError> {
        Err(report(exceeded))
    }

    fn not_ready(error: E) -> BoxError {
        error.into()
    }
}
