//! One call: the decision on each of its outcomes, and the request that is kept for the next attempt.

use super::settings::RetrySettings;
use super::{Budgets, ClassifyFailure, Idempotent, ReplayableBody};
use crate::{Head, ResponseHead};
use alloc::sync::Arc;
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::internal::{begin_within, failed_within};
use damper_core::retry::{Attempts, Budget, Failure, GaveUp, RetryError};
use damper_core::time::Clock;
use http::{Request, Response};

/// One call on its way through its attempts.
pub(super) struct Call<Q, C, B: Budgets, V, Z> {
    pub(super) settings: Arc<RetrySettings<C, B, V, Z>>,
    budget: B::Choice,
    attempts: Attempts<C>,
    /// For the next attempt; `None` if there cannot be one.
    kept: Option<Request<Q>>,
    is_idempotent: bool,
}

/// What follows from the outcome of an attempt.
pub(super) enum Judgement<R, E> {
    /// The call is over.
    Over(Result<Response<R>, RetryError<E>>),
    /// There is another attempt after this wait. The error of this one is the last that is known.
    Again(Duration, Option<E>),
}

impl<Q, C, B, V, Z> Call<Q, C, B, V, Z>
where
    Q: ReplayableBody,
    C: Clock + Clone + Send + Sync + 'static,
    B: Budgets,
{
    /// Begins a call, with the deadline of the request.
    pub(super) fn begin(settings: &Arc<RetrySettings<C, B, V, Z>>, request: &Request<Q>) -> Self {
        let RetrySettings { retry, budgets, .. } = &**settings;
        let budget = budgets.choose(&Head::of(request));
        let deadline = request.extensions().get::<Deadline<C>>();
        let attempts = begin_within(retry, budgets.budget(&budget), deadline.cloned());
        let is_idempotent = Idempotent::is(request);
        let mut call = Self { settings: Arc::clone(settings), budget, attempts, kept: None, is_idempotent };
        call.keep(request);
        call
    }

    /// Keeps a copy of the request, unless this attempt is the last that is allowed.
    fn keep(&mut self, request: &Request<Q>) {
        self.kept = if self.is_last() { None } else { copy(request) };
    }

    fn is_last(&self) -> bool {
        self.attempts.number() >= self.settings.retry.max_attempts()
    }

    /// Returns whether a request is kept for another attempt.
    pub(super) fn may_be_repeated(&self) -> bool {
        self.kept.is_some()
    }

    /// Takes the request of the next attempt.
    pub(super) fn next_request(&mut self) -> Option<Request<Q>> {
        let request = self.kept.take()?;
        self.keep(&request);
        Some(request)
    }

    pub(super) fn deadline(&self) -> &Deadline<C> {
        self.attempts.deadline()
    }

    /// Judges the outcome of an attempt. A response that is not returned is dropped.
    pub(super) fn judge<R, E>(&mut self, outcome: Result<Response<R>, E>) -> Judgement<R, E>
    where
        V: ClassifyFailure<E>,
    {
        let RetrySettings { retry, budgets, failures, .. } = &*self.settings;
        let budget = budgets.budget(&self.budget);
        let Some(failure) = failures.failure(outcome.as_ref().map(ResponseHead::of).as_ref().map_err(|error| *error))
        else {
            budget.succeeded();
            return Judgement::Over(outcome.map_err(|error| self.give_up(GaveUp::NotRetryable, Some(error))));
        };
        let is_safe = self.is_idempotent || failure.is_unprocessed();
        // The last attempt keeps no request, and ends for that reason.
        let may_be_repeated = is_safe && (self.kept.is_some() || self.is_last());
        let failure = if may_be_repeated { failure } else { Failure::FATAL };
        match (failed_within(&mut self.attempts, retry, budget, failure), outcome) {
            (Ok(wait), outcome) => Judgement::Again(wait, outcome.err()),
            (Err(_), Ok(response)) => Judgement::Over(Ok(response)),
            (Err(reason), Err(error)) => Judgement::Over(Err(self.give_up(reason, Some(error)))),
        }
    }

    /// Returns the error of a call that ends in its present attempt.
    #[cold]
    pub(super) fn give_up<E>(&self, reason: GaveUp, error: Option<E>) -> RetryError<E> {
        RetryError::new(reason, self.attempts.number(), self.attempts.elapsed(&self.settings.retry), error)
    }
}

/// Returns a request that is the same; `None` if its body is a stream.
pub(crate) fn copy<Q: ReplayableBody>(request: &Request<Q>) -> Option<Request<Q>> {
    let mut copy = Request::new(request.body().try_clone()?);
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    *copy.version_mut() = request.version();
    copy.headers_mut().clone_from(request.headers());
    copy.extensions_mut().clone_from(request.extensions());
    Some(copy)
}
