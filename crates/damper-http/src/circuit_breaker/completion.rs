//! When the verdict falls.

use super::WatchedBody;
use damper_core::breaker::{BreakerRef, Permit, Verdict};
use http::Response;
use http_body::Body;

/// When the verdict on a call falls whose answer has this body: [`HeadArrives`] or [`BodyEnds`].
pub trait Completion<R>: sealed::Sealed {
    /// The body that the caller gets.
    type Body<B: BreakerRef>;

    /// The head is there, and came to this verdict.
    #[doc(hidden)]
    fn conclude<B: BreakerRef>(answer: Response<R>, permit: Permit<B>, verdict: Verdict) -> Response<Self::Body<B>>;
}

mod sealed {
    /// There are two moments.
    pub trait Sealed {}

    impl Sealed for super::HeadArrives {}
    impl Sealed for super::BodyEnds {}
}

/// The verdict falls when the head of an answer is there. The caller gets the service's own bodies.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadArrives;

impl<R> Completion<R> for HeadArrives {
    type Body<B: BreakerRef> = R;

    #[inline]
    fn conclude<B: BreakerRef>(answer: Response<R>, permit: Permit<B>, verdict: Verdict) -> Response<R> {
        permit.record(verdict);
        answer
    }
}

/// The verdict falls when the body of an answer has ended, unless the head says already that it is a failure.
///
/// A probe asks only whether the service is back, so it counts as a success when the first data of its body arrives,
/// see [`WatchedBody`].
#[derive(Clone, Copy, Debug, Default)]
pub struct BodyEnds;

impl<R: Body> Completion<R> for BodyEnds {
    type Body<B: BreakerRef> = WatchedBody<R, B>;

    fn conclude<B: BreakerRef>(
        answer: Response<R>,
        permit: Permit<B>,
        verdict: Verdict,
    ) -> Response<WatchedBody<R, B>> {
        // Of a failure no body makes a success.
        answer.map(|body| match verdict {
            Verdict::Success => WatchedBody::watch(body, permit, verdict),
            _ => WatchedBody::settled(body, permit, verdict),
        })
    }
}
