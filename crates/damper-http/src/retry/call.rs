//! One call: the decision on each of its outcomes, and the request that is kept for the next attempt.

use super::settings::RetrySettings;
use super::{Budgets, GiveUp, ReplayableBody, RetryProtocol, deadline_of};
use crate::deadline::SentTimeout;
use crate::{Head, ResponseHead};
use alloc::sync::Arc;
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::internal::{begin_within, count_failure, next_wait, withdraw};
use damper_core::retry::{Attempts, Budget, Failure, GaveUp, RetryError, Unlimited};
use damper_core::throttle::PaceTooSlow;
use damper_core::time::Clock;
use http::{Request, Response};

/// One call on its way through its attempts.
pub(crate) struct Call<K, C, B: Budgets, P, Z> {
    pub(super) settings: Arc<RetrySettings<C, B, P, Z>>,
    budget: B::Choice,
    attempts: Attempts<C>,
    /// The time after which no attempt begins: the deadline, or earlier.
    until: Deadline<C>,
    /// The request for other attempts; `None` if there cannot be one.
    kept: Option<Request<K>>,
    /// The request of the next attempt, from the decision on it until it begins.
    next: Option<Request<K>>,
    may_repeat: bool,
    has_transparent_retries: bool,
    /// The number of attempts that no server can have processed.
    unprocessed: u32,
}

/// The consequence of an attempt's outcome.
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
    /// Begins a call with the deadline of the request, and returns the request of its first attempt.
    ///
    /// It returns no request if the deadline has passed.
    pub(crate) fn begin<Q>(
        settings: &Arc<RetrySettings<C, B, P, Z>>,
        request: Request<Q>,
    ) -> (Self, Option<Request<P::Body>>)
    where
        P: RetryProtocol<Q, Kept = K>,
    {
        let (call, first) = Self::start(settings, request);
        let first = first.map(|request| {
            call.budget().began();
            call.prepare(request)
        });
        (call, first)
    }

    /// Begins a call whose first attempt is made later, by [`next_request`](Self::next_request).
    ///
    /// The budget counts the call then.
    pub(crate) fn begin_later<Q>(settings: &Arc<RetrySettings<C, B, P, Z>>, request: Request<Q>) -> Self
    where
        P: RetryProtocol<Q, Kept = K>,
    {
        let (mut call, first) = Self::start(settings, request);
        call.next = first;
        call
    }

    /// Begins a call, and returns the request of its first attempt in its kept form.
    ///
    /// It returns no request if the deadline has passed.
    fn start<Q>(settings: &Arc<RetrySettings<C, B, P, Z>>, request: Request<Q>) -> (Self, Option<Request<K>>)
    where
        P: RetryProtocol<Q, Kept = K>,
    {
        let RetrySettings { retry, budgets, protocol, .. } = &**settings;
        let head = Head::of(&request);
        let budget = budgets.choose(&head);
        let deadline = deadline_of(protocol, &head, retry.clock());
        // The budget counts the call with its first attempt.
        let attempts = begin_within(retry, &Unlimited, deadline);
        let until = attempts.deadline().clone();
        let may_repeat = protocol.may_repeat(&head);
        let mut call = Self {
            settings: Arc::clone(settings),
            budget,
            attempts,
            until,
            kept: None,
            next: None,
            may_repeat,
            has_transparent_retries: protocol.has_transparent_retries(),
            unprocessed: 0,
        };
        if call.deadline().is_expired() {
            return (call, None);
        }
        let request = request.map(|body| protocol.keep(body));
        if !call.is_last() {
            call.kept = copy(&request);
        }
        (call, Some(request))
    }

    /// Begins no attempt after `until`, which is no later than the deadline.
    pub(crate) fn begins_until(mut self, until: Deadline<C>) -> Self {
        self.until = until;
        self
    }

    pub(super) fn until(&self) -> &Deadline<C> {
        &self.until
    }

    fn budget(&self) -> &B::Budget {
        self.settings.budgets.budget(&self.budget)
    }

    /// Returns whether the current attempt is the last that is allowed.
    fn is_last(&self) -> bool {
        let may_be_transparent = self.has_transparent_retries && !self.attempts.had_transparent_retry();
        !may_be_transparent && self.attempts.is_last(&self.settings.retry)
    }

    /// Returns whether a request is kept for another attempt.
    pub(crate) fn may_be_repeated(&self) -> bool {
        self.kept.is_some()
    }

    /// Takes the request of the next attempt.
    pub(super) fn next_request<Q>(&mut self) -> Option<Request<P::Body>>
    where
        P: RetryProtocol<Q, Kept = K>,
    {
        let is_first = self.begun() == 0;
        let request = self.next.take()?;
        if is_first {
            self.budget().began();
        }
        Some(self.prepare(request))
    }

    /// Turns a kept request into one for the service.
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
        // An outer layer of deadlines wrote the time left at the start of the call, so update it.
        if let Some(timeout) = head.extensions.get::<SentTimeout>() {
            timeout.write(&mut head.headers, deadline.remaining());
        }
        Request::from_parts(head, protocol.send(body))
    }

    /// Returns whether it is too late for the planned attempt.
    pub(super) fn is_too_late(&self) -> bool {
        let timeout = self.next.as_ref().and_then(|request| request.extensions().get::<SentTimeout>());
        self.until.is_expired() || timeout.is_some_and(SentTimeout::is_spent)
    }

    /// Checks after a wait that there is time for the attempt, and for a longer wait if necessary.
    ///
    /// # Errors
    ///
    /// The reason why the call is given up.
    pub(super) fn after_wait(&self, longer: Option<Duration>) -> Result<(), GaveUp> {
        let (wait, left) = match longer {
            _ if self.is_too_late() => (self.attempts.elapsed(&self.settings.retry), Duration::ZERO),
            Some(wait) => (wait, self.until.remaining()),
            None => return Ok(()),
        };
        if wait < left {
            Ok(())
        } else if self.begun() == 0 {
            Err(GaveUp::Paced(PaceTooSlow::new(wait, left)))
        } else {
            Err(GaveUp::Deadline { hint: longer })
        }
    }

    /// Returns the number of attempts that were begun. A planned attempt does not count.
    fn begun(&self) -> u32 {
        self.attempts.number() - u32::from(self.next.is_some())
    }

    pub(crate) fn deadline(&self) -> &Deadline<C> {
        self.attempts.deadline()
    }

    /// Judges the outcome of an attempt. A response that is not returned is dropped.
    ///
    /// `last` is the last error of an attempt.
    pub(super) fn judge<R, E>(&mut self, outcome: Result<Response<R>, E>, last: &mut Option<E>) -> Judgement<R, E>
    where
        P: GiveUp<E>,
    {
        let judgement = self.decide(outcome, last);
        if let Judgement::Over(_) = judgement {
            // Stop keeping a body that is still being sent.
            self.kept = None;
        }
        judgement
    }

    fn decide<R, E>(&mut self, outcome: Result<Response<R>, E>, last: &mut Option<E>) -> Judgement<R, E>
    where
        P: GiveUp<E>,
    {
        let RetrySettings { budgets, protocol, .. } = &*self.settings;
        let budget = budgets.budget(&self.budget);
        let failure = protocol.failure(outcome.as_ref().map(ResponseHead::of).as_ref().map_err(|error| *error));
        // The budget counts every outcome, even if there cannot be another attempt.
        match failure {
            Some(failure) => count_failure(&self.attempts, budget, failure),
            None => budget.succeeded(),
        }
        // A result after the deadline is discarded.
        if self.deadline().is_expired() {
            let reason = GaveUp::Deadline { hint: None };
            return Judgement::Over(Err(match outcome {
                Err(error) => self.fail(reason, error, last),
                Ok(_) => self.give_up(reason, last.take()),
            }));
        }
        let Some(failure) = failure else {
            return Judgement::Over(outcome.map_err(|error| self.fail(GaveUp::NotRetryable, error, last)));
        };
        match (self.try_again(failure), outcome) {
            (Ok(wait), outcome) => {
                *last = outcome.err().or_else(|| last.take());
                Judgement::Again(wait)
            }
            (Err(reason), Ok(mut response)) => {
                self.settings.protocol.mark_last(response.extensions_mut(), reason);
                Judgement::Over(Ok(response))
            }
            (Err(reason), Err(error)) => Judgement::Over(Err(self.fail(reason, error, last))),
        }
    }

    /// Decides on another attempt, keeps its request, and returns the wait before it.
    fn try_again(&mut self, failure: Failure) -> Result<Duration, GaveUp> {
        let is_safe = self.may_repeat || failure.is_unprocessed();
        let is_replayable = self.kept.as_ref().is_some_and(|request| request.body().is_replayable());
        // No request is kept during the last attempt. Its reason is that the attempts are used up, not that the request is not replayable.
        if !is_safe || !(is_replayable || self.is_last()) {
            return Err(GaveUp::NotRetryable);
        }
        let RetrySettings { retry, budgets, .. } = &*self.settings;
        let (attempts, budget) = (&mut self.attempts, budgets.budget(&self.budget));
        let wait = next_wait(attempts, retry, failure)?;
        let kept = self.kept.take().ok_or(GaveUp::Attempts)?;
        // An attempt that is still sending may have exceeded the kept data. Then nothing is withdrawn from the budget.
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

    /// Returns the error of a call that ends here.
    #[cold]
    pub(super) fn give_up<E>(&self, reason: GaveUp, error: Option<E>) -> RetryError<E> {
        RetryError::new(reason, self.begun(), self.attempts.elapsed(&self.settings.retry), error)
    }

    /// Returns the error of a call that ends with the error of an attempt, after an earlier one.
    #[cold]
    pub(super) fn fail<E>(&self, reason: GaveUp, error: E, previous: &mut Option<E>) -> RetryError<E> {
        self.give_up(reason, Some(error)).with_previous_error(previous.take())
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

/// Returns a copy of a request; `None` if its body is a stream.
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
