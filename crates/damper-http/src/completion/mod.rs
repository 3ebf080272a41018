//! How calls of HTTP end, and what is told to their permits.

// | file | idea |
// |---|---|
// | this one | when a call has ended, and what is known of it then |
// | `at_head`, `at_body_end`, `while_body_lasts` | the completions of HTTP |
// | `classify` | how a call ended, by its response |
// | `statuses` | what is known of a call by its response: the judges of all layers |
// | `held_call`, `held_permit` | the permit of a call, until the response begins, and until the call has ended |
// | `time_given` | whether a call that its deadline ended was given enough time |
// | `min_budget` | how much time is enough |
// | `observed_body` | a response body that reports its end |

mod at_body_end;
mod at_head;
mod classify;
mod held_call;
mod held_permit;
mod min_budget;
mod observed_body;
mod statuses;
mod time_given;
mod while_body_lasts;

pub use at_body_end::AtBodyEnd;
use at_body_end::BodyErrors;
pub use at_head::AtHead;
pub use classify::{ClassifyResponse, ResponseHead};
pub(crate) use held_call::{HeldCall, Pending};
pub use held_permit::HeldPermit;
use min_budget::MeasuredCall;
pub use min_budget::MinBudget;
pub use observed_body::{BodyEnd, ObservedBody};
pub use statuses::{EveryStatus, Statuses};
use time_given::TimeGiven;
pub(crate) use while_body_lasts::{OverloadInTrailers, WhileBodyLasts};

use core::ops::ControlFlow;
use damper_core::CallError;
use damper_core::breaker::CircuitOpen;
use damper_core::gate::{Permit, Verdict};
use http::Response;

/// Determines when a call has ended, and what is known of it then.
///
/// | completion | a call ends | its verdict |
/// |---|---|---|
/// | [`AtHead`](self::AtHead) | with the head of its response | by the head |
/// | [`AtBodyEnd`](self::AtBodyEnd) | with the body of its response | by the head, and whether the body is whole |
/// | `damper::tonic::AtTrailers` | with the trailers of its response | by the gRPC status |
///
/// A service's error ends a call in all of them. A layer clones its completion for every call, so a clone should be cheap: put large values
/// into an `Arc`.
///
/// Implement it for other protocols. `R` is the body of the service's responses, and `E` is the service's error. `N` is the refusal of the
/// gate, from which the caller's error is made: [`CircuitOpen`] of a breaker, [`Throttled`](damper_core::throttle::Throttled) of a
/// throttle. The completions of damper work with every gate.
///
/// # Examples
///
/// A protocol that has its status in a header, where 0 is a success:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::gate::{Ending, Permit, Verdict};
/// use damper::http::{CircuitBreakerLayer, Completion, HeldPermit};
/// use damper::{BreakerConfig, CallError};
/// use http::Response;
/// use std::ops::ControlFlow;
///
/// #[derive(Clone)]
/// struct AtStatusHeader;
///
/// impl<R, E, N> Completion<R, E, N> for AtStatusHeader {
///     const FOLLOWS_BODY: bool = false;
///     type Body<P: Permit> = R;
///     type Error = CallError<E, N>;
///
///     fn head(&mut self, response: &Response<R>) -> ControlFlow<Verdict, Verdict> {
///         let is_success = response.headers().get("x-status").is_some_and(|status| status == "0");
///         ControlFlow::Break(Verdict::of(if is_success { Ending::Success } else { Ending::Failed }))
///     }
///
///     fn failed(&self, error: E) -> (Verdict, CallError<E, N>) {
///         (Verdict::of(Ending::Broken), CallError::Failed(error))
///     }
///
///     fn respond<P: Permit>(response: Response<R>, _: Option<(HeldPermit<P>, Self)>) -> Response<R> {
///         response
///     }
///
///     fn not_called(error: CallError<E, N>) -> CallError<E, N> {
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
pub trait Completion<R, E, N = CircuitOpen>: Sized {
    /// Whether a call may go on in the body of its response. If not, each ends with its head.
    const FOLLOWS_BODY: bool;

    /// The body that the caller gets. It may hold the permit until the body ends.
    type Body<P: Permit>;

    /// The error that the caller gets.
    type Error;

    /// Returns what the head of a response says, and whether it ends the call.
    ///
    /// `Break` is the verdict on a call that has ended. `Continue` is told to the permit of a call that goes on in the body.
    fn head(&mut self, response: &Response<R>) -> ControlFlow<Verdict, Verdict>;

    /// Returns the verdict on the service's error, and the error that the caller gets.
    fn failed(&self, error: E) -> (Verdict, Self::Error);

    /// Returns the response that the caller gets.
    ///
    /// The permit is there if the call goes on in the body, which then reports its end: see [`ObservedBody`](self::ObservedBody).
    fn respond<P: Permit>(response: Response<R>, pending: Option<(HeldPermit<P>, Self)>) -> Response<Self::Body<P>>;

    /// Returns the error that the caller gets for a call that was not made.
    ///
    /// The gate refused it, or the service failed to become ready for it.
    fn not_called(error: CallError<E, N>) -> Self::Error;
}
