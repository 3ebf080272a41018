//! A throttle's permit learns how its call ended.

use crate::completion::CallObserver;
use damper_core::breaker::Verdict;
use damper_core::throttle::{ThrottlePermit, ThrottleRef};

/// A panic says nothing about the server.
impl<T: ThrottleRef> CallObserver for ThrottlePermit<T> {
    #[inline]
    fn ended(self, verdict: Verdict) {
        self.record(verdict);
    }

    fn panicked(self) {
        self.ignore();
    }
}
