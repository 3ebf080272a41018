//! One call: the decision on each of its outcomes, and the request that is kept for the next attempt.

use super::settings::RetrySettings;
use super::{Budgets, ClassifyFailure, GiveUp, ReplayableBody, RetryProtocol, deadline_of};
use crate::deadline::SentTimeout;
use crate::{Head, ResponseHead};
use alloc::sync::Arc;
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::internal::{begin_within, count_failure, next_wait, withdraw};
use damper_core::retry::{Attempts, Budget, Failure, GaveUp, RetryError};
use damper_core::time::Clock;
use http::{Request, Response};

/// One call on its way through its attempts.
pub(super) struct Call<K, C, B: Budgets, P, Z> {
    pub(super) settings: Arc<RetrySettings<C, B, P, Z>>,
    budget: B::Choice,
    attempts: Attempts<C>,
    /// For other attempts; `None` if there cannot be one.
    kept: Option<Request<K>>,
    /// For the next attempt: from the decision on it until it begins.
    next: Option<Request<K>>,
    may_repeat: bool,
    /// Attempts that no server can have processed.
    unprocessed: u32,
}

/// What follows from the outcome of an attempt.
pub(super) enum Judgement<R, E> {
    /// The call is over.
    Over(Result<Response<R>, RetryError<E>>),
    /// There is another attempt after this wait.
    Again(Duration),
}

impl<K, C, B, P, Z> Call<K, C, B, P, Z>
where
    K: ReplayableBody,
    C: Clock + Clone + Send + Sync + 'static,
    B: Budgets,
{
    /// Begins a call, with the deadline of the request. Returns the request of its first attempt, unless that is over.
    pub(super) fn begin<Q>(
        settings: &Arc<RetrySettings<C, B, P, Z>>,
        request: Request<Q>,
    ) -> (Self, Option<Request<P::Body>>)
    where
        P: RetryProtocol<Q, Kept = K>,
    {
        let RetrySettings { retry, budgets, protocol, .. } = &**settings;
        let head = Head::of(&request);
        let budget = budgets.choose(&head);
        let deadline = deadline_of(protocol, &head, retry.clock());
        let attempts = begin_within(retry, budgets.budget(&budget), deadline);
        let may_repeat = protocol.may_repeat(&head);
        let mut call = Self {
            settings: Arc::clone(settings),
            budget,
            attempts,
            kept: None,
            next: None,
            may_repeat,
            unprocessed: 0,
        };
        if call.deadline().is_expired() {
            return (call, None);
        }
        let request = request.map(|body| protocol.keep(body));
        if !call.is_last() {
            call.kept = copy(&request);
        }
        let first = call.prepare(request);
        (call, Some(first))
    }

    /// Whether the present attempt is the last that is allowed.
    fn is_last(&self) -> bool {
        self.attempts.number() >= self.settings.retry.max_attempts()
    }

    /// Returns whether a request is kept for another attempt.
    pub(super) fn may_be_repeated(&self) -> bool {
        self.kept.is_some()
    }

    /// Takes the request of the next attempt.
    pub(super) fn next_request<Q>(&mut self) -> Option<Request<P::Body>>
    where
        P: RetryProtocol<Q, Kept = K>,
    {
        let request = self.next.take()?;
        Some(self.prepare(request))
    }

    /// Makes a request of the service out of one that was kept.
    fn prepare<Q>(&self, request: Request<K>) -> Request<P::Body>
    where
        P: RetryProtocol<Q, Kept = K>,
    {
        let (mut head, body) = request.into_parts();
        let protocol = &self.settings.protocol;
        let deadline = self.deadline();
        let time_left = if deadline.is_never() { None } else { Some(deadline.remaining()) };
        let previous = (self.attempts.number() - 1).saturating_sub(self.unprocessed);
        protocol.prepare(&mut head.headers, previous, time_left);
        // A layer of deadlines outside wrote what was left when the call began.
        if let Some(timeout) = head.extensions.get::<SentTimeout>() {
            timeout.write(&mut head.headers, deadline.remaining());
        }
        Request::from_parts(head, protocol.send(body))
    }

    /// Returns whether it is too late for the attempt that was decided on.
    pub(super) fn is_too_late(&self) -> bool {
        let timeout = self.next.as_ref().and_then(|request| request.extensions().get::<SentTimeout>());
        self.deadline().is_expired() || timeout.is_some_and(SentTimeout::is_spent)
    }

    pub(super) fn deadline(&self) -> &Deadline<C> {
        self.attempts.deadline()
    }

    /// Judges the outcome of an attempt. A response that is not returned is dropped. `last` is the last error of an attempt.
    pub(super) fn judge<R, E>(&mut self, outcome: Result<Response<R>, E>, last: &mut Option<E>) -> Judgement<R, E>
    where
        P: ClassifyFailure<E>,
    {
        let judgement = self.decide(outcome, last);
        if let Judgement::Over(_) = judgement {
            // So that a body that is still being sent is kept no longer.
            self.kept = None;
        }
        judgement
    }

    fn decide<R, E>(&mut self, outcome: Result<Response<R>, E>, last: &mut Option<E>) -> Judgement<R, E>
    where
        P: ClassifyFailure<E>,
    {
        let RetrySettings { budgets, protocol, .. } = &*self.settings;
        let budget = budgets.budget(&self.budget);
        let failure = protocol.failure(outcome.as_ref().map(ResponseHead::of).as_ref().map_err(|error| *error));
        // The budget learns of every outcome, also where there cannot be another attempt.
        match failure {
            Some(failure) => count_failure(budget, failure),
            None => budget.succeeded(),
        }
        // No result follows the deadline.
        if self.deadline().is_expired() {
            let error = outcome.err().or_else(|| last.take());
            return Judgement::Over(Err(self.give_up(GaveUp::Deadline { hint: None }, error)));
        }
        let Some(failure) = failure else {
            return Judgement::Over(outcome.map_err(|error| self.give_up(GaveUp::NotRetryable, Some(error))));
        };
        match (self.try_again(failure), outcome) {
            (Ok(wait), outcome) => {
                *last = outcome.err().or_else(|| last.take());
                Judgement::Again(wait)
            }
            (Err(_), Ok(response)) => Judgement::Over(Ok(response)),
            (Err(reason), Err(error)) => Judgement::Over(Err(self.give_up(reason, Some(error)))),
        }
    }

    /// Decides on another attempt, and keeps its request. Returns the wait before it.
    fn try_again(&mut self, failure: Failure) -> Result<Duration, GaveUp> {
        let is_safe = self.may_repeat || failure.is_unprocessed();
        let is_replayable = self.kept.as_ref().is_some_and(|request| request.body().is_replayable());
        // The last attempt keeps no request, and ends for that reason.
        if !is_safe || !(is_replayable || self.is_last()) {
            return Err(GaveUp::NotRetryable);
        }
        let RetrySettings { retry, budgets, .. } = &*self.settings;
        let (attempts, budget) = (&mut self.attempts, budgets.budget(&self.budget));
        let wait = next_wait(attempts, retry, failure)?;
        let kept = self.kept.take().ok_or(GaveUp::NotRetryable)?;
        // An attempt that is still sending may have gone beyond what is kept. Then nothing is withdrawn.
        let mut withdrawal = Err(GaveUp::NotRetryable);
        let body = kept.body().restart_if(|| {
            withdrawal = withdraw(attempts, budget, failure);
            withdrawal.is_ok()
        });
        withdrawal?;
        let body = body.ok_or(GaveUp::NotRetryable)?;
        self.unprocessed += u32::from(failure.is_unprocessed());
        if self.is_last() {
            self.next = Some(kept.map(|_| body));
        } else {
            self.next = Some(with_body(&kept, body));
            self.kept = Some(kept);
        }
        Ok(wait)
    }

    /// Returns the error of a call that ends here. An attempt that was decided on but not begun does not count.
    #[cold]
    pub(super) fn give_up<E>(&self, reason: GaveUp, error: Option<E>) -> RetryError<E> {
        let begun = self.attempts.number() - u32::from(self.next.is_some());
        RetryError::new(reason, begun, self.attempts.elapsed(&self.settings.retry), error)
    }

    /// Returns the caller's error.
    #[cold]
    pub(super) fn error<E>(&self, error: RetryError<E>) -> P::Error
    where
        P: GiveUp<E>,
    {
        self.settings.protocol.give_up(error)
    }
}

/// Returns a request that is the same; `None` if its body is a stream.
fn copy<K: ReplayableBody>(request: &Request<K>) -> Option<Request<K>> {
    request.body().try_clone().map(|body| with_body(request, body))
}

/// Returns a request with the same head and this body.
fn with_body<K>(request: &Request<K>, body: K) -> Request<K> {
    let mut copy = Request::new(body);
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    *copy.version_mut() = request.version();
    copy.headers_mut().clone_from(request.headers());
    copy.extensions_mut().clone_from(request.extensions());
    copy
}
