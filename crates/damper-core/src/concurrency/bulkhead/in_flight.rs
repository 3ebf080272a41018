//! A bulkhead in a set of limits.

use super::permit::sealed::{QueueClock, Slotted};
use super::{Bulkhead, BulkheadFull};
use crate::limit::{InFlight, LimitSetDenied, Sealed};
use core::fmt;
use core::time::Duration;

/// The refusal of a [`LimitSet`](crate::LimitSet) with a bulkhead or a queue: nothing was taken, and no slot.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::{Bulkhead, LimitSet, Quota};
///
/// let llm = LimitSet::new([Quota::per_minute(2)]).with_bulkhead(Bulkhead::new(1));
/// let call = llm.reserve([2])?;
/// // Both refuse. It names the limit, because that knows when to come back.
/// assert!(llm.reserve([1]).unwrap_err().retry_after().is_some());
/// call.settle([1]);
/// let _call = llm.reserve([1])?;
/// assert_eq!(llm.reserve([0]).unwrap_err().to_string(), "too many calls in flight, limit 1");
/// # }
/// # Ok::<(), damper::concurrency::LimitSetRefusal>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum LimitSetRefusal {
    /// A limit refused: the one with the longest wait.
    Limit(LimitSetDenied),
    /// The limits would have allowed the call, but all slots were taken.
    InFlight(BulkheadFull),
    /// Other calls wait in the queue of the set, and [`reserve`](crate::LimitSet::reserve) does not overtake them.
    #[cfg(feature = "alloc")]
    OthersWait,
    /// All places of the set's queue were taken.
    #[cfg(feature = "alloc")]
    QueueFull,
    /// The time to wait was over before the call was the first of the set's queue.
    #[cfg(feature = "alloc")]
    TimedOut,
}

impl LimitSetRefusal {
    /// Returns the shortest wait after which all limits allow the same call.
    ///
    /// `None` if no wait helps. A full bulkhead and a queue have no wait either, because the end of a call cannot be
    /// predicted.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Limit(denied) => denied.retry_after(),
            _ => None,
        }
    }
}

impl From<LimitSetDenied> for LimitSetRefusal {
    fn from(denied: LimitSetDenied) -> Self {
        Self::Limit(denied)
    }
}

impl fmt::Display for LimitSetRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(denied) => denied.fmt(f),
            Self::InFlight(full) => full.fmt(f),
            #[cfg(feature = "alloc")]
            Self::OthersWait => f.write_str("other calls wait for the limits"),
            #[cfg(feature = "alloc")]
            Self::QueueFull => f.write_str("too many calls wait for the limits, queue full"),
            #[cfg(feature = "alloc")]
            Self::TimedOut => f.write_str("other calls waited for the limits longer than this one could"),
        }
    }
}

crate::internal::debug_by_display!(LimitSetRefusal);

impl core::error::Error for LimitSetRefusal {}

impl<C: QueueClock> Sealed for Bulkhead<C> {}

/// At most as many calls in flight as its limit.
impl<C: QueueClock> InFlight for Bulkhead<C> {
    type Refusal = LimitSetRefusal;

    #[inline]
    fn refusal(&self) -> Option<LimitSetRefusal> {
        Bulkhead::refusal(self).map(LimitSetRefusal::InFlight)
    }

    #[inline]
    fn enter(&self) -> Result<(), LimitSetRefusal> {
        self.take().map(drop).map_err(LimitSetRefusal::InFlight)
    }

    #[inline]
    fn leave(&self) {
        self.release();
    }
}
