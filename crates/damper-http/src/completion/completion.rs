//! The end of a call and its verdict.

use super::CallObserver;
use damper_core::CallError;
use damper_core::breaker::{CircuitOpen, Verdict};
use http::Response;

/// Determines when a call has ended, and with which verdict.
///
/// | completion | a call ends | its verdict |
/// |---|---|---|
/// | [`AtHead`](super::AtHead) | with the head of its response | by the head |
/// | [`AtBodyEnd`](super::AtBodyEnd) | with the body of its response | by the head, and whether the body is whole |
/// | `damper::tonic::AtTrailers` | with the trailers of its response | by the gRPC status |
///
/// A service's error ends a call in all of them. A layer clones its completion for every call, so a clone should be cheap: put large values
/// into an `Arc`.
///
/// Implement it for other protocols. `R` is the body of the service's responses, and `E` is the service's error. `N` is the refusal of the
/// layer, from which the caller's error is made: [`CircuitOpen`] for a breaker, [`Throttled`](damper_core::throttle::Throttled) for a
/// throttle. The completions of damper work with every layer.
///
/// # Examples
///
/// A protocol that has its status in a header, where 0 is a success:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::breaker::Verdict;
/// use damper::http::{CallObserver, CircuitBreakerLayer, Completion};
/// use damper::{BreakerConfig, CallError};
/// use http::Response;
///
/// #[derive(Clone)]
/// struct AtStatusHeader;
///
/// impl<R, E> Completion<R, E> for AtStatusHeader {
///     type Body<O: CallObserver> = R;
///     type Error = CallError<E>;
///
///     fn verdict(&self, response: &Response<R>) -> Option<Verdict> {
///         Some(Verdict::failure_if(response.headers().get("x-status").is_none_or(|status| status != "0")))
///     }
///
///     fn failed(&self, error: E) -> (Verdict, CallError<E>) {
///         (Verdict::Failure, CallError::Failed(error))
///     }
///
///     fn respond<O: CallObserver>(self, response: Response<R>, _: Option<O>) -> Response<R> {
///         response
///     }
///
///     fn not_called(&self, error: CallError<E>) -> CallError<E> {
///         error
///     }
/// }
///
/// let layer = CircuitBreakerLayer::per_host(BreakerConfig::default()).completion(AtStatusHeader);
/// # let _ = layer;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not tell how a call ends whose response has the body `{R}` and whose error is `{E}`",
    note = "`AtHead` takes every response, `AtBodyEnd` a body that is an `http_body::Body`",
    note = "`AtTrailers`, for gRPC, also takes an error that converts into `Box<dyn Error + Send + Sync>`"
)]
pub trait Completion<R, E, N = CircuitOpen> {
    /// The body that the caller gets. It may hold the observer until the body ends.
    type Body<O: CallObserver>;

    /// The error that the caller gets.
    type Error;

    /// Returns the verdict on a response if its head ends the call.
    ///
    /// It returns `None` if the call goes on in the body.
    fn verdict(&self, response: &Response<R>) -> Option<Verdict>;

    /// Returns the verdict on the service's error, and the error that the caller gets.
    fn failed(&self, error: E) -> (Verdict, Self::Error);

    /// Returns the response that the caller gets.
    ///
    /// The observer is `Some` if the call goes on in the body, which then reports its end: see [`ObservedBody`](super::ObservedBody).
    fn respond<O: CallObserver>(self, response: Response<R>, observer: Option<O>) -> Response<Self::Body<O>>;

    /// Returns the error that the caller gets for a call that was not made.
    ///
    /// The layer refused it, or the service failed to become ready for it.
    fn not_called(&self, error: CallError<E, N>) -> Self::Error;
}
