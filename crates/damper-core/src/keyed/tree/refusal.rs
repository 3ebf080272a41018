//! The refusal of a call that waited for a tree.

use super::TreeDenied;
use core::fmt;
use core::time::Duration;

/// The refusal of a call that waited, or was to wait, for the limits of a [`QuotaTree`](crate::QuotaTree).
///
/// The call took nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TreeRefusal {
    /// A limit refused the call, because the cost exceeds the burst or the call's time to wait was over.
    Denied(TreeDenied),
    /// All [places](super::QuotaTreeBuilder::queue) for calls that wait were taken.
    QueueFull,
    /// The line at one bucket was full: its calls had taken their [share](super::QuotaTreeBuilder::queue) of the
    /// places.
    LineFull {
        /// The name of the bucket's level.
        level: &'static str,
        /// The name of the bucket's dimension.
        dimension: &'static str,
    },
    /// The call's time to wait was over while older calls waited for a bucket that this call takes from.
    TimedOut,
}

impl TreeRefusal {
    /// Returns the shortest wait after which the limits allow the call.
    ///
    /// It is `None` if no limit refused the call, or if no wait helps.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Denied(denied) => denied.retry_after(),
            Self::QueueFull | Self::LineFull { .. } | Self::TimedOut => None,
        }
    }
}

impl From<TreeDenied> for TreeRefusal {
    fn from(denied: TreeDenied) -> Self {
        Self::Denied(denied)
    }
}

impl fmt::Display for TreeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(denied) => denied.fmt(f),
            Self::QueueFull => f.write_str("too many calls wait for the limits, queue full"),
            Self::LineFull { level, dimension } => {
                write!(f, "too many calls wait for the {dimension} of this {level}, line full")
            }
            Self::TimedOut => f.write_str("other calls waited for the limits longer than this one could"),
        }
    }
}

crate::internal::debug_by_display!(TreeRefusal);

impl core::error::Error for TreeRefusal {}
