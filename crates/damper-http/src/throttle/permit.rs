//! A throttle's permit learns how its call ended.

use crate::completion::CallObserver;
use core::fmt;
use damper_core::breaker::Verdict;
use damper_core::throttle::{ThrottlePermit, ThrottleRef};

/// Reports the end of a call to a throttle: whether the server accepted the call.
///
/// The first data of a body show that it did. So a stream is accepted then, and its end counts for nothing, whether it is dropped or
/// lasts until its deadline. A panic says nothing about the server.
pub struct ThrottleObserver<T: ThrottleRef> {
    // There until the outcome is recorded.
    permit: Option<ThrottlePermit<T>>,
}

impl<T: ThrottleRef> ThrottleObserver<T> {
    pub(super) fn new(permit: ThrottlePermit<T>) -> Self {
        Self { permit: Some(permit) }
    }
}

impl<T: ThrottleRef> CallObserver for ThrottleObserver<T> {
    #[inline]
    fn ended(self, verdict: Verdict) {
        if let Some(permit) = self.permit {
            permit.record(verdict);
        }
    }

    #[inline]
    fn first_data(&mut self) {
        if let Some(permit) = self.permit.take() {
            permit.record(Verdict::Success);
        }
    }

    fn panicked(self) {
        if let Some(permit) = self.permit {
            permit.ignore();
        }
    }
}

impl<T: ThrottleRef> fmt::Debug for ThrottleObserver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottleObserver").field("has_recorded", &self.permit.is_none()).finish_non_exhaustive()
    }
}
