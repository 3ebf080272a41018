//! The times after which a body is dropped.

use core::time::Duration;
use damper_core::deadline::Deadline;

/// The stall limit of [`server_stack`](crate::server_stack): 30 seconds.
///
/// For so long may a frame of a response wait until its client takes it. See
/// [`ConcurrencyLayer::stall_limit`](crate::ConcurrencyLayer::stall_limit).
pub const STALL_LIMIT: Duration = Duration::from_secs(30);

/// The times after which a timer drops a body.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// When the call has to be over; never if it has no deadline.
    pub deadline: Deadline,
    /// The longest time for which a frame may wait for its reader, if there is one.
    pub stall: Option<Duration>,
}

impl BodyLimits {
    /// Returns whether no timer is needed.
    #[inline]
    pub(super) fn is_none(&self) -> bool {
        self.deadline.is_never() && self.stall.is_none()
    }
}
