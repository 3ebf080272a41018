//! The rules of a protocol for retries.

use super::ReplayableBody;
use crate::{ClassifyResponse, Head};
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::retry::{Failure, RetryError};
use damper_core::time::Clock;
use http::HeaderMap;

/// Decides which requests of a protocol are sent again, with which bodies and headers.
///
/// A request is sent again after a failed attempt, or beside a slow one.
///
/// | protocol | requests | bodies |
/// |---|---|---|
/// | [`HttpRetries`](super::HttpRetries) | of idempotent methods, or marked as [`Idempotent`](super::Idempotent) | cloned, or [buffered](super::RetryLayer::buffering) |
/// | `damper::tonic::GrpcRetries` | all | buffered |
///
/// `Q` is the body of the caller's request. A [`RetryLayer`](super::RetryLayer) and a [`HedgeLayer`](crate::HedgeLayer) also use the
/// protocol to judge outcomes, by [`ClassifyResponse`]. A `RetryLayer` uses it for the error of a call that was given up, by [`GiveUp`].
///
/// # Examples
///
/// A protocol whose requests may all be sent again, and count their attempts in a header:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::http::{ClassifyResponse, GiveUp, Head, ReplayableBody, ResponseHead, RetryLayer, RetryProtocol};
/// use damper::retry::Failure;
/// use damper::{Retry, RetryError};
/// use http::{HeaderMap, StatusCode};
/// use std::time::Duration;
///
/// struct Queries;
///
/// impl<Q: ReplayableBody> RetryProtocol<Q> for Queries {
///     type Kept = Q;
///     type Body = Q;
///
///     fn may_repeat(&self, _: &Head<'_>) -> bool {
///         true
///     }
///
///     fn keep(&self, body: Q) -> Q {
///         body
///     }
///
///     fn send(&self, body: Q) -> Q {
///         body
///     }
///
///     fn has_transparent_retries(&self) -> bool {
///         false
///     }
///
///     fn prepare(&self, headers: &mut HeaderMap, previous_attempts: u32, _: Option<Duration>) {
///         headers.insert("x-previous-attempts", previous_attempts.into());
///     }
/// }
///
/// impl<E> ClassifyResponse<E, Option<Failure>> for Queries {
///     fn classify(&self, response: Result<&ResponseHead<'_>, &E>) -> Option<Failure> {
///         response.map_or(true, |head| head.status == StatusCode::SERVICE_UNAVAILABLE).then_some(Failure::TRANSIENT)
///     }
/// }
///
/// impl<E> GiveUp<E> for Queries {
///     type Error = RetryError<E>;
///
///     fn give_up(&self, error: RetryError<E>) -> RetryError<E> {
///         error
///     }
/// }
///
/// # async fn sleep(_: Duration) {}
/// let layer = RetryLayer::sleeping_by(Retry::new(3), sleep).protocol(Queries);
/// # let _ = layer;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot send a request again whose body is `{Q}`",
    note = "a body that is `Clone` can be sent again: `Full<Bytes>`, `Empty`, `Bytes`, `String`",
    note = "a stream of data, if it is `Unpin`, can be kept by `RetryLayer::buffering`",
    note = "for a body that is one or the other, implement `ReplayableBody`"
)]
pub trait RetryProtocol<Q> {
    /// The form in which the body is kept for other attempts.
    type Kept: ReplayableBody;

    /// The body that the service gets.
    type Body;

    /// Returns whether a request may be sent again although a server may have processed it.
    ///
    /// A request that provably reached no server may always be sent again.
    fn may_repeat(&self, head: &Head<'_>) -> bool;

    /// Returns the body in the form in which it can be kept.
    fn keep(&self, body: Q) -> Self::Kept;

    /// Returns the body for an attempt.
    fn send(&self, body: Self::Kept) -> Self::Body;

    /// Returns the time that the request itself allows for the whole call. Default: none.
    #[inline]
    fn timeout(&self, _head: &Head<'_>) -> Option<Duration> {
        None
    }

    /// Returns whether outcomes may be [transparent](damper_core::retry::Failure::transparent).
    ///
    /// If so, the request is kept during the last attempt too.
    ///
    /// A protocol that wraps another one returns the inner value.
    fn has_transparent_retries(&self) -> bool;

    /// Sets the headers of an attempt. Default: leaves them unchanged.
    ///
    /// `previous_attempts` counts the attempts of this layer that a server may have processed. `time_left` is the time until the deadline,
    /// if there is one.
    #[inline]
    fn prepare(&self, _headers: &mut HeaderMap, _previous_attempts: u32, _time_left: Option<Duration>) {}
}

/// Returns the earlier of the deadlines in a request's extensions and by its protocol.
#[inline]
pub(crate) fn deadline_of<Q, P, C>(protocol: &P, head: &Head<'_>, clock: &C) -> Option<Deadline<C>>
where
    P: RetryProtocol<Q>,
    C: Clock + Clone + Send + Sync + 'static,
{
    let deadline = head.extensions.get::<Deadline<C>>().cloned();
    let timeout = protocol.timeout(head).map(|timeout| Deadline::with_clock(timeout, clock.clone()));
    match (deadline, timeout) {
        (Some(deadline), Some(timeout)) => Some(deadline.earlier(timeout)),
        (deadline, timeout) => deadline.or(timeout),
    }
}

/// Creates the caller's error for a call that was given up.
pub trait GiveUp<E>: ClassifyResponse<E, Option<Failure>> {
    /// The error that the caller gets.
    type Error;

    /// Returns the caller's error.
    fn give_up(&self, error: RetryError<E>) -> Self::Error;
}
