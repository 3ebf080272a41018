//! A breaker's permit learns how its call ended.

use crate::Head;
use crate::completion::CallObserver;
use core::time::Duration;
use damper_core::breaker::{BreakerRef, Permit, Verdict};
use damper_core::deadline::Deadline;

/// The first data of a body make a probe a success, so that a stream that lasts for hours does not keep the breaker
/// half-open. If that closes the breaker, the end of the body counts as that of any other call of the closed state; if
/// more probes are needed, the end counts for nothing.
impl<B: BreakerRef> CallObserver for Permit<B> {
    #[inline]
    fn ended(self, verdict: Verdict) {
        self.record(verdict);
    }

    #[inline]
    fn first_data(&mut self) {
        self.probe_answered();
    }
}

/// A breaker's permit for a call of a layer, which knows whether the call was given too little time to blame the server
/// for its end.
#[derive(Debug)]
#[must_use = "a permit that is dropped at once records no outcome"]
pub struct CallPermit<B: BreakerRef> {
    permit: Permit<B>,
    /// The deadline of a call that was given too little time, else one that never passes.
    short: Deadline,
}

impl<B: BreakerRef> CallPermit<B> {
    /// Permits a call whose deadline is no excuse if it was given `min_budget` or more.
    #[inline]
    pub(super) fn new(permit: Permit<B>, min_budget: Duration, head: &Head<'_>) -> Self {
        let short = if min_budget.is_zero() { Deadline::NEVER } else { short(min_budget, head) };
        Self { permit, short }
    }
}

/// Returns the deadline of a request that is given less than `min_budget`, else one that never passes.
fn short(min_budget: Duration, head: &Head<'_>) -> Deadline {
    let deadline = head.extensions.get::<Deadline>().filter(|deadline| deadline.remaining() < min_budget);
    deadline.copied().unwrap_or(Deadline::NEVER)
}

impl<B: BreakerRef> CallObserver for CallPermit<B> {
    #[inline]
    fn ended(self, verdict: Verdict) {
        let is_callers_fault = !self.short.is_never()
            && match verdict {
                Verdict::DeadlineExceeded => true,
                // Whatever error it is: it came because the time was over.
                Verdict::Failure => self.short.is_expired(),
                _ => false,
            };
        self.permit.record(if is_callers_fault { Verdict::Ignored } else { verdict });
    }

    #[inline]
    fn first_data(&mut self) {
        self.permit.probe_answered();
    }

    /// A panic is a failure, however short the time was.
    #[inline]
    fn panicked(self) {
        self.permit.failure();
    }
}
