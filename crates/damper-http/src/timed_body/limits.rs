//! The times after which a body is dropped, and the error of a body whose client took no data.

use core::error::Error;
use core::fmt;
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

/// A response body was dropped because its client took no data for too long.
///
/// It is the last item of the body at a server with a [stall limit](crate::ConcurrencyLayer::stall_limit). It ends the connection, or the
/// stream of HTTP/2, so the client cannot take the body for a whole one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReaderStalled {
    limit: Duration,
}

impl ReaderStalled {
    /// Creates the error of a reader that took no data for so long.
    #[must_use]
    pub const fn new(limit: Duration) -> Self {
        Self { limit }
    }

    /// Returns the longest time for which a frame may wait for its reader.
    #[must_use]
    pub const fn limit(&self) -> Duration {
        self.limit
    }
}

impl fmt::Display for ReaderStalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client took no data for {:?}", self.limit)
    }
}

impl Error for ReaderStalled {}

damper_core::internal::debug_by_display!(ReaderStalled);
