//! The permit of a call, until the response begins, and then until it ends.

use super::classify::is_overloaded;
use super::{ClassifyLoad, ConcurrencyPermit};
use crate::Head;
use crate::completion::{BodyEnd, CallObserver, ClassifyEnd, ResponseHead};
use core::fmt;
use damper_core::breaker::Verdict;
use damper_core::concurrency::Outcome;
use damper_core::deadline::Deadline;

/// The permit of a call whose response has not begun.
///
/// Dropped, it frees the slot. The call was given up then: if its deadline has passed, the service took too long.
pub(super) struct Held<P: ConcurrencyPermit, V> {
    // There until the response is.
    permit: Option<P>,
    classify: V,
    /// The deadline of the call, which never passes if it has none.
    deadline: Deadline,
}

impl<P: ConcurrencyPermit, V> Held<P, V> {
    #[inline]
    pub(super) fn new(permit: P, classify: V, head: &Head<'_>) -> Self {
        let deadline = head.extensions.get().copied().unwrap_or(Deadline::NEVER);
        Self { permit: Some(permit), classify, deadline }
    }

    /// Records what the response, or the error in its place, says. Returns what holds the slot from now on.
    #[inline]
    pub(super) fn judge<E>(mut self, response: Result<&ResponseHead<'_>, &E>) -> Option<PermitObserver<P>>
    where
        V: ClassifyLoad<E>,
    {
        let outcome = self.classify.outcome(response);
        let mut permit = self.permit.take()?;
        permit.record(outcome);
        Some(PermitObserver { permit, is_overload_recorded: outcome == Outcome::Overloaded })
    }
}

impl<P: ConcurrencyPermit, V> Drop for Held<P, V> {
    #[inline]
    fn drop(&mut self) {
        if let Some(permit) = &mut self.permit
            && self.deadline.is_expired()
            && !std::thread::panicking()
        {
            permit.record(Outcome::Overloaded);
        }
    }
}

impl<P: ConcurrencyPermit, V> fmt::Debug for Held<P, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// Holds the slot of a call while the body of its response streams.
///
/// A body that is dropped frees it, whatever the deadline: a stream that lasts until its deadline is no sign of overload.
pub struct PermitObserver<P> {
    permit: P,
    is_overload_recorded: bool,
}

impl<P: ConcurrencyPermit> CallObserver for PermitObserver<P> {
    /// Records overload, which a failure stands for here.
    #[inline]
    fn ended(mut self, verdict: Verdict) {
        if verdict == Verdict::Failure && !self.is_overload_recorded {
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

/// Judges trailers with a gRPC status of overload a failure.
///
/// Every other end of a body is ignored: the head was judged.
#[derive(Clone, Copy, Debug)]
pub struct OverloadInTrailers;

impl ClassifyEnd for OverloadInTrailers {
    #[inline]
    fn verdict(&self, end: BodyEnd<'_>) -> Verdict {
        match end {
            BodyEnd::Trailers(trailers) if is_overloaded(trailers) => Verdict::Failure,
            _ => Verdict::Ignored,
        }
    }
}
