//! Whose fault a deadline is that passed.

use crate::Head;
use crate::completion::{CallObserver, Completion};
use core::time::Duration;
use damper_core::breaker::{CallError, Verdict};
use damper_core::deadline::Deadline;
use http::Response;

/// A completion that does not blame the server for a deadline that the caller set too short. Made by
/// [`CircuitBreakerLayer::min_budget`](super::CircuitBreakerLayer::min_budget).
#[derive(Clone, Copy, Debug)]
pub struct MinBudget<W> {
    completion: W,
    least: Duration,
    blame: Blame,
}

/// Whom to blame for a deadline that passed.
#[derive(Clone, Copy, Debug)]
struct Blame {
    /// The deadline of a call that was given too little time, else one that never passes.
    short: Deadline,
}

impl Blame {
    /// Returns the verdict on the server.
    fn verdict(self, verdict: Verdict) -> Verdict {
        let is_callers_fault = match verdict {
            Verdict::DeadlineExceeded => !self.short.is_never(),
            // Whatever failure it is: it came because the time was over.
            Verdict::Failure => self.short.is_expired(),
            _ => false,
        };
        if is_callers_fault { Verdict::Ignored } else { verdict }
    }
}

impl<W> MinBudget<W> {
    pub(super) fn new(completion: W, least: Duration) -> Self {
        Self { completion, least, blame: Blame { short: Deadline::NEVER } }
    }
}

impl<R, E, W: Completion<R, E>> Completion<R, E> for MinBudget<W> {
    type Body<O: CallObserver> = W::Body<BlamedObserver<O>>;
    type Error = W::Error;

    fn of_call(&self, head: &Head<'_>) -> Self
    where
        Self: Clone,
    {
        let deadline = head.extensions.get::<Deadline>().filter(|deadline| deadline.remaining() < self.least);
        Self { blame: Blame { short: deadline.copied().unwrap_or(Deadline::NEVER) }, ..self.clone() }
    }

    fn verdict(&self, response: &Response<R>) -> Option<Verdict> {
        self.completion.verdict(response).map(|verdict| self.blame.verdict(verdict))
    }

    fn failed(&self, error: E) -> (Verdict, W::Error) {
        let (verdict, error) = self.completion.failed(error);
        (self.blame.verdict(verdict), error)
    }

    fn respond<O: CallObserver>(self, response: Response<R>, observer: Option<O>) -> Response<Self::Body<O>> {
        let blame = self.blame;
        self.completion.respond(response, observer.map(|observer| BlamedObserver { observer, blame }))
    }

    fn not_called(&self, error: CallError<E>) -> W::Error {
        self.completion.not_called(error)
    }
}

/// An observer that learns no failure for which a short deadline is to blame. See [`MinBudget`].
#[derive(Debug)]
pub struct BlamedObserver<O> {
    observer: O,
    blame: Blame,
}

impl<O: CallObserver> CallObserver for BlamedObserver<O> {
    fn ended(self, verdict: Verdict) {
        self.observer.ended(self.blame.verdict(verdict));
    }

    fn first_data(&mut self) {
        self.observer.first_data();
    }

    fn panicked(self) {
        self.observer.panicked();
    }
}
