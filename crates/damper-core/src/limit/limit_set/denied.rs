//! The refusal of a call on several limits.

use crate::limit::Denied;
use crate::quota::Quota;
use crate::time::{Frequency, Ticks};
use core::fmt;
use core::time::Duration;

/// The refusal of a call on several limits. The call took nothing from any of them.
///
/// If several limits refuse, it is the refusal by the limit with the longest wait. A limit that can never allow the
/// call has the longest wait of all. A [contended](Self::is_contended) refusal is by the limit whose tokens other calls
/// took.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LimitSetDenied {
    denied: Denied,
    index: usize,
    cause: Cause,
    is_contended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum Cause {
    /// The limit with this quota refused.
    Limit(Quota),
    /// There were not as many costs as limits.
    Costs { given: usize, limits: usize },
}

impl LimitSetDenied {
    pub(crate) fn new(denied: Denied, index: usize, quota: Quota) -> Self {
        Self { denied, index, cause: Cause::Limit(quota), is_contended: false }
    }

    /// Marks this refusal as [contended](Self::is_contended).
    pub(crate) fn contended(self) -> Self {
        Self { is_contended: true, ..self }
    }

    /// Creates the refusal of a call with `given` costs, which is not the number of limits.
    #[cold]
    pub(super) fn of_costs(given: usize, limits: usize) -> Self {
        let denied = Denied::counted_by(Frequency::from_hertz(1), 0, Ticks::ZERO, Ticks::ZERO);
        Self { denied, index: given.min(limits), cause: Cause::Costs { given, limits }, is_contended: false }
    }

    /// Returns whether no wait and no refund can make the call succeed.
    #[cfg(feature = "alloc")]
    pub(crate) fn is_final(&self) -> bool {
        matches!(self.cause, Cause::Costs { .. }) || self.denied.exceeds_burst()
    }

    /// Returns the index of the limit that the caller waits for, counted from 0.
    ///
    /// That is the refusing limit with the longest wait, or the first of several with equal waits. If the number of
    /// costs is not the number of limits, it is the smaller of the two numbers.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the quota of the limit at [`index`](Self::index).
    ///
    /// If the number of costs is not the number of limits, it is a quota of 0 tokens a second.
    pub fn quota(&self) -> Quota {
        match self.cause {
            Cause::Limit(quota) => quota,
            Cause::Costs { .. } => Quota::per_second(0),
        }
    }

    /// Returns the refusal by the limit at [`index`](Self::index).
    #[must_use]
    pub fn denied(&self) -> Denied {
        self.denied
    }

    /// Returns whether another call took the tokens after this call had looked at the limits.
    ///
    /// All limits had the tokens when this call looked. This call has given back what it had already taken.
    ///
    /// Such a refusal is rare. A later limit may refuse the other call too, which then gives its tokens back. So a
    /// retry at once may succeed.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.is_contended
    }

    /// Returns the wait after which all limits allow the same call, if no other call takes tokens first.
    ///
    /// The wait is never too short. It is `None` if no wait helps: the call asks for more than a burst, a quota never
    /// refills, or the number of costs is not the number of limits.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.denied.retry_after()
    }
}

impl fmt::Display for LimitSetDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::Limit(quota) => write!(f, "limit {} ({quota}): {}", self.index + 1, self.denied),
            Cause::Costs { given, limits } => {
                write!(f, "{given} costs for {limits} limits, there must be one for each")
            }
        }
    }
}

crate::internal::debug_by_display!(LimitSetDenied);

impl core::error::Error for LimitSetDenied {}
