//! The differences between the deadlines of a server and a client.

use super::Protocol;
use crate::telemetry::{DeadlineStage, DeadlineTelemetry};
use damper_core::deadline::{Deadline, DeadlineExceeded};
use damper_core::time::Sleep;
use http::{Request, Response};

/// A layer of deadlines, which begins the calls of its service.
pub trait Side {
    /// The sleep of its calls.
    type Sleep: Sleep + Clone;

    /// Puts the deadline of a request into its extensions, or refuses a call that cannot end in time.
    #[doc(hidden)]
    fn begin<B>(&self, request: &mut Request<B>) -> Result<Bounds<Self::Sleep>, Over>;
}

/// The result that the caller of a service gets. `R` is the service's body and `E` its error.
pub trait Answer<R, E>: Side {
    /// The body of its responses.
    type Body;

    /// Its error.
    type Error;

    /// Passes on a result that came in time.
    #[doc(hidden)]
    fn in_time(
        result: Result<Response<R>, E>,
        bounds: Bounds<Self::Sleep>,
    ) -> Result<Response<Self::Body>, Self::Error>;

    /// Answers in place of the service.
    #[doc(hidden)]
    fn over(over: Over) -> Result<Response<Self::Body>, Self::Error>;

    /// Passes on an error of the service's readiness.
    #[doc(hidden)]
    fn not_ready(error: E) -> Self::Error;
}

/// The deadline of a call, with its protocol and telemetry.
#[derive(Debug)]
pub struct Bounds<S> {
    pub(super) deadline: Deadline,
    pub(super) sleep: S,
    pub(super) protocol: Protocol,
    pub(super) telemetry: DeadlineTelemetry,
}

/// The end of a call at its deadline, and the protocol in which to report it.
#[derive(Debug)]
pub struct Over {
    pub(super) exceeded: DeadlineExceeded,
    pub(super) protocol: Protocol,
    pub(super) stage: DeadlineStage,
}
