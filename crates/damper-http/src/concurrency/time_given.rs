//! The time that a call was given, and whether it was enough.

use crate::Head;
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::gate::Permit;
use damper_core::internal::GENEROUS_TIME;

/// The time that a call had left when it got its permit.
///
/// An end by the deadline is a sign of overload only if that was enough. It is small, because each response carries it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeGiven {
    /// The deadline of the call, which never passes if it has none.
    deadline: Deadline,
    /// In nanoseconds; [`ENOUGH`] or 0 if a `min_budget` has decided already, or there was no deadline.
    left: u64,
}

/// More than any call takes.
const ENOUGH: u64 = u64::MAX;

impl TimeGiven {
    /// For a call without a deadline.
    pub(super) const UNKNOWN: Self = Self { deadline: Deadline::NEVER, left: ENOUGH };

    /// Reads the deadline of this request for a permit that learns nothing.
    #[inline]
    pub(super) fn unjudged(head: &Head<'_>) -> Self {
        match head.extensions.get::<Deadline>() {
            None => Self::UNKNOWN,
            Some(deadline) => Self { deadline: *deadline, left: ENOUGH },
        }
    }

    /// Reads what the deadline of this request leaves now.
    ///
    /// Without a `min_budget`, the time that a call of this limit usually takes is enough, and until that is known [`GENEROUS_TIME`].
    #[inline]
    pub(super) fn new(head: &Head<'_>, min_budget: Option<Duration>) -> Self {
        match head.extensions.get::<Deadline>() {
            None => Self::UNKNOWN,
            Some(deadline) => Self { deadline: *deadline, left: left_of(deadline, min_budget) },
        }
    }

    /// Returns the deadline of the call.
    #[inline]
    pub(super) fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Returns whether the deadline has passed.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.deadline.is_expired()
    }

    /// Returns whether a failure says nothing about the service.
    ///
    /// That is so if the call ended by its deadline and was given too little time.
    ///
    /// Any failure after the deadline came because the time was over.
    #[cold]
    pub(super) fn is_callers_fault(&self, permit: &impl Permit, is_by_deadline: bool) -> bool {
        let is_short = || {
            let enough = permit.usual_latency().unwrap_or(GENEROUS_TIME);
            self.left == 0 || u128::from(self.left) < enough.as_nanos()
        };
        (is_by_deadline || self.is_over()) && is_short()
    }
}

/// Returns what a deadline leaves, in nanoseconds.
#[cold]
fn left_of(deadline: &Deadline, min_budget: Option<Duration>) -> u64 {
    let left = deadline.remaining();
    match min_budget {
        Some(enough) if left < enough || left.is_zero() => 0,
        Some(_) => ENOUGH,
        None => u64::try_from(left.as_nanos()).unwrap_or(ENOUGH),
    }
}
