//! What an answer says about its server.

use crate::ResponseHead;
use crate::wire;
use damper_core::breaker::Verdict;

/// Comes to a verdict on an answer, or on the error that there is in its place.
///
/// Every closure with these arguments is one; it names the error's type, which the service has.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not classify answers of a service whose error is `{E}`",
    note = "a closure has the form `|answer: Result<&damper::http::ResponseHead, &{E}>| -> damper::Verdict`"
)]
pub trait Classify<E> {
    /// The verdict.
    fn verdict(&self, answer: Result<&ResponseHead<'_>, &E>) -> Verdict;
}

impl<E, F: Fn(Result<&ResponseHead<'_>, &E>) -> Verdict> Classify<E> for F {
    fn verdict(&self, answer: Result<&ResponseHead<'_>, &E>) -> Verdict {
        self(answer)
    }
}

/// Errors, and answers with a status of 5xx, are failures; every other answer is a success, 429 included.
///
/// A 5xx with a `Retry-After`, in seconds or as a date, keeps the breaker open for as long as that, read by
/// [`retry_after_in`](wire::retry_after_in), up to
/// [`max_retry_after`](damper_core::breaker::BreakerConfigBuilder::max_retry_after).
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerErrors;

impl<E> Classify<E> for ServerErrors {
    #[inline]
    fn verdict(&self, answer: Result<&ResponseHead<'_>, &E>) -> Verdict {
        match answer {
            Ok(head) if !head.status.is_server_error() => Verdict::Success,
            Ok(head) => failure(head),
            Err(_) => Verdict::Failure,
        }
    }
}

#[cold]
fn failure(head: &ResponseHead<'_>) -> Verdict {
    wire::retry_after_in(head.headers).map_or(Verdict::Failure, Verdict::RetryAfter)
}
