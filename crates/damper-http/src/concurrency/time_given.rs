//! The time that a call was given, and whether it was enough.

use super::ConcurrencyPermit;
use crate::Head;
use core::time::Duration;
use damper_core::deadline::Deadline;

/// The time that a call had left when it got its permit.
///
/// An end by the deadline is a sign of overload only if that was enough.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeGiven {
    /// The deadline of the call, which never passes if it has none.
    deadline: Deadline,
    left: Duration,
    /// The time that is enough. `None`: the time that a call of this limit usually takes.
    min_budget: Option<Duration>,
}

impl TimeGiven {
    /// Reads what the deadline of this request leaves now.
    #[inline]
    pub(super) fn new(head: &Head<'_>, min_budget: Option<Duration>) -> Self {
        match head.extensions.get::<Deadline>() {
            None => Self { deadline: Deadline::NEVER, left: Duration::MAX, min_budget },
            Some(deadline) => Self { deadline: *deadline, left: deadline.remaining(), min_budget },
        }
    }

    /// Returns whether the deadline has passed.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.deadline.is_expired()
    }

    /// Returns whether a failure says nothing about the service: the call ended by its deadline, and was given too little time.
    ///
    /// Any failure after the deadline came because the time was over.
    #[cold]
    pub(super) fn is_callers_fault(&self, permit: &impl ConcurrencyPermit, is_by_deadline: bool) -> bool {
        let is_short = || {
            let enough = self.min_budget.or_else(|| permit.typical_latency()).unwrap_or_default();
            self.left.is_zero() || self.left < enough
        };
        (is_by_deadline || self.is_over()) && is_short()
    }
}
