//! The differences between a server's limit and a client's.

use super::{ClassifyLoad, ConcurrencyLimit, PermitObserver};
use crate::Head;
use core::time::Duration;
use http::Response;

/// The permit of a side's calls.
pub(super) type PermitOf<Y> = <<Y as Side>::Limit as ConcurrencyLimit>::Permit;

/// A layer that limits the calls in flight.
pub trait Side: Clone {
    /// Its limit.
    type Limit: ConcurrencyLimit;

    /// The judgement of a response: what it says about the load.
    type Classify: Clone;

    /// A refusal, until the caller gets it.
    type Refused;

    /// Returns the limit.
    #[doc(hidden)]
    fn limit(&self) -> &Self::Limit;

    /// Returns what judges responses.
    #[doc(hidden)]
    fn classify(&self) -> &Self::Classify;

    /// Returns the shortest time given to a call whose end by the deadline is a sign of overload, if set.
    #[doc(hidden)]
    fn min_budget(&self) -> Option<Duration>;

    /// Returns the longest time for which a frame of a response may wait for its reader, if there is one.
    #[doc(hidden)]
    fn stall_limit(&self) -> Option<Duration>;

    /// Returns whether a request needs no permit.
    #[doc(hidden)]
    fn exempts(&self, head: &Head<'_>) -> bool;

    /// Records that a request has its permit.
    #[doc(hidden)]
    fn record_allowed(&self);

    /// Records the refusal, and builds the answer in the request's protocol.
    #[doc(hidden)]
    fn refuse(&self, head: &Head<'_>, refusal: <Self::Limit as ConcurrencyLimit>::Refusal) -> Self::Refused;
}

/// The result for the caller of a service, whose body is `R` and whose error is `E`.
pub trait Answer<R, E>: Side<Classify: ClassifyLoad<E>> {
    /// The body of its responses.
    type Body;

    /// Its error.
    type Error;

    /// Passes on a response, whose body holds the slot until it ends.
    #[doc(hidden)]
    fn answered(response: Response<R>, observer: Option<PermitObserver<PermitOf<Self>>>) -> Response<Self::Body>;

    /// Passes on an error of the service.
    #[doc(hidden)]
    fn failed(error: E) -> Self::Error;

    /// Answers in place of the service.
    #[doc(hidden)]
    fn refused(refused: Self::Refused) -> Result<Response<Self::Body>, Self::Error>;
}
