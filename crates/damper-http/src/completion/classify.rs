//! Verdicts on responses.

use super::Statuses;
#[cfg(doc)]
use crate::wire;
use alloc::boxed::Box;
use core::error::Error;
use damper_core::breaker::Verdict;
#[cfg(doc)]
use damper_core::is_refusal;
use http::{Extensions, HeaderMap, Response, StatusCode, Version};

/// Returns the verdict on a response, or on the error in its place.
///
/// Every closure with these arguments implements it. The closure names the type of the service's error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not classify responses of a service whose error is `{E}`",
    note = "a closure has the form `|response: Result<&damper::http::ResponseHead, &{E}>| -> damper::breaker::Verdict`",
    note = "`ServerErrors` takes errors that implement `Error`; for those in boxes: `.classify(ServerErrors::judge_boxed)`"
)]
pub trait Classify<E> {
    /// Returns the verdict.
    fn verdict(&self, response: Result<&ResponseHead<'_>, &E>) -> Verdict;
}

impl<E, F: Fn(Result<&ResponseHead<'_>, &E>) -> Verdict> Classify<E> for F {
    fn verdict(&self, response: Result<&ResponseHead<'_>, &E>) -> Verdict {
        self(response)
    }
}

/// Counts errors and 5xx responses as failures, and all other responses, including 429, as successes.
///
/// It ignores an error that is a [refusal](is_refusal) by damper: a limiter or a bulkhead behind the breaker refused the call, and the
/// server has not seen it. It also ignores a request that could not be made.
///
/// A 5xx with a `Retry-After`, in seconds or as a date, keeps the breaker open for that time, read by
/// [`retry_after_in`](wire::retry_after_in), up to [`max_retry_after`](damper_core::breaker::BreakerConfigBuilder::max_retry_after).
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerErrors;

impl ServerErrors {
    /// Returns the verdict on a response, or on the error in its place. Call it from your own closure.
    #[inline]
    #[must_use]
    pub fn judge(response: Result<&ResponseHead<'_>, &(dyn Error + 'static)>) -> Verdict {
        Verdict::from(&Statuses::judge(response))
    }

    /// Returns the same as [`judge`](Self::judge), for a service with boxed errors.
    ///
    /// The services of tower's timeouts have such errors.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::BreakerConfig;
    /// use damper::http::{CircuitBreakerLayer, ServerErrors};
    ///
    /// let layer = CircuitBreakerLayer::per_host(BreakerConfig::default()).classify(ServerErrors::judge_boxed);
    /// # let _ = layer;
    /// ```
    #[must_use]
    #[expect(clippy::borrowed_box, reason = "the error of a service is the box")]
    pub fn judge_boxed(response: Result<&ResponseHead<'_>, &Box<dyn Error + Send + Sync>>) -> Verdict {
        Self::judge(response.map_err(|error| &**error as _))
    }
}

/// Judges as [`ServerErrors::judge`] does. For boxed errors, use [`ServerErrors::judge_boxed`].
impl<E: Error + 'static> Classify<E> for ServerErrors {
    #[inline]
    fn verdict(&self, response: Result<&ResponseHead<'_>, &E>) -> Verdict {
        Self::judge(response.map_err(|error| error as _))
    }
}

/// A response without its body, as [`Classify`] judges it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ResponseHead<'a> {
    /// The status.
    pub status: StatusCode,
    /// The version of HTTP.
    pub version: Version,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The values that services added to the response.
    pub extensions: &'a Extensions,
}

impl<'a> ResponseHead<'a> {
    /// Borrows the head of a response.
    pub fn of<B>(response: &'a Response<B>) -> Self {
        Self {
            status: response.status(),
            version: response.version(),
            headers: response.headers(),
            extensions: response.extensions(),
        }
    }
}
