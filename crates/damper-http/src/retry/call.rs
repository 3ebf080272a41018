//! One call: the decision on each of its outcomes, and the request that is kept for the next attempt.

use super::settings::RetrySettings;
use super::{Budgets, ClassifyFailure, GiveUp, ReplayableBody, RetryProtocol, deadline_of};
use crate::{Head, ResponseHead};
use alloc::sync::Arc;
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::internal::{begin_within, failed_within};
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
    /// For the next attempt, once it is decided on.
    next: Option<Request<K>>,
    may_repeat: bool,
    /// Attempts that no server can have processed.
    unprocessed: u32,
}

/// What follows from the outcome of an attempt.
pub(super) enum Judgement<R, E> {
    /// The call is over.
    Over(Result<Response<R>, RetryError<E>>),
    /// There is another attempt after this wait. The error of this one is the last that is known.
    Again(Duration, Option<E>),
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
    fn prepare<Q>(&self, mut request: Request<K>) -> Request<P::Body>
    where
        P: RetryProtocol<Q, Kept = K>,
    {
        let protocol = &self.settings.protocol;
        let deadline = self.deadline();
        let time_left = if deadline.is_never() { None } else { Some(deadline.remaining()) };
        let previous = (self.attempts.number() - 1).saturating_sub(self.unprocessed);
        protocol.prepare(request.headers_mut(), previous, time_left);
        request.map(|body| protocol.send(body))
    }

    pub(super) fn deadline(&self) -> &Deadline<C> {
        self.attempts.deadline()
    }

    /// Judges the outcome of an attempt. A response that is not returned is dropped.
    pub(super) fn judge<R, E>(&mut self, outcome: Result<Response<R>, E>) -> Judgement<R, E>
    where
        P: ClassifyFailure<E>,
    {
        let judgement = self.decide(outcome);
        if let Judgement::Over(_) = judgement {
            // So that a body that is still being sent is kept no longer.
            self.kept = None;
        }
        judgement
    }

    fn decide<R, E>(&mut self, outcome: Result<Response<R>, E>) -> Judgement<R, E>
    where
        P: ClassifyFailure<E>,
    {
        let RetrySettings { retry, budgets, protocol, .. } = &*self.settings;
        let budget = budgets.budget(&self.budget);
        let Some(failure) = protocol.failure(outcome.as_ref().map(ResponseHead::of).as_ref().map_err(|error| *error))
        else {
            budget.succeeded();
            return Judgement::Over(outcome.map_err(|error| self.give_up(GaveUp::NotRetryable, Some(error))));
        };
        // The timeout of the transport may be the same.
        if outcome.is_err() && self.deadline().is_expired() {
            return Judgement::Over(Err(self.give_up(GaveUp::Deadline { hint: None }, outcome.err())));
        }
        let is_safe = self.may_repeat || failure.is_unprocessed();
        let is_replayable = self.kept.as_ref().is_some_and(|request| request.body().is_replayable());
        // The last attempt keeps no request, and ends for that reason.
        let failure = if is_safe && (is_replayable || self.is_last()) { failure } else { Failure::FATAL };
        let decision = failed_within(&mut self.attempts, retry, budget, failure).and_then(|wait| {
            self.unprocessed += u32::from(failure.is_unprocessed());
            self.next = self.rewind();
            // An attempt that is still sending may have gone beyond what is kept.
            if self.next.is_some() { Ok(wait) } else { Err(GaveUp::NotRetryable) }
        });
        match (decision, outcome) {
            (Ok(wait), outcome) => Judgement::Again(wait, outcome.err()),
            (Err(_), Ok(response)) => Judgement::Over(Ok(response)),
            (Err(reason), Err(error)) => Judgement::Over(Err(self.give_up(reason, Some(error)))),
        }
    }

    /// Returns the request for the attempt that was decided on, and keeps it unless that is the last one.
    fn rewind(&mut self) -> Option<Request<K>> {
        let kept = self.kept.take()?;
        let body = kept.body().restart()?;
        if self.is_last() {
            return Some(kept.map(|_| body));
        }
        let next = with_body(&kept, body);
        self.kept = Some(kept);
        Some(next)
    }

    /// Returns the error of a call that ends in its present attempt.
    #[cold]
    pub(super) fn give_up<E>(&self, reason: GaveUp, error: Option<E>) -> RetryError<E> {
        RetryError::new(reason, self.attempts.number(), self.attempts.elapsed(&self.settings.retry), error)
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
