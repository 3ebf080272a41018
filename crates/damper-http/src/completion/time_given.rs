//! The time that a call was given, and whether it was enough.

use crate::Head;
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::gate::{Ending, Permit, Verdict};
use damper_core::internal::GENEROUS_TIME;

/// The time that a call had left when it got its permit.
///
/// An end by the deadline says something about the server only if that was enough. It is small, because each response carries it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeGiven {
    /// The deadline of the call, which never passes if it has none.
    deadline: Deadline,
    /// In nanoseconds; [`ENOUGH`] or 0 if that is decided already, or there was no deadline.
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
        Self { deadline: *deadline, left }
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

    /// Returns whether the time was enough, however long a call usually takes.
    #[inline]
    pub(super) fn is_enough_for_all(&self) -> bool {
        self.left == ENOUGH
    }

    /// Returns whether the call was given less time than a call of this permit's gate usually takes.
    #[cold]
    pub(super) fn is_short(&self, permit: &impl Permit) -> bool {
        let enough = || permit.usual_latency().unwrap_or(GENEROUS_TIME);
        self.left == 0 || (self.left != ENOUGH && u128::from(self.left) < enough().as_nanos())
    }

    /// Returns whether a failure says nothing about the server.
    ///
    /// That is so if the call was given too little time, and ended by its deadline. Any failure after the deadline came because the time was
    /// over.
    #[cold]
    pub(super) fn is_callers_fault(&self, permit: &impl Permit, verdict: &Verdict) -> bool {
        let is_by_deadline = match verdict.ending {
            Ending::TimedOut => true,
            Ending::Unavailable | Ending::BadGateway | Ending::Failed | Ending::Broken => self.is_over(),
            _ => false,
        };
        is_by_deadline && self.is_short(permit)
    }
}
