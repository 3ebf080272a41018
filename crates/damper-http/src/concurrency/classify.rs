//! What a response says about the load of its server.

use crate::completion::ResponseHead;
use alloc::boxed::Box;
use core::error::Error;
use damper_core::concurrency::Outcome;
use damper_core::deadline::DeadlineExceeded;
use damper_core::is_refusal;
use http::{HeaderMap, HeaderName, StatusCode};

/// Returns what a response, or the error in its place, says about the load of its server: what an
/// [`AdaptiveLimit`](damper_core::AdaptiveLimit) learns.
///
/// Every closure with these arguments implements it. The closure names the type of the service's error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not judge responses of a service whose error is `{E}`",
    note = "a closure has the form `|response: Result<&damper::http::ResponseHead, &{E}>| -> damper::concurrency::Outcome`",
    note = "`LoadSigns` takes errors that implement `Error`; for those in boxes: `.classify(LoadSigns::judge_boxed)`"
)]
pub trait ClassifyLoad<E> {
    /// Returns the outcome.
    fn outcome(&self, response: Result<&ResponseHead<'_>, &E>) -> Outcome;
}

impl<E, F: Fn(Result<&ResponseHead<'_>, &E>) -> Outcome> ClassifyLoad<E> for F {
    #[inline]
    fn outcome(&self, response: Result<&ResponseHead<'_>, &E>) -> Outcome {
        self(response)
    }
}

/// Takes refusals and timeouts as signs of overload, and the latency of other responses that are no server's errors as that of its
/// work.
///
/// | the response | outcome |
/// |---|---|
/// | 429, 503, 504; the gRPC status `RESOURCE_EXHAUSTED`, `UNAVAILABLE` or `DEADLINE_EXCEEDED` | overloaded |
/// | another 5xx | ignored |
/// | any other | success |
/// | an error with a [`DeadlineExceeded`] or an `AttemptTimedOut` among its sources | overloaded |
/// | another error, [refusals](is_refusal) of damper's own included | ignored |
///
/// The status of gRPC is read in the head of a response without messages, and otherwise in the trailers: those are judged by the
/// same codes, whatever classifies the heads.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadSigns;

impl LoadSigns {
    /// Returns the outcome of a call with this response, or the error in its place. For a closure of your own.
    #[inline]
    #[must_use]
    pub fn judge(response: Result<&ResponseHead<'_>, &(dyn Error + 'static)>) -> Outcome {
        match response {
            Ok(head) if is_overloaded(head.headers) => Outcome::Overloaded,
            Ok(head) => match head.status {
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                    Outcome::Overloaded
                }
                status if status.is_server_error() => Outcome::Ignored,
                _ => Outcome::Success,
            },
            Err(error) if is_refusal(error) => Outcome::Ignored,
            Err(error) if has_timed_out(error) => Outcome::Overloaded,
            Err(_) => Outcome::Ignored,
        }
    }

    /// Returns the same as [`judge`](Self::judge), for a service whose errors are in boxes, as those of tower's timeouts are.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::concurrency::LimitBounds;
    /// use damper::http::{ConcurrencyLayer, LoadSigns};
    ///
    /// let layer = ConcurrencyLayer::adaptive(LimitBounds::DEFAULT).classify(LoadSigns::judge_boxed);
    /// # let _ = layer;
    /// ```
    #[must_use]
    #[expect(clippy::borrowed_box, reason = "the error of a service is the box")]
    pub fn judge_boxed(response: Result<&ResponseHead<'_>, &Box<dyn Error + Send + Sync>>) -> Outcome {
        Self::judge(response.map_err(|error| &**error as _))
    }
}

/// As [`LoadSigns::judge`]. For errors in boxes: [`LoadSigns::judge_boxed`].
impl<E: Error + 'static> ClassifyLoad<E> for LoadSigns {
    #[inline]
    fn outcome(&self, response: Result<&ResponseHead<'_>, &E>) -> Outcome {
        Self::judge(response.map_err(|error| error as _))
    }
}

/// Whether the service took longer than a layer of damper gave it.
fn has_timed_out(error: &(dyn Error + 'static)) -> bool {
    #[cfg(feature = "tower")]
    if crate::AttemptTimedOut::find_in(error).is_some() {
        return true;
    }
    DeadlineExceeded::find_in(error).is_some()
}

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Whether these headers or trailers have a gRPC status of overload: `DEADLINE_EXCEEDED`, `RESOURCE_EXHAUSTED` or `UNAVAILABLE`.
#[inline]
pub(super) fn is_overloaded(headers: &HeaderMap) -> bool {
    headers.get(&GRPC_STATUS).is_some_and(|status| matches!(status.as_bytes(), b"4" | b"8" | b"14"))
}
