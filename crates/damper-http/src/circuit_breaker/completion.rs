//! When the verdict on a call is made.

use super::WatchedBody;
use damper_core::breaker::{BreakerRef, Permit, Verdict};
use http::Response;
use http_body::Body;

/// The point of a response at which the verdict on its call is made: [`AtHead`] or [`AtBodyEnd`].
pub trait Completion<R>: sealed::Sealed {
    /// The body that the caller gets.
    type Body<B: BreakerRef>;

    /// Handles the head of a response and the verdict on it.
    #[doc(hidden)]
    fn conclude<B: BreakerRef>(response: Response<R>, permit: Permit<B>, verdict: Verdict) -> Response<Self::Body<B>>;
}

mod sealed {
    /// There are only these two points.
    pub trait Sealed {}

    impl Sealed for super::AtHead {}
    impl Sealed for super::AtBodyEnd {}
}

/// The verdict is made when the head of a response arrives. The caller gets the service's own bodies.
#[derive(Clone, Copy, Debug, Default)]
pub struct AtHead;

impl<R> Completion<R> for AtHead {
    type Body<B: BreakerRef> = R;

    #[inline]
    fn conclude<B: BreakerRef>(response: Response<R>, permit: Permit<B>, verdict: Verdict) -> Response<R> {
        permit.record(verdict);
        response
    }
}

/// The verdict is made at the end of a response's body, unless the head shows a failure already.
///
/// A probe asks only whether the service is back, so it counts as a success when the first data of its body arrives,
/// see [`WatchedBody`].
#[derive(Clone, Copy, Debug, Default)]
pub struct AtBodyEnd;

impl<R: Body> Completion<R> for AtBodyEnd {
    type Body<B: BreakerRef> = WatchedBody<R, B>;

    fn conclude<B: BreakerRef>(
        response: Response<R>,
        permit: Permit<B>,
        verdict: Verdict,
    ) -> Response<WatchedBody<R, B>> {
        // A body cannot turn a failure into a success.
        response.map(|body| match verdict {
            Verdict::Success => WatchedBody::watch(body, permit, verdict),
            _ => WatchedBody::settled(body, permit, verdict),
        })
    }
}
