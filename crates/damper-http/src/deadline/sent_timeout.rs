//! The timeout that a request sends to the server, updated for each attempt.

use super::{Protocol, TimeoutHeader};
use core::time::Duration;
use damper_core::deadline::Deadline;
use http::HeaderMap;

/// The timeout in a request's headers, which can be updated.
///
/// A client's layer of deadlines puts it into the extensions of a request, for inner layers that send the request again.
#[derive(Clone, Debug)]
pub(crate) struct SentTimeout {
    pub(super) deadline: Deadline,
    pub(super) margin: Duration,
    pub(super) protocol: Protocol,
    pub(super) header: Option<TimeoutHeader>,
}

impl SentTimeout {
    /// Writes the time left now minus the margin, but at most `most`, the caller's time left.
    pub(crate) fn write(&self, headers: &mut HeaderMap, most: Duration) {
        self.protocol.write_timeout(headers, self.header.as_ref(), self.left().min(most));
    }

    /// Returns whether no more than the margin is left, so that no attempt may begin.
    pub(crate) fn is_spent(&self) -> bool {
        self.left().is_zero()
    }

    /// Returns the time left now minus the margin.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.remaining().saturating_sub(self.margin)
    }
}
