//! Decides whether the caller or the server is at fault when a deadline passes.

use super::min_budget::MeasuredCall;
use super::{CallObserver, MinBudget};
use crate::Head;
use alloc::boxed::Box;
use core::fmt;
use damper_core::breaker::Verdict;
use damper_core::deadline::Deadline;

/// Reports the end of a call to another observer, such as a breaker's or a throttle's permit.
///
/// If a call fails because its deadline passed, the caller is at fault if it gave the call too little time, and otherwise the server.
///
/// [`CircuitBreakerLayer::min_budget`](crate::CircuitBreakerLayer::min_budget) and
/// [`ThrottleLayer::min_budget`](crate::ThrottleLayer::min_budget) set how much time is enough.
pub struct DeadlineObserver<O: CallObserver> {
    observer: O,
    /// The deadline of the call; one that never passes if the call has none.
    deadline: Deadline,
    /// Whether the caller gave the call too little time.
    is_short: bool,
    /// The measurement of the call, if its latency decides how much time is enough for later ones.
    ///
    /// In a box, because each word here is copied several times in the calls that nothing measures.
    measured: Option<Box<MeasuredCall>>,
}

impl<O: CallObserver> DeadlineObserver<O> {
    /// Observes the call of a request, which begins now.
    #[inline]
    pub(crate) fn new(observer: O, head: &Head<'_>, min_budget: &MinBudget) -> Self {
        let deadline = head.extensions.get::<Deadline>();
        let (min_budget, measured) = min_budget.of(head, deadline.is_some());
        match deadline {
            None => Self { observer, deadline: Deadline::NEVER, is_short: false, measured },
            Some(deadline) => {
                let left = deadline.remaining();
                Self { observer, deadline: *deadline, is_short: left.is_zero() || left < min_budget, measured }
            }
        }
    }

    /// Reports the end of a call that is measured, or was given too little time.
    #[inline(never)]
    fn end(self, verdict: Verdict) {
        let verdict = if self.is_short { without_the_callers_fault(verdict, self.deadline) } else { verdict };
        if let Some(measured) = self.measured {
            measured.ended(verdict);
        }
        self.observer.ended(verdict);
    }
}

/// Returns the verdict on the server for a call that was given too little time.
fn without_the_callers_fault(verdict: Verdict, deadline: Deadline) -> Verdict {
    let is_callers_fault = match verdict {
        Verdict::DeadlineExceeded => true,
        // Any failure after the deadline counts as caused by it.
        Verdict::Failure => deadline.is_expired(),
        _ => false,
    };
    if is_callers_fault { Verdict::Ignored } else { verdict }
}

impl<O: CallObserver> CallObserver for DeadlineObserver<O> {
    #[inline]
    fn ended(self, verdict: Verdict) {
        if self.is_short || self.measured.is_some() {
            self.end(verdict);
        } else {
            self.observer.ended(verdict);
        }
    }

    #[inline]
    fn first_data(&mut self) {
        self.observer.first_data();
    }

    /// Reports an abandoned call as a failure only once its deadline has passed.
    ///
    /// A caller that goes away earlier says nothing about the server. After the deadline the server took too long: the outer deadline layer
    /// drops the call then.
    #[cold]
    fn abandoned(self) {
        if !self.is_short && self.deadline.is_expired() {
            self.end(Verdict::DeadlineExceeded);
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
