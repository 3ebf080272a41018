//! What an answer says about its server.

use crate::breaker::Verdict;
use crate::http::ResponseHead;
use core::time::Duration;
use http::header::RETRY_AFTER;

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
/// A server that says with its 5xx by `Retry-After`, in seconds, how long it wants to be left alone, is: see
/// [`max_retry_after`](crate::breaker::BreakerConfigBuilder::max_retry_after).
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
    let seconds = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    seconds.map_or(Verdict::Failure, |seconds| Verdict::RetryAfter(Duration::from_secs(seconds)))
}
