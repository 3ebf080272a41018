//! A call ends with the head of its response.

use super::{CallObserver, Classify, Completion, ResponseHead, ServerErrors};
use crate::Rejections;
use crate::telemetry;
use core::fmt;
use damper_core::CallError;
use damper_core::breaker::Verdict;
use http::Response;

/// Ends a call when the head of its response arrives. The caller gets the service's own bodies.
///
/// It is not for gRPC, whose status follows the last message. Nearly every head is a `200 OK` there, so a failing service would count as
/// healthy. Use `damper::tonic::AtTrailers`. With the feature `tracing`, the first gRPC response in a process that is judged by its head
/// is logged as a warning, and each further one at the level debug.
#[derive(Clone, Copy, Default)]
pub struct AtHead<V = ServerErrors> {
    pub(super) classify: V,
}

impl AtHead {
    /// Creates a completion that judges by [`ServerErrors`].
    #[must_use]
    pub const fn new() -> Self {
        Self { classify: ServerErrors }
    }
}

impl AtHead<Rejections> {
    /// Creates a completion that judges by [`Rejections`], as a [`ThrottleLayer`](crate::ThrottleLayer) does.
    #[must_use]
    pub const fn rejections() -> Self {
        Self { classify: Rejections }
    }
}

impl<V> AtHead<V> {
    /// Sets the verdict on a response, or on the error in its place. Default: [`ServerErrors`].
    ///
    /// The closure names the service's error.
    #[must_use]
    pub fn classify<E, F>(self, classify: F) -> AtHead<F>
    where
        F: Fn(Result<&ResponseHead<'_>, &E>) -> Verdict,
    {
        AtHead { classify }
    }
}

impl<R, E, V: Classify<E>, N> Completion<R, E, N> for AtHead<V> {
    type Body<O: CallObserver> = R;
    type Error = CallError<E, N>;

    #[inline]
    fn verdict(&self, response: &Response<R>) -> Option<Verdict> {
        telemetry::log_grpc_judged_by_http(response);
        Some(self.classify.verdict(Ok(&ResponseHead::of(response))))
    }

    #[inline]
    fn failed(&self, error: E) -> (Verdict, CallError<E, N>) {
        (self.classify.verdict(Err(&error)), CallError::Failed(error))
    }

    #[inline]
    fn respond<O: CallObserver>(self, response: Response<R>, _: Option<O>) -> Response<R> {
        response
    }

    #[inline]
    fn not_called(&self, error: CallError<E, N>) -> CallError<E, N> {
        error
    }
}

impl<V> fmt::Debug for AtHead<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtHead").finish_non_exhaustive()
    }
}
