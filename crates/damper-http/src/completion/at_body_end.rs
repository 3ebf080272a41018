//! A call ends with the body of its response.

use super::{
    AtHead, BodyEnd, CallObserver, Classify, ClassifyEnd, Completion, ObservedBody, ResponseHead, ServerErrors,
};
use core::fmt;
use damper_core::CallError;
use damper_core::breaker::Verdict;
use http::Response;
use http_body::Body;

/// Ends a call with the body of its response, unless the head already shows a failure.
///
/// A body that fails after a 200 is a failure. A body that is dropped before its end has no verdict. Like [`AtHead`], it is not for gRPC:
/// use `damper::tonic::AtTrailers`.
#[derive(Clone, Copy, Default)]
pub struct AtBodyEnd<V = ServerErrors> {
    head: AtHead<V>,
}

impl AtBodyEnd {
    /// Creates a completion that judges heads by [`ServerErrors`].
    #[must_use]
    pub const fn new() -> Self {
        Self { head: AtHead::new() }
    }
}

impl<V> AtBodyEnd<V> {
    /// Sets the verdict on a response, or on the error in its place. Default: [`ServerErrors`].
    ///
    /// The closure names the service's error. The body decides only after a success.
    #[must_use]
    pub fn classify<E, F>(self, classify: F) -> AtBodyEnd<F>
    where
        F: Fn(Result<&ResponseHead<'_>, &E>) -> Verdict,
    {
        AtBodyEnd { head: AtHead { classify } }
    }
}

/// Keeps the verdicts on heads, and moves the end of the call to the end of the body.
impl<V> From<AtHead<V>> for AtBodyEnd<V> {
    fn from(head: AtHead<V>) -> Self {
        Self { head }
    }
}

impl<R: Body, E, V: Classify<E>, N> Completion<R, E, N> for AtBodyEnd<V> {
    type Body<O: CallObserver> = ObservedBody<R, O>;
    type Error = CallError<E, N>;

    fn verdict(&self, response: &Response<R>) -> Option<Verdict> {
        // A body cannot turn a failure into a success.
        Completion::<R, E, N>::verdict(&self.head, response).filter(|verdict| *verdict != Verdict::Success)
    }

    fn failed(&self, error: E) -> (Verdict, CallError<E, N>) {
        Completion::<R, E, N>::failed(&self.head, error)
    }

    fn respond<O: CallObserver>(self, response: Response<R>, observer: Option<O>) -> Response<ObservedBody<R, O>> {
        response.map(|body| ObservedBody::new(body, observer, BodyErrors))
    }

    fn not_called(&self, error: CallError<E, N>) -> CallError<E, N> {
        error
    }
}

impl<V> fmt::Debug for AtBodyEnd<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtBodyEnd").finish_non_exhaustive()
    }
}

/// Counts a body that ends with an error as a failure, and any other as a success.
#[derive(Clone, Copy, Debug, Default)]
pub struct BodyErrors;

impl ClassifyEnd for BodyErrors {
    fn verdict(&self, end: BodyEnd<'_>) -> Verdict {
        Verdict::failure_if(matches!(end, BodyEnd::Error))
    }
}
