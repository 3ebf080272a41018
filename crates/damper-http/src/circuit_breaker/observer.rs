//! What learns how a call ended: its permit, and the time that its caller gave it.

use crate::Head;
use crate::completion::CallObserver;
use core::fmt;
use core::time::Duration;
use damper_core::breaker::{BreakerRef, Permit, Verdict};
use damper_core::deadline::Deadline;

/// Reports the end of a call to its breaker. A failure by the call's deadline is the caller's fault if the caller gave it
/// less than [`min_budget`](super::CircuitBreakerLayer::min_budget), and the server's otherwise.
pub struct BreakerObserver<B: BreakerRef> {
    permit: Permit<B>,
    /// The deadline of the call, which never passes if it has none.
    deadline: Deadline,
    /// Whether the caller gave it too little time.
    is_short: bool,
}

impl<B: BreakerRef> BreakerObserver<B> {
    /// Observes the call of a request, which begins now.
    #[inline]
    pub(super) fn new(permit: Permit<B>, head: &Head<'_>, min_budget: Duration) -> Self {
        match head.extensions.get::<Deadline>() {
            None => Self { permit, deadline: Deadline::NEVER, is_short: false },
            Some(deadline) => {
                let left = deadline.remaining();
                Self { permit, deadline: *deadline, is_short: left.is_zero() || left < min_budget }
            }
        }
    }
}

/// Returns the verdict on the server of a call that was given too little time.
#[cold]
fn without_the_callers_fault(verdict: Verdict, deadline: Deadline) -> Verdict {
    let is_callers_fault = match verdict {
        Verdict::DeadlineExceeded => true,
        // Whatever failure it is: it came because the time was over.
        Verdict::Failure => deadline.is_expired(),
        _ => false,
    };
    if is_callers_fault { Verdict::Ignored } else { verdict }
}

impl<B: BreakerRef> CallObserver for BreakerObserver<B> {
    #[inline]
    fn ended(self, verdict: Verdict) {
        let verdict = if self.is_short { without_the_callers_fault(verdict, self.deadline) } else { verdict };
        self.permit.ended(verdict);
    }

    #[inline]
    fn first_data(&mut self) {
        self.permit.first_data();
    }

    /// A caller that goes away before the deadline says nothing about the server. Once the deadline has passed, the server
    /// took too long: the deadline layer outside drops the call then.
    #[cold]
    fn abandoned(self) {
        if !self.is_short && self.deadline.is_expired() {
            self.permit.ended(Verdict::DeadlineExceeded);
        }
    }

    fn panicked(self) {
        self.permit.panicked();
    }
}

impl<B: BreakerRef> fmt::Debug for BreakerObserver<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerObserver")
            .field("permit", &self.permit)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
