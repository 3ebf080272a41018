//! The longest wait of a call.

use super::permit::sealed::QueueClock;
use crate::concurrency::queue::Expiry;
use core::time::Duration;

/// The longest wait of a call: a time from its arrival in the queue, an instant, both or neither.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    pub(in crate::concurrency) longest: Option<Duration>,
    pub(in crate::concurrency) until: Option<Expiry>,
}

impl Patience {
    /// Returns the end of a wait that begins now; `None` if it has none.
    pub(in crate::concurrency) fn expiry(self, clock: &impl QueueClock) -> Option<Expiry> {
        let longest = self.longest.map(|longest| Expiry::after(longest, clock));
        match (longest, self.until) {
            (Some(longest), Some(until)) => Some(longest.earlier(until)),
            (longest, until) => longest.or(until),
        }
    }
}
