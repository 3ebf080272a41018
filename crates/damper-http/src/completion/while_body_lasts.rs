//! A call is held while the body of its response lasts, and judged by the head.

use super::{BodyEnd, ClassifyResponse, Completion, EveryStatus, HeldPermit, ObservedBody, ResponseHead, statuses};
use alloc::boxed::Box;
use core::fmt;
use core::ops::ControlFlow;
use damper_core::gate::{Ending, Permit, Verdict};
use damper_core::{CallError, Reads};
use http::Response;
use http_body::Body;

/// Ends a call with the body of its response, and tells what the head says at once.
///
/// Limits on the calls in flight have it: a slot is held until the response has ended, and a latency is measured until it begins. A stream that
/// lasts until its deadline is no sign of overload. After a success, a gRPC status of overload in trailers is told too.
#[derive(Clone)]
pub struct WhileBodyLasts<V = EveryStatus> {
    classify: V,
    /// The verdict of the head; `None` is a success. In a box, because it is copied with each response.
    told: Option<Box<Verdict>>,
}

impl WhileBodyLasts {
    /// Creates a completion that judges heads by [`EveryStatus`].
    #[must_use]
    pub const fn new() -> Self {
        Self::by(EveryStatus)
    }
}

impl<V> WhileBodyLasts<V> {
    /// Creates a completion that judges heads, and the errors in their place, by `classify`.
    #[must_use]
    pub const fn by(classify: V) -> Self {
        Self { classify, told: None }
    }
}

impl<R: Body, E, V: ClassifyResponse<E, Verdict>, N> Completion<R, E, N> for WhileBodyLasts<V> {
    const FOLLOWS_BODY: bool = true;
    type Body<P: Permit> = ObservedBody<R, P, OverloadInTrailers>;
    type Error = CallError<E, N>;

    #[inline]
    fn head(&mut self, response: &Response<R>) -> ControlFlow<Verdict, Verdict> {
        let verdict = self.classify.classify(Ok(&ResponseHead::of(response)));
        if verdict.ending != Ending::Success {
            self.told = Some(Box::new(verdict));
        }
        ControlFlow::Continue(verdict)
    }

    #[inline]
    fn failed(&self, error: E) -> (Verdict, CallError<E, N>) {
        (self.classify.classify(Err(&error)), CallError::Failed(error))
    }

    #[inline]
    fn respond<P: Permit>(
        response: Response<R>,
        pending: Option<(HeldPermit<P>, Self)>,
    ) -> Response<ObservedBody<R, P, OverloadInTrailers>> {
        response.map(|body| {
            let pending = pending.map(|(permit, Self { told, .. })| (permit, OverloadInTrailers { told }));
            ObservedBody::new(body, pending).without_timeout()
        })
    }

    #[inline]
    fn not_called(error: CallError<E, N>) -> CallError<E, N> {
        error
    }
}

impl<V> fmt::Debug for WhileBodyLasts<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WhileBodyLasts").finish_non_exhaustive()
    }
}

/// Takes a gRPC status of overload in the trailers as the end of a call whose head was a success.
///
/// Otherwise the head decides.
#[derive(Debug)]
pub struct OverloadInTrailers {
    /// The verdict of the head; `None` is a success.
    told: Option<Box<Verdict>>,
}

impl Reads<BodyEnd<'_>, Verdict> for OverloadInTrailers {
    #[inline]
    fn read_from(&self, end: &BodyEnd<'_>) -> Verdict {
        match (&self.told, end) {
            (Some(told), _) => **told,
            (None, BodyEnd::Trailers(trailers)) => match statuses::grpc_ending(trailers) {
                Some(ending) if ending.is_overload() => Verdict::of(ending),
                _ => Verdict::of(Ending::Success),
            },
            (None, _) => Verdict::of(Ending::Success),
        }
    }
}
