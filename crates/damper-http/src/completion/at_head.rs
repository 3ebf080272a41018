//! A call ends with the head of its response.

use super::{ClassifyResponse, Completion, HeldPermit, ResponseHead, Statuses};
use crate::telemetry;
use core::fmt;
use core::ops::ControlFlow;
use damper_core::CallError;
use damper_core::gate::{Permit, Verdict};
use http::Response;

/// Ends a call when the head of its response arrives. The caller gets the service's own bodies.
///
/// It is not for gRPC, whose status follows the last message. Nearly every head is a `200 OK` there, so a failing service would count as
/// healthy. Use `damper::tonic::AtTrailers`. With the feature `tracing`, the first gRPC response in a process that is judged by its head
/// is logged as a warning, and each further one at the level debug.
#[derive(Clone, Copy, Default)]
pub struct AtHead<V = Statuses> {
    pub(super) classify: V,
}

impl AtHead {
    /// Creates a completion that judges by [`Statuses`].
    #[must_use]
    pub const fn new() -> Self {
        Self { classify: Statuses }
    }
}

impl<V> AtHead<V> {
    /// Sets how a call ended, by its response, or by the error in its place. Default: [`Statuses`].
    ///
    /// The closure names the service's error.
    #[must_use]
    pub fn classify<E, T, F>(self, classify: F) -> AtHead<F>
    where
        F: Fn(Result<&ResponseHead<'_>, &E>) -> T,
        T: Into<Verdict>,
    {
        AtHead { classify }
    }
}

impl<R, E, V: ClassifyResponse<E, Verdict>, N> Completion<R, E, N> for AtHead<V> {
    const FOLLOWS_BODY: bool = false;
    type Body<P: Permit> = R;
    type Error = CallError<E, N>;

    #[expect(clippy::inline_always, reason = "a response that another function looks at is copied once more")]
    #[inline(always)]
    fn head(&mut self, response: &Response<R>) -> ControlFlow<Verdict, Verdict> {
        telemetry::log_grpc_judged_by_http(response);
        ControlFlow::Break(self.classify.classify(Ok(&ResponseHead::of(response))))
    }

    #[inline]
    fn failed(&self, error: E) -> (Verdict, CallError<E, N>) {
        (self.classify.classify(Err(&error)), CallError::Failed(error))
    }

    #[inline]
    fn respond<P: Permit>(response: Response<R>, _: Option<(HeldPermit<P>, Self)>) -> Response<R> {
        response
    }

    #[inline]
    fn not_called(error: CallError<E, N>) -> CallError<E, N> {
        error
    }
}

impl<V> fmt::Debug for AtHead<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtHead").finish_non_exhaustive()
    }
}
