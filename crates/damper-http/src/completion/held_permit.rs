//! The permit of a call that has not ended.

use super::{MeasuredCall, MinBudget, TimeGiven};
use crate::Head;
use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::gate::{Ending, Permit, Standing, Verdict};

/// The permit of a call that has not ended, which knows how much time the call was given.
///
/// If a call fails because its deadline passed, the caller is at fault if it gave the call too little time, and otherwise the server. Then it is
/// told to the permit as [`NotSent`](Ending::NotSent), which gates ignore.
///
/// [`CircuitBreakerLayer::min_budget`](crate::CircuitBreakerLayer::min_budget) and those of the other layers set how much time is enough.
pub struct HeldPermit<P> {
    permit: P,
    given: TimeGiven,
    /// The measurement of the call, if its latency decides how much time is enough for later ones.
    ///
    /// In a box, because each word here is copied several times in the calls that nothing measures.
    measured: Option<Box<MeasuredCall>>,
}

impl<P: Permit> HeldPermit<P> {
    /// Holds the permit of a request whose call begins now.
    #[inline]
    pub(crate) fn new(permit: P, head: &Head<'_>, min_budget: &MinBudget) -> Self {
        if !P::LEARNS {
            let given = if P::HOLDS { TimeGiven::unjudged(head) } else { TimeGiven::UNKNOWN };
            return Self { permit, given, measured: None };
        }
        let (given, measured) = min_budget.given(head);
        Self { permit, given, measured }
    }

    /// Returns the deadline of the call, which never passes if it has none.
    #[inline]
    pub(crate) fn deadline(&self) -> Deadline {
        self.given.deadline()
    }

    /// Ends a call that its caller gave up while it waited for the server.
    ///
    /// A caller that goes away earlier than its deadline says nothing about the server. After it the server took too long: the outer
    /// deadline layer drops the call then.
    #[inline]
    pub(super) fn abandoned(self) {
        if P::LEARNS && self.given.is_over() {
            self.out_of_time();
        }
    }

    #[cold]
    fn out_of_time(self) {
        if !self.given.is_short(&self.permit) {
            self.end(&Verdict::of(Ending::TimedOut));
        }
    }

    /// Whether what is told has to be looked at twice.
    #[inline]
    fn is_plain(&self) -> bool {
        self.measured.is_none() && self.given.is_enough_for_all()
    }

    /// Returns what the end of a call that may have been given too little time says about the server.
    #[inline(never)]
    fn without_the_callers_fault(&self, verdict: &Verdict) -> Verdict {
        if self.given.is_callers_fault(&self.permit, verdict) { Verdict::of(Ending::NotSent) } else { *verdict }
    }

    /// Ends a call that is measured, or may have been given too little time.
    #[inline(never)]
    fn end_with_care(self, verdict: &Verdict) {
        let verdict = self.without_the_callers_fault(verdict);
        if let Some(measured) = self.measured {
            measured.ended(&verdict);
        }
        self.permit.end(&verdict);
    }
}

impl<P: Permit> Permit for HeldPermit<P> {
    const LEARNS: bool = P::LEARNS;
    const HOLDS: bool = P::HOLDS;

    #[inline]
    fn answered(&mut self, verdict: &Verdict) {
        if self.is_plain() {
            self.permit.answered(verdict);
        } else {
            let verdict = self.without_the_callers_fault(verdict);
            self.permit.answered(&verdict);
        }
    }

    #[inline]
    fn first_data(&mut self) {
        self.permit.first_data();
    }

    #[inline]
    fn end(self, verdict: &Verdict) {
        if self.is_plain() { self.permit.end(verdict) } else { self.end_with_care(verdict) }
    }

    #[inline]
    fn panicked(self) {
        self.permit.panicked();
    }

    #[inline]
    fn standing(&self) -> Option<Standing> {
        self.permit.standing()
    }

    #[inline]
    fn usual_latency(&self) -> Option<Duration> {
        self.permit.usual_latency()
    }
}

impl<P> fmt::Debug for HeldPermit<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldPermit").field("given", &self.given).finish_non_exhaustive()
    }
}
