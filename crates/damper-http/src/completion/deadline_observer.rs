//! Whose fault it is that a call did not end by its deadline.

use super::CallObserver;
use crate::Head;
use core::fmt;
use core::time::Duration;
use damper_core::breaker::Verdict;
use damper_core::deadline::Deadline;

/// Reports the end of a call to another observer: a breaker's permit, or a throttle's. A failure by the call's deadline is the
/// caller's fault if the caller gave it too little time, and the server's otherwise.
///
/// How much is enough, [`CircuitBreakerLayer::min_budget`](crate::CircuitBreakerLayer::min_budget) and
/// [`ThrottleLayer::min_budget`](crate::ThrottleLayer::min_budget) say.
pub struct DeadlineObserver<O: CallObserver> {
    observer: O,
    /// The deadline of the call, which never passes if it has none.
    deadline: Deadline,
    /// Whether the caller gave it too little time.
    is_short: bool,
}

impl<O: CallObserver> DeadlineObserver<O> {
    /// Observes the call of a request, which begins now.
    #[inline]
    pub(crate) fn new(observer: O, head: &Head<'_>, min_budget: Duration) -> Self {
        match head.extensions.get::<Deadline>() {
            None => Self { observer, deadline: Deadline::NEVER, is_short: false },
            Some(deadline) => {
                let left = deadline.remaining();
                Self { observer, deadline: *deadline, is_short: left.is_zero() || left < min_budget }
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

impl<O: CallObserver> CallObserver for DeadlineObserver<O> {
    #[inline]
    fn ended(self, verdict: Verdict) {
        let verdict = if self.is_short { without_the_callers_fault(verdict, self.deadline) } else { verdict };
        self.observer.ended(verdict);
    }

    #[inline]
    fn first_data(&mut self) {
        self.observer.first_data();
    }

    /// A caller that goes away before the deadline says nothing about the server. Once the deadline has passed, the server
    /// took too long: the deadline layer outside drops the call then.
    #[cold]
    fn abandoned(self) {
        if !self.is_short && self.deadline.is_expired() {
            self.observer.ended(Verdict::DeadlineExceeded);
        }
    }

    fn panicked(self) {
        self.observer.panicked();
    }
}

impl<O: CallObserver + fmt::Debug> fmt::Debug for DeadlineObserver<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineObserver")
            .field("observer", &self.observer)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
