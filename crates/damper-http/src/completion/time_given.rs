//! The time that a call was given, and whether it was enough.

use super::MeasuredCall;
use crate::Head;
use alloc::boxed::Box;
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::gate::{Ending, Permit, Verdict};
use damper_core::internal::GENEROUS_TIME;

/// The time that a call had left when it got its permit.
///
/// An end by the deadline says something about the server only if that was enough.
#[derive(Debug)]
pub(super) struct TimeGiven {
    /// The deadline of the call, which never passes if it has none.
    deadline: Deadline,
    /// In nanoseconds; [`ENOUGH`] or 0 if that is decided already, or there was no deadline.
    left: u64,
    /// The measurement of the call, if its latency decides how much time is enough for later ones.
    measured: Option<MeasuredCall>,
}

/// More than any call takes.
const ENOUGH: u64 = u64::MAX;

impl TimeGiven {
    /// Reads the deadline of this request for a permit that learns nothing.
    #[inline]
    pub(super) fn unjudged(head: &Head<'_>) -> Option<Box<Self>> {
        head.extensions.get().map(Self::enough_until)
    }

    #[cold]
    #[expect(
        clippy::unnecessary_box_returns,
        reason = "the allocation stays out of line, where calls without a deadline do not pass"
    )]
    fn enough_until(deadline: &Deadline) -> Box<Self> {
        Box::new(Self { deadline: *deadline, left: ENOUGH, measured: None })
    }

    /// Reads what a deadline leaves now.
    ///
    /// It is compared with `enough`, or later with the time that the [permit](Permit::usual_latency) knows.
    #[cold]
    pub(super) fn until(deadline: &Deadline, enough: Option<Duration>) -> Self {
        let left = deadline.remaining();
        let left = match enough {
            Some(enough) if left < enough || left.is_zero() => 0,
            Some(_) => ENOUGH,
            None => u64::try_from(left.as_nanos()).unwrap_or(ENOUGH),
        };
        Self { deadline: *deadline, left, measured: None }
    }

    /// Measures a call, which has a deadline or has none.
    #[cold]
    pub(super) fn measured(deadline: Option<&Deadline>, measured: MeasuredCall) -> Self {
        let enough = Some(measured.enough_time());
        let given = Self::until(deadline.unwrap_or(&Deadline::NEVER), enough);
        Self { measured: Some(measured), ..given }
    }

    /// Returns the deadline of the call.
    #[inline]
    pub(super) fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Returns whether the deadline has passed.
    fn is_over(&self) -> bool {
        self.deadline.is_expired()
    }

    /// Returns whether the call was given less time than a call of this permit's gate usually takes.
    fn is_short(&self, permit: &impl Permit) -> bool {
        let enough = || permit.usual_latency().unwrap_or(GENEROUS_TIME);
        self.left == 0 || (self.left != ENOUGH && u128::from(self.left) < enough().as_nanos())
    }

    /// Ends a call that its caller gave up, if that was because the server took too long.
    #[cold]
    pub(super) fn abandoned(self: Box<Self>, permit: impl Permit) {
        if self.is_over() && !self.is_short(&permit) {
            self.end(permit, &Verdict::of(Ending::TimedOut));
        }
    }

    /// Returns what the end of a call says about the server.
    #[cold]
    pub(super) fn verdict_on_server(&self, permit: &impl Permit, verdict: &Verdict) -> Verdict {
        if self.is_callers_fault(permit, verdict) { Verdict::of(Ending::NotSent) } else { *verdict }
    }

    /// Ends a call, and its measurement.
    #[cold]
    #[expect(clippy::boxed_local, reason = "a word is moved here, and not all that is known")]
    pub(super) fn end(self: Box<Self>, permit: impl Permit, verdict: &Verdict) {
        let verdict = self.verdict_on_server(&permit, verdict);
        if let Some(measured) = self.measured {
            measured.ended(&verdict);
        }
        permit.end(&verdict);
    }

    /// Returns whether a failure says nothing about the server.
    ///
    /// That is so if the call was given too little time, and ended by its deadline. Any failure after the deadline came because the time was
    /// over.
    fn is_callers_fault(&self, permit: &impl Permit, verdict: &Verdict) -> bool {
        let is_by_deadline = match verdict.ending {
            Ending::TimedOut => true,
            Ending::Unavailable | Ending::BadGateway | Ending::Failed | Ending::Broken => self.is_over(),
            _ => false,
        };
        is_by_deadline && self.is_short(permit)
    }
}
