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
    /// Waits until then at most.
    pub(in crate::concurrency) fn wait_until(&mut self, until: Expiry) {
        self.until = Some(self.until.map_or(until, |earlier| earlier.earlier(until)));
    }

    /// Begins the wait now, and returns its end; `None` if it has none.
    pub(in crate::concurrency) fn begin(&mut self, clock: &impl QueueClock) -> Option<Expiry> {
        if let Some(longest) = self.longest.take() {
            self.wait_until(Expiry::after(longest, clock));
        }
        self.until
    }

    /// Returns whether the end has passed at this tick.
    pub(in crate::concurrency) fn has_passed(&self, now: u64) -> bool {
        self.until.is_some_and(|until| until.has_passed(now))
    }

    /// Returns the time until the end of a wait that has begun.
    pub(in crate::concurrency) fn remaining(&self, clock: &impl QueueClock) -> Option<Duration> {
        self.until.map(|until| until.remaining(clock))
    }
}
