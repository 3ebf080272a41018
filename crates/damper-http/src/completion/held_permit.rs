//! The permit of a call that has not ended.

use super::{MinBudget, TimeGiven};
use crate::Head;
use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::gate::{Permit, Verdict};

/// The permit of a call that has not ended, which knows how much time the call was given.
///
/// If a call fails because its deadline passed, the caller is at fault if it gave the call too little time, and otherwise the server. Then
/// it is told to the permit as [`NotSent`](damper_core::gate::Ending::NotSent), which gates ignore.
///
/// [`CircuitBreakerLayer::min_budget`](crate::CircuitBreakerLayer::min_budget) and those of the other layers set how much time is enough.
pub struct HeldPermit<P> {
    permit: P,
    /// The time that the call was given, if it has a deadline or is measured.
    ///
    /// In a box, because each word here is copied several times, in calls without a deadline too.
    given: Option<Box<TimeGiven>>,
}

impl<P: Permit> HeldPermit<P> {
    /// Holds the permit of a request whose call begins now.
    #[inline]
    pub(crate) fn new(permit: P, head: &Head<'_>, min_budget: &MinBudget) -> Self {
        let given = match (P::LEARNS, P::HOLDS) {
            (true, _) => min_budget.given(head),
            (false, true) => TimeGiven::unjudged(head),
            (false, false) => None,
        };
        Self { permit, given }
    }

    /// Returns the deadline of the call, which never passes if it has none.
    #[inline]
    pub(crate) fn deadline(&self) -> Deadline {
        self.given.as_ref().map_or(Deadline::NEVER, |given| given.deadline())
    }

    /// Ends a call that its caller gave up while it waited for the server.
    ///
    /// A caller that goes away earlier than its deadline says nothing about the server. After it the server took too long: the outer
    /// deadline layer drops the call then.
    #[inline]
    pub(super) fn abandoned(self) {
        if let Some(given) = self.given
            && P::LEARNS
        {
            given.abandoned(self.permit);
        }
    }
}

impl<P: Permit> Permit for HeldPermit<P> {
    const LEARNS: bool = P::LEARNS;
    const HOLDS: bool = P::HOLDS;

    #[inline]
    fn answered(&mut self, verdict: &Verdict) {
        match &self.given {
            None => self.permit.answered(verdict),
            Some(given) => {
                let verdict = given.verdict_on_server(&self.permit, verdict);
                self.permit.answered(&verdict);
            }
        }
    }

    #[inline]
    fn first_data(&mut self) {
        self.permit.first_data();
    }

    #[inline]
    fn end(self, verdict: &Verdict) {
        match self.given {
            None => self.permit.end(verdict),
            Some(given) => given.end(self.permit, verdict),
        }
    }

    #[inline]
    fn panicked(self) {
        self.permit.panicked();
    }

    #[inline]
    fn usual_latency(&self) -> Option<Duration> {
        self.permit.usual_latency()
    }

    #[inline]
    fn was_asked(&self) -> bool {
        self.permit.was_asked()
    }
}

impl<P> fmt::Debug for HeldPermit<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldPermit").field("given", &self.given).finish_non_exhaustive()
    }
}
