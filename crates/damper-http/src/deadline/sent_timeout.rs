//! What a request tells the server of its deadline, for each attempt anew.

use super::{Protocol, TimeoutHeader};
use core::time::Duration;
use damper_core::deadline::Deadline;
use http::HeaderMap;

/// The timeout in a request's headers, and how to write it anew. It is in the extensions of requests that a client's layer of
/// deadlines has begun, for layers inside that send a request again.
#[derive(Clone, Debug)]
pub(crate) struct SentTimeout {
    pub(super) deadline: Deadline,
    pub(super) margin: Duration,
    pub(super) protocol: Protocol,
    pub(super) header: Option<TimeoutHeader>,
}

impl SentTimeout {
    /// Writes what is left now, less the margin; no more than the caller has left.
    pub(crate) fn write(&self, headers: &mut HeaderMap, most: Duration) {
        self.protocol.write_timeout(headers, self.header.as_ref(), self.left().min(most));
    }

    /// Returns whether no more than the margin is left, so that no attempt may begin.
    pub(crate) fn is_spent(&self) -> bool {
        self.left().is_zero()
    }

    fn left(&self) -> Duration {
        self.deadline.remaining().saturating_sub(self.margin)
    }
}
