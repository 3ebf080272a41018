//! Why the queue of a set refused a call.

use core::fmt;

/// Why the queue of a [`LimitSet`](crate::LimitSet) refused a call: nothing was taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SetQueueRefusal {
    /// Other calls wait, and [`reserve`](crate::LimitSet::reserve) does not overtake them.
    OthersWait,
    /// All places of the queue are taken.
    Full,
    /// The time to wait was over before the call was the first of the queue.
    TimedOut,
}

impl fmt::Display for SetQueueRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OthersWait => "other calls wait for the limits",
            Self::Full => "too many calls wait for the limits, queue full",
            Self::TimedOut => "other calls waited for the limits longer than this one could",
        })
    }
}

crate::internal::debug_by_display!(SetQueueRefusal);

impl core::error::Error for SetQueueRefusal {}
