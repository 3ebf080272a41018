//! The permit of a call, until the response begins, and then until it ends.

use super::classify::{has_deadline_status, verdict_on_trailers};
use super::{ClassifyLoad, ConcurrencyPermit, Side, TimeGiven};
use crate::Head;
use crate::completion::{BodyEnd, CallObserver, ClassifyEnd, ResponseHead};
use crate::timed_body::BodyLimits;
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;
use damper_core::breaker::Verdict;
use damper_core::concurrency::Outcome;
use http::StatusCode;

/// The permit of a call whose response has not begun.
///
/// Dropped, it frees the slot. The call was given up then: if its deadline has passed, and it was given enough time, the service took
/// too long.
pub(super) struct Held<P: ConcurrencyPermit, V> {
    // There until the response is.
    permit: Option<P>,
    classify: V,
    given: TimeGiven,
    stall_limit: Option<Duration>,
}

impl<P: ConcurrencyPermit, V> Held<P, V> {
    /// Holds the permit of a request of this side from now on.
    #[inline]
    pub(super) fn new<Y>(permit: P, head: &Head<'_>, side: &Y) -> Self
    where
        Y: Side<Classify = V>,
        V: Clone,
    {
        let given = if permit.learns() { TimeGiven::new(head, side.min_budget()) } else { TimeGiven::unjudged(head) };
        Self { permit: Some(permit), classify: side.classify().clone(), given, stall_limit: side.stall_limit() }
    }

    /// Records what the response, or the error in its place, says. Returns what holds the slot from now on.
    #[inline]
    pub(super) fn judge<E>(mut self, response: Result<&ResponseHead<'_>, &E>) -> Option<PermitObserver<P>>
    where
        V: ClassifyLoad<E>,
    {
        let mut permit = self.permit.take()?;
        let (given, stall_limit) = (self.given, self.stall_limit);
        if !permit.learns() {
            return Some(PermitObserver { permit, is_overload_recorded: true, given, stall_limit });
        }
        let outcome = self.classify.outcome(response);
        let is_overload = outcome == Outcome::Overloaded;
        if is_overload && self.given.is_callers_fault(&permit, response.is_ok_and(is_by_deadline)) {
            permit.record(Outcome::Ignored);
        } else {
            permit.record(outcome);
        }
        Some(PermitObserver { permit, is_overload_recorded: is_overload, given, stall_limit })
    }
}

/// Whether a response says that the deadline of the call has passed.
fn is_by_deadline(head: &ResponseHead<'_>) -> bool {
    head.status == StatusCode::GATEWAY_TIMEOUT || has_deadline_status(head.headers)
}

impl<P: ConcurrencyPermit, V> Drop for Held<P, V> {
    #[inline]
    fn drop(&mut self) {
        if let Some(permit) = &mut self.permit
            && permit.learns()
            && self.given.is_over()
            && !self.given.is_callers_fault(permit, true)
            && !std::thread::panicking()
        {
            permit.record(Outcome::Overloaded);
        }
    }
}

impl<P: ConcurrencyPermit, V> fmt::Debug for Held<P, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("given", &self.given).finish_non_exhaustive()
    }
}

/// Holds the slot of a call while the body of its response streams.
///
/// A body that is dropped frees it, whatever the deadline: a stream that lasts until its deadline is no sign of overload.
pub struct PermitObserver<P> {
    permit: P,
    is_overload_recorded: bool,
    given: TimeGiven,
    stall_limit: Option<Duration>,
}

impl<P> PermitObserver<P> {
    /// Returns the times after which the body of the call is dropped, and its slot is free.
    #[inline]
    pub(super) fn body_limits(&self) -> BodyLimits {
        BodyLimits { deadline: self.given.deadline(), stall: self.stall_limit }
    }
}

impl<P: ConcurrencyPermit> CallObserver for PermitObserver<P> {
    /// A `Failure` or `DeadlineExceeded` verdict means overload here.
    #[inline]
    fn ended(mut self, verdict: Verdict) {
        let is_by_deadline = verdict == Verdict::DeadlineExceeded;
        if self.permit.learns()
            && (is_by_deadline || verdict == Verdict::Failure)
            && !self.is_overload_recorded
            && !self.given.is_callers_fault(&self.permit, is_by_deadline)
        {
            self.permit.record(Outcome::Overloaded);
        }
    }

    /// Frees the slot.
    fn panicked(self) {}
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

impl<P: ConcurrencyPermit> ClassifyEnd for OverloadInTrailers<P> {
    #[inline]
    fn verdict(&self, end: BodyEnd<'_>) -> Verdict {
        match end {
            BodyEnd::Trailers(trailers) if P::LEARNS => verdict_on_trailers(trailers),
            _ => Verdict::Ignored,
        }
    }
}

impl<P> fmt::Debug for OverloadInTrailers<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OverloadInTrailers").finish_non_exhaustive()
    }
}
