//! The differences between the deadlines of a server and a client.

use crate::telemetry::{DeadlineStage, Telemetry};
use damper_core::deadline::{Deadline, DeadlineExceeded};
use damper_core::time::Sleep;
use http::{Request, Response};

/// A layer of deadlines, which begins the calls of its service.
pub trait Side {
    /// The sleep of its calls.
    type Sleep: Sleep + Clone;

    /// The form in which the end of a call at its deadline is reported.
    type Report: Clone;

    /// Puts the deadline of a request into its extensions, or refuses a call that cannot end in time.
    #[doc(hidden)]
    fn begin<B>(&self, request: &mut Request<B>) -> Result<BoundsOf<Self>, Over<Self::Report>>;
}

/// The result that the caller of a service gets. `R` is the service's body and `E` its error.
pub trait Answer<R, E>: Side {
    /// The body of its responses.
    type Body;

    /// Its error.
    type Error;

    /// Passes on a result that came in time.
    #[doc(hidden)]
    fn in_time(result: Result<Response<R>, E>, bounds: BoundsOf<Self>) -> Result<Response<Self::Body>, Self::Error>;

    /// Answers in place of the service.
    #[doc(hidden)]
    fn over(over: Over<Self::Report>) -> Result<Response<Self::Body>, Self::Error>;

    /// Passes on an error of the service's readiness.
    #[doc(hidden)]
    fn not_ready(error: E) -> Self::Error;
}

/// The bounds of the calls of a layer.
pub(super) type BoundsOf<L> = Bounds<<L as Side>::Sleep, <L as Side>::Report>;

/// The deadline of a call, with the form in which its end is reported, and telemetry.
#[derive(Debug)]
pub struct Bounds<S, P> {
    pub(super) deadline: Deadline,
    pub(super) sleep: S,
    pub(super) report: P,
    pub(super) telemetry: Telemetry,
}

/// The end of a call at its deadline, and the form in which it is reported.
#[derive(Debug)]
pub struct Over<P> {
    pub(super) exceeded: DeadlineExceeded,
    pub(super) report: P,
    pub(super) stage: DeadlineStage,
}
