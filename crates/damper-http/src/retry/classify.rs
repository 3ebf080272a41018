//! Decides whether another attempt may help.

use crate::ResponseHead;
use damper_core::retry::Failure;

/// Decides whether another attempt may help after a response, or after the error in its place.
///
/// The result is `None` for a response that the caller gets, or else the kind of failure.
///
/// Every closure with these arguments implements it. The closure names the type of the service's error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which responses of a service to retry whose error is `{E}`",
    note = "for an error in a box: `.when(TransientFailures::judge_boxed)`, or for all layers `.map_err(damper::BoxedError::from)` \
    between them and the service"
)]
pub trait ClassifyFailure<E> {
    /// Returns the kind of failure, or `None` for a success.
    fn failure(&self, response: Result<&ResponseHead<'_>, &E>) -> Option<Failure>;
}

impl<E, F: Fn(Result<&ResponseHead<'_>, &E>) -> Option<Failure>> ClassifyFailure<E> for F {
    fn failure(&self, response: Result<&ResponseHead<'_>, &E>) -> Option<Failure> {
        self(response)
    }
}
