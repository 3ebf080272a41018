//! What a response says about its server.

use crate::wire;
use damper_core::breaker::Verdict;
use http::{Extensions, HeaderMap, Response, StatusCode, Version};

/// Returns the verdict on a response, or on the error in its place.
///
/// Every closure with these arguments implements it. The closure names the type of the service's error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not classify responses of a service whose error is `{E}`",
    note = "a closure has the form `|response: Result<&damper::http::ResponseHead, &{E}>| -> damper::Verdict`"
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

/// Counts errors and responses with a status of 5xx as failures, and all other responses, 429 included, as successes.
///
/// A 5xx with a `Retry-After`, in seconds or as a date, keeps the breaker open for as long as that, read by
/// [`retry_after_in`](wire::retry_after_in), up to
/// [`max_retry_after`](damper_core::breaker::BreakerConfigBuilder::max_retry_after).
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerErrors;

impl<E> Classify<E> for ServerErrors {
    #[inline]
    fn verdict(&self, response: Result<&ResponseHead<'_>, &E>) -> Verdict {
        match response {
            Ok(head) if !head.status.is_server_error() => Verdict::Success,
            Ok(head) => failure(head),
            Err(_) => Verdict::Failure,
        }
    }
}

#[cold]
fn failure(head: &ResponseHead<'_>) -> Verdict {
    match (wire::retry_after_in(head.headers), head.status) {
        (Some(wait), _) => Verdict::RetryAfter(wait),
        (None, StatusCode::GATEWAY_TIMEOUT) => Verdict::DeadlineExceeded,
        (None, _) => Verdict::Failure,
    }
}

/// A response without its body: what [`Classify`] judges.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ResponseHead<'a> {
    /// The status.
    pub status: StatusCode,
    /// The version of HTTP.
    pub version: Version,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// What others added to the response.
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
