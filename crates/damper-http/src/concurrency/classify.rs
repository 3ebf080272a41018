//! Judges by a response how loaded its server is.

use crate::completion::{ResponseHead, Statuses, grpc_ending};
#[cfg(doc)]
use crate::rate_limit::Refused;
use alloc::boxed::Box;
use core::error::Error;
use damper_core::breaker::Verdict;
use damper_core::concurrency::Outcome;
#[cfg(doc)]
use damper_core::deadline::DeadlineExceeded;
use damper_core::gate::Ending;
#[cfg(doc)]
use damper_core::is_refusal;
use http::HeaderMap;

/// Returns what a response or error says about the load of its server.
///
/// An [`AdaptiveLimit`](damper_core::AdaptiveLimit) learns from it.
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

/// Takes 503, 504 and timeouts as signs of overload.
///
/// The latency of successes counts as that of the server's work.
///
/// | the response | outcome |
/// |---|---|
/// | one that a layer of damper made in this process: it has a [`Refused`] in its extensions | ignored |
/// | 503, 504; the gRPC status `UNAVAILABLE` or `DEADLINE_EXCEEDED` | overloaded |
/// | another 4xx or 5xx; any other gRPC status but `OK` | ignored |
/// | any other | success |
/// | an error that is a [refusal](is_refusal) of damper's own, or a request that could not be made | ignored |
/// | an error with a [`DeadlineExceeded`] or an `AttemptTimedOut` among its sources | overloaded |
/// | with the feature `tonic`: an error with tonic's `TimeoutExpired` among its sources, or a `Status` of the codes above | overloaded |
/// | another error | ignored |
///
/// A 429 and `RESOURCE_EXHAUSTED` are about one client's quota or one message's size, and a server sends them in no time. If they were
/// signs of overload, one client beyond its quota would take the limit from all others. The same holds for a 404 as a success: calls that
/// a client makes fail at will would make the server look fast. A server that refuses by 429 because it is overloaded needs a
/// closure that says so.
///
/// A call that ends by its deadline is a sign of overload only if the deadline left it as long as a call usually takes, and, until the
/// limit knows that time, 0.9 s.
///
/// The status of gRPC is read in the head of a response without messages, and otherwise in the trailers: there those of overload
/// count, whatever classifies the heads.
///
/// The `Elapsed` of tower's timeouts is one of the other errors, because this crate does not know the type. Judge it yourself:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::concurrency::{LimitBounds, Outcome};
/// use damper::http::{ClientConcurrencyLayer, LoadSigns, ResponseHead};
/// # mod tower { pub mod timeout { pub mod error {
/// #     #[derive(Debug)] pub struct Elapsed;
/// # } } }
/// use tower::timeout::error::Elapsed;
///
/// type BoxError = Box<dyn std::error::Error + Send + Sync>;
///
/// let layer = ClientConcurrencyLayer::adaptive(LimitBounds::DEFAULT).classify(
///     |response: Result<&ResponseHead, &BoxError>| match response {
///         Err(error) if (**error).is::<Elapsed>() => Outcome::Overloaded,
///         other => LoadSigns::judge_boxed(other),
///     },
/// );
/// # let _ = layer;
/// # impl std::fmt::Display for Elapsed { fn fmt(&self, _: &mut std::fmt::Formatter) -> std::fmt::Result { Ok(()) } }
/// # impl std::error::Error for Elapsed {}
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LoadSigns;

impl LoadSigns {
    /// Returns the outcome of a call with this response, or the error in its place.
    ///
    /// For a closure of your own.
    #[inline]
    #[must_use]
    pub fn judge(response: Result<&ResponseHead<'_>, &(dyn Error + 'static)>) -> Outcome {
        Outcome::from(&Statuses::judge_with_grpc(response))
    }

    /// Returns the same as [`judge`](Self::judge), for a service whose errors are in boxes.
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

/// Returns the verdict on the gRPC status in trailers: on a status of overload, or ignored.
#[inline]
pub(super) fn verdict_on_trailers(trailers: &HeaderMap) -> Verdict {
    match grpc_ending(trailers) {
        Some(Ending::TimedOut) => Verdict::DeadlineExceeded,
        Some(Ending::Unavailable) => Verdict::Failure,
        _ => Verdict::Ignored,
    }
}

/// Returns whether these headers have the gRPC status `DEADLINE_EXCEEDED`.
#[inline]
pub(super) fn has_deadline_status(headers: &HeaderMap) -> bool {
    grpc_ending(headers) == Some(Ending::TimedOut)
}
