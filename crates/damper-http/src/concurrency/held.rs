//! The permit of a call, until the response begins, and then until it ends.

use super::TimeGiven;
use crate::Head;
use crate::completion::{BodyEnd, CallObserver, ClassifyEnd, ClassifyResponse, ResponseHead, grpc_ending};
use crate::timed_body::BodyLimits;
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;
use damper_core::breaker;
use damper_core::gate::{Ending, Permit, Verdict};
use http::{Response, StatusCode};

/// The permit of a call whose response has not begun.
///
/// Dropped, it frees the slot. The call was given up then: if its deadline has passed, and it was given enough time, the service took
/// too long.
pub struct Held<P: Permit, J> {
    /// There until the response is, unless the request is exempt.
    permit: Option<P>,
    judge: J,
    given: TimeGiven,
    stall_limit: Option<Duration>,
    /// What the head has said.
    verdict: Verdict,
}

impl<P: Permit, J> Held<P, J> {
    /// Holds the permit of a request from now on; none of an exempt one.
    #[inline]
    pub(super) fn new(
        permit: Option<P>,
        head: &Head<'_>,
        judge: J,
        min_budget: Option<Duration>,
        stall_limit: Option<Duration>,
    ) -> Self {
        let given = match &permit {
            None => TimeGiven::UNKNOWN,
            Some(_) if P::LEARNS => TimeGiven::new(head, min_budget),
            Some(_) => TimeGiven::unjudged(head),
        };
        Self { permit, judge, given, stall_limit, verdict: Verdict::of(Ending::Success) }
    }

    /// Tells the permit what the response, or the error in its place, says. An error ends the call.
    #[inline]
    pub(super) fn judge<R, E>(&mut self, result: &Result<Response<R>, E>)
    where
        J: ClassifyResponse<E>,
    {
        let Some(permit) = &mut self.permit else { return };
        if P::LEARNS {
            let (verdict, is_by_deadline) = match result {
                Ok(response) => {
                    let head = ResponseHead::of(response);
                    let verdict = self.judge.verdict(Ok(&head));
                    (verdict, verdict.ending.is_overload() && is_by_deadline(&head))
                }
                Err(error) => (self.judge.verdict(Err(error)), false),
            };
            self.verdict = if verdict.ending.is_overload() && self.given.is_callers_fault(permit, is_by_deadline) {
                Verdict::of(Ending::NotSent)
            } else {
                verdict
            };
            if result.is_ok() {
                permit.answered(&self.verdict);
            }
        }
        if result.is_err() {
            self.permit.take().end(&self.verdict);
        }
    }

    /// Returns what holds the slot while the body of the response streams; `None` if nothing does.
    #[inline]
    pub(super) fn into_observer(mut self) -> Option<PermitObserver<P>> {
        let permit = self.permit.take()?;
        Some(PermitObserver { permit, verdict: self.verdict, given: self.given, stall_limit: self.stall_limit })
    }
}

/// Whether a response says that the deadline of the call has passed.
#[cold]
fn is_by_deadline(head: &ResponseHead<'_>) -> bool {
    head.status == StatusCode::GATEWAY_TIMEOUT || grpc_ending(head.headers) == Some(Ending::TimedOut)
}

impl<P: Permit, J> Permit for Held<P, J> {
    const LEARNS: bool = P::LEARNS;
    const HOLDS: bool = P::HOLDS;

    #[inline]
    fn end(mut self, verdict: &Verdict) {
        self.permit.take().end(verdict);
    }

    #[inline]
    fn panicked(mut self) {
        self.permit.take().panicked();
    }
}

impl<P: Permit, J> Drop for Held<P, J> {
    #[inline]
    fn drop(&mut self) {
        if P::LEARNS
            && let Some(permit) = &self.permit
            && self.given.is_over()
            && !self.given.is_callers_fault(permit, true)
            && !std::thread::panicking()
        {
            self.permit.take().end(&Verdict::of(Ending::TimedOut));
        }
    }
}

impl<P: Permit, J> fmt::Debug for Held<P, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("given", &self.given).finish_non_exhaustive()
    }
}

/// Holds the slot of a call while the body of its response streams.
///
/// A body that is dropped frees it, whatever the deadline: a stream that lasts until its deadline is no sign of overload.
pub struct PermitObserver<P> {
    permit: P,
    /// What the head has said.
    verdict: Verdict,
    given: TimeGiven,
    stall_limit: Option<Duration>,
}

/// Returns the times after which the body of a call is dropped, and its slot is free.
#[inline]
pub(super) fn body_limits<P>(observer: Option<&PermitObserver<P>>) -> Option<BodyLimits> {
    observer.map(|observer| BodyLimits { deadline: observer.given.deadline(), stall: observer.stall_limit })
}

impl<P: Permit> PermitObserver<P> {
    /// Ends the call with an ending that its trailers tell.
    #[cold]
    fn ended_by_trailers(self, ending: Ending) {
        let is_callers_fault = self.given.is_callers_fault(&self.permit, ending == Ending::TimedOut);
        self.permit.end(&Verdict::of(if is_callers_fault { Ending::NotSent } else { ending }));
    }
}

impl<P: Permit> CallObserver for PermitObserver<P> {
    /// A `Failure` or `DeadlineExceeded` verdict means overload here. It counts after a head that was a success.
    #[inline]
    fn ended(self, verdict: breaker::Verdict) {
        if P::LEARNS && self.verdict.ending == Ending::Success {
            match verdict {
                breaker::Verdict::DeadlineExceeded => return self.ended_by_trailers(Ending::TimedOut),
                breaker::Verdict::Failure => return self.ended_by_trailers(Ending::Unavailable),
                _ => {}
            }
        }
        self.permit.end(&self.verdict);
    }

    fn panicked(self) {
        self.permit.panicked();
    }
}

impl<P> fmt::Debug for PermitObserver<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermitObserver").finish_non_exhaustive()
    }
}

/// Maps a gRPC status of overload in the trailers to `DeadlineExceeded` or `Failure`.
///
/// Every other end is `Ignored`, because the head was judged already. For a permit `P` that learns nothing, every end is.
pub struct OverloadInTrailers<P>(PhantomData<fn() -> P>);

impl<P> OverloadInTrailers<P> {
    pub(super) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<P: Permit> ClassifyEnd for OverloadInTrailers<P> {
    #[inline]
    fn verdict(&self, end: BodyEnd<'_>) -> breaker::Verdict {
        match end {
            BodyEnd::Trailers(trailers) if P::LEARNS => match grpc_ending(trailers) {
                Some(Ending::TimedOut) => breaker::Verdict::DeadlineExceeded,
                Some(Ending::Unavailable) => breaker::Verdict::Failure,
                _ => breaker::Verdict::Ignored,
            },
            _ => breaker::Verdict::Ignored,
        }
    }
}

impl<P> fmt::Debug for OverloadInTrailers<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OverloadInTrailers").finish_non_exhaustive()
    }
}
