//! One call: the decision on each of its outcomes, and the request that is kept for the next attempt.

use super::layer::RetrySettings;
use super::pace::Pace;
use super::{Budgets, ReplayableBody, RetryProtocol, deadline_of};
use crate::deadline::SentTimeout;
use crate::{ClassifyResponse, Head, ResponseHead};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::internal::Next;
use damper_core::retry::{Attempts, Budget, Failure, GaveUp, Unlimited};
use damper_core::throttle::PaceTooSlow;
use damper_core::time::Clock;
use http::request::Parts;
use http::{Request, Response};

/// The head of a request, and its body in the form that is kept.
type Kept<K> = (Parts, K);

/// One call on its way through its attempts.
pub(crate) struct Call<K, C, B: Budgets, P, Z> {
    pub(super) settings: Arc<RetrySettings<C, B, P, Z>>,
    budget: B::Choice,
    attempts: Attempts<C>,
    /// The time after which no attempt begins: the deadline, or earlier.
    until: Deadline<C>,
    /// The request for other attempts; `None` if there cannot be one.
    kept: Option<Kept<K>>,
    /// The request of the next attempt, from the decision on it until it begins.
    ///
    /// In a box, because a request is large to move, and most calls have one attempt.
    next: Option<Box<Kept<K>>>,
    may_repeat: bool,
    has_transparent_retries: bool,
    /// The number of attempts that no server can have processed.
    unprocessed: u32,
}

/// A call before its first attempt, apart from its request, which is large to move.
pub(crate) struct BegunCall<C, B: Budgets> {
    budget: B::Choice,
    attempts: Attempts<C>,
    may_repeat: bool,
    has_transparent_retries: bool,
}

impl<C: Clock + Clone + Send + Sync + 'static, B: Budgets> BegunCall<C, B> {
    /// Begins a call with the deadline of its request.
    pub(crate) fn new<Q, P, Z>(settings: &RetrySettings<C, B, P, Z>, head: &Head<'_>) -> Self
    where
        P: RetryProtocol<Q>,
    {
        let RetrySettings { retry, budgets, protocol, .. } = settings;
        let budget = budgets.choose(head);
        let deadline = deadline_of(protocol, head, retry.clock());
        Self {
            budget,
            // The budget counts the call with its first attempt.
            attempts: retry.begin_within(&Unlimited, deadline),
            may_repeat: protocol.may_repeat(head),
            has_transparent_retries: protocol.has_transparent_retries(),
        }
    }

    /// Repeats each request that the server's limit rejected, and no other.
    ///
    /// The server has not processed such a request, whatever its method is. A rejection is no transparent failure.
    #[inline]
    pub(crate) fn repeats_rejections(self) -> Self {
        Self { may_repeat: true, has_transparent_retries: false, ..self }
    }

    pub(crate) fn deadline(&self) -> &Deadline<C> {
        self.attempts.deadline()
    }

    /// Returns whether the deadline has passed, so that there is no first attempt.
    #[inline]
    pub(crate) fn is_too_late(&self) -> bool {
        self.deadline().is_expired()
    }

    /// Counts the call, and returns the request of the first attempt and its copy for other attempts.
    #[inline]
    pub(crate) fn first_request<Q, P, Z>(
        &self,
        settings: &RetrySettings<C, B, P, Z>,
        request: Request<Q>,
    ) -> (Request<P::Body>, Option<Kept<P::Kept>>)
    where
        P: RetryProtocol<Q>,
    {
        let RetrySettings { budgets, protocol, .. } = settings;
        let (mut head, body) = request.into_parts();
        let body = protocol.keep(body);
        let kept = self.copy(settings, &head, &body);
        budgets.budget(&self.budget).began();
        prepare::<Q, _, _>(protocol, self.deadline(), 0, &mut head);
        (Request::from_parts(head, protocol.send(body)), kept)
    }

    /// Copies a request for other attempts. Returns `None` if there cannot be one.
    fn copy<K: ReplayableBody, P, Z>(
        &self,
        settings: &RetrySettings<C, B, P, Z>,
        head: &Parts,
        body: &K,
    ) -> Option<Kept<K>> {
        if !self.has_transparent_retries && self.attempts.is_last(&settings.retry) {
            return None;
        }
        body.try_clone().map(|body| (head.clone(), body))
    }
}

/// Turns the head of a kept request into that of one for the service.
fn prepare<Q, C: Clock, P: RetryProtocol<Q>>(protocol: &P, deadline: &Deadline<C>, previous: u32, head: &mut Parts) {
    let time_left = if deadline.is_never() { None } else { Some(deadline.remaining()) };
    protocol.prepare(&mut head.headers, previous, time_left);
    // An outer layer of deadlines wrote the time left at the start of the call, so update it.
    if let Some(timeout) = head.extensions.get::<SentTimeout>() {
        timeout.write(&mut head.headers, deadline.remaining());
    }
}

/// Returns the time within which an attempt of a request with this head has to begin.
///
/// It ends `until` then, or earlier by the margin of an outer layer of deadlines.
fn left_to_begin<C: Clock>(until: &Deadline<C>, head: Option<&Parts>) -> Duration {
    until.remaining().min(head.map_or(Duration::MAX, |head| SentTimeout::left_in(&head.extensions)))
}

impl<K, C, B, P, Z> Call<K, C, B, P, Z>
where
    K: ReplayableBody,
    C: Clock + Clone + Send + Sync + 'static,
    B: Budgets,
{
    /// Creates a call whose first attempt is made by the caller.
    #[inline]
    pub(crate) fn new(
        settings: &Arc<RetrySettings<C, B, P, Z>>,
        begun: BegunCall<C, B>,
        kept: Option<Kept<K>>,
    ) -> Self {
        let BegunCall { budget, attempts, may_repeat, has_transparent_retries } = begun;
        Self {
            settings: Arc::clone(settings),
            budget,
            until: attempts.deadline().clone(),
            attempts,
            kept,
            next: None,
            may_repeat,
            has_transparent_retries,
            unprocessed: 0,
        }
    }

    /// Creates a call whose first attempt is made later, by [`next_request`](Self::next_request).
    ///
    /// The budget counts the call then.
    pub(crate) fn begin_later<Q>(
        settings: &Arc<RetrySettings<C, B, P, Z>>,
        begun: BegunCall<C, B>,
        request: Request<Q>,
    ) -> Self
    where
        P: RetryProtocol<Q, Kept = K>,
    {
        if begun.is_too_late() {
            return Self::new(settings, begun, None);
        }
        let (head, body) = request.into_parts();
        let body = settings.protocol.keep(body);
        let kept = begun.copy(settings, &head, &body);
        let mut call = Self::new(settings, begun, kept);
        call.next = Some(Box::new((head, body)));
        call
    }

    /// Begins no attempt after `until`, which is no later than the deadline.
    #[inline]
    pub(crate) fn begins_until(mut self, until: Deadline<C>) -> Self {
        self.until = until;
        self
    }

    fn budget(&self) -> &B::Budget {
        self.settings.budgets.budget(&self.budget)
    }

    /// Returns whether the current attempt is the last that is allowed.
    fn is_last(&self) -> bool {
        let may_be_transparent = self.has_transparent_retries && !self.attempts.had_transparent_retry();
        !may_be_transparent && self.attempts.is_last(&self.settings.retry)
    }

    /// Takes the request of the next attempt.
    pub(super) fn next_request<Q>(&mut self) -> Option<Request<P::Body>>
    where
        P: RetryProtocol<Q, Kept = K>,
    {
        let is_first = self.begun() == 0;
        let (mut head, body) = *self.next.take()?;
        if is_first {
            self.budget().began();
        }
        let previous = (self.attempts.number() - 1).saturating_sub(self.unprocessed);
        prepare::<Q, _, _>(&self.settings.protocol, self.deadline(), previous, &mut head);
        Some(Request::from_parts(head, self.settings.protocol.send(body)))
    }

    /// Returns the time within which the planned attempt has to begin.
    pub(super) fn time_to_begin(&self) -> Duration {
        left_to_begin(&self.until, self.next.as_ref().map(|next| &next.0))
    }

    /// Checks after a wait that there is time for the attempt, and for a longer wait if necessary.
    ///
    /// # Errors
    ///
    /// The reason why the call is given up.
    pub(super) fn after_wait(&self, longer: Option<Duration>) -> Result<(), GaveUp> {
        let left = self.time_to_begin();
        let wait = match longer {
            _ if left.is_zero() => self.elapsed(),
            Some(wait) => wait,
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
    pub(super) fn begun(&self) -> u32 {
        self.attempts.number() - u32::from(self.next.is_some())
    }

    /// Returns the time since the call began.
    #[cold]
    pub(super) fn elapsed(&self) -> Duration {
        self.attempts.elapsed(&self.settings.retry)
    }

    pub(crate) fn deadline(&self) -> &Deadline<C> {
        self.attempts.deadline()
    }

    /// Judges the outcome of an attempt.
    pub(super) fn judge<R, E, A: Pace>(&mut self, pace: &mut A, outcome: &mut Result<Response<R>, E>) -> Next
    where
        P: ClassifyResponse<E, Option<Failure>>,
    {
        let next = self.decide(pace, outcome);
        if !matches!(next, Next::Again(_)) {
            // Stop keeping a body that is still being sent.
            self.kept = None;
        }
        next
    }

    fn decide<R, E, A: Pace>(&mut self, pace: &mut A, outcome: &mut Result<Response<R>, E>) -> Next
    where
        P: ClassifyResponse<E, Option<Failure>>,
    {
        let RetrySettings { budgets, protocol, .. } = &*self.settings;
        let budget = budgets.budget(&self.budget);
        let head = outcome.as_ref().map(ResponseHead::of);
        let left = || left_to_begin(&self.until, self.kept.as_ref().map(|kept| &kept.0));
        let failure = pace.failure(protocol, head.as_ref().map_err(|error| *error), left);
        let (failure, no_time) = match failure {
            Ok(failure) => (failure, None),
            Err(reason) => (Some(Failure::THROTTLED.declined()), Some(reason)),
        };
        // The budget counts every outcome, even if there cannot be another attempt.
        match failure {
            Some(failure) => self.attempts.count_failure(budget, failure),
            None => self.attempts.count_success(budget),
        }
        if self.deadline().is_expired() {
            return Next::TooLate;
        }
        let Some(failure) = failure else { return Next::Over(GaveUp::NotRetryable) };
        match self.try_again(failure) {
            Ok(wait) => Next::Again(wait),
            Err(reason) => {
                if let Ok(response) = outcome {
                    A::mark_last(response.extensions_mut(), no_time.unwrap_or(reason));
                }
                Next::Over(reason)
            }
        }
    }

    /// Decides on another attempt, keeps its request, and returns the wait before it.
    fn try_again(&mut self, failure: Failure) -> Result<Duration, GaveUp> {
        let is_safe = self.may_repeat || failure.is_unprocessed();
        let is_replayable = self.kept.as_ref().is_some_and(|(_, body)| body.is_replayable());
        // No request is kept during the last attempt. Its reason is that the attempts are used up, not that the request is not replayable.
        if !is_safe || !(is_replayable || self.is_last()) {
            return Err(GaveUp::NotRetryable);
        }
        let RetrySettings { retry, budgets, .. } = &*self.settings;
        let (attempts, budget) = (&mut self.attempts, budgets.budget(&self.budget));
        let left = left_to_begin(&self.until, self.kept.as_ref().map(|kept| &kept.0));
        let wait = attempts.next_wait(retry, failure, left)?;
        let (head, kept) = self.kept.take().ok_or(GaveUp::Attempts)?;
        // An attempt that is still sending may have exceeded the kept data. Then nothing is withdrawn from the budget.
        let mut withdrawal = Err(GaveUp::NotRetryable);
        let body = kept.restart_if(|| {
            withdrawal = attempts.withdraw(budget, failure);
            withdrawal.is_ok()
        });
        withdrawal?;
        let body = body.ok_or(GaveUp::NotRetryable)?;
        self.unprocessed += u32::from(failure.is_unprocessed());
        if self.is_last() {
            self.next = Some(Box::new((head, body)));
        } else {
            self.next = Some(Box::new((head.clone(), body)));
            self.kept = Some((head, kept));
        }
        Ok(wait)
    }
}
