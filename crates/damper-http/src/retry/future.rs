//! A call on its way through its attempts.

use super::call::{Call, Judgement};
use super::callee::Callee;
use super::{Budgets, GiveUp, RetryProtocol};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::retry::{GaveUp, RetryError};
use damper_core::time::{Clock, Sleep};
use http::{Request, Response};
use pin_project_lite::pin_project;

pin_project! {
    /// The future of [`Retrying`](super::Retrying).
    ///
    /// The first attempt was begun by the service's `call`.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct RetryingFuture<S: Callee<Request<P::Body>>, Q, C, B: Budgets, P: RetryProtocol<Q>, Z: Sleep> {
        call: Call<P::Kept, C, B, P, Z>,
        // The service for other attempts; `None` if there cannot be one.
        service: Option<S>,
        // The last error of an attempt.
        error: Option<S::Error>,
        #[pin]
        stage: Stage<S::Future, Z::Sleeping>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<F, T> {
        // An attempt is in flight.
        Calling { #[pin] attempt: F, #[pin] until_deadline: Option<T> },
        // Before the next attempt.
        Waiting { #[pin] wait: T },
        // Until the service is ready for the next attempt.
        Readying { #[pin] until_deadline: Option<T> },
        // There was no time for the first attempt.
        NotBegun { reason: GaveUp },
        Over,
    }
}

impl<S, Q, C, B, P, Z> RetryingFuture<S, Q, C, B, P, Z>
where
    S: Callee<Request<P::Body>>,
    B: Budgets,
    P: RetryProtocol<Q>,
    Z: Sleep,
{
    /// Creates a call whose first attempt is in flight.
    #[inline]
    pub(crate) fn calling(call: Call<P::Kept, C, B, P, Z>, attempt: S::Future, service: Option<S>) -> Self {
        Self { call, service, error: None, stage: Stage::Calling { attempt, until_deadline: None } }
    }

    /// Creates a call whose first attempt comes after a wait.
    pub(crate) fn waiting(call: Call<P::Kept, C, B, P, Z>, wait: Duration, service: S) -> Self {
        let wait = call.settings.sleep.sleep(wait);
        Self { call, service: Some(service), error: None, stage: Stage::Waiting { wait } }
    }

    /// Creates a call that is not made.
    pub(crate) fn not_begun(call: Call<P::Kept, C, B, P, Z>, reason: GaveUp) -> Self {
        Self { call, service: None, error: None, stage: Stage::NotBegun { reason } }
    }
}

impl<S, Q, C, B, P, Z, R> Future for RetryingFuture<S, Q, C, B, P, Z>
where
    S: Callee<Request<P::Body>, Response = Response<R>>,
    C: Clock + Clone + Send + Sync + 'static,
    B: Budgets,
    P: RetryProtocol<Q> + GiveUp<S::Error>,
    Z: Sleep,
{
    type Output = Result<Response<R>, <P as GiveUp<S::Error>>::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let deadline = GaveUp::Deadline { hint: None };
        let error = loop {
            let sleep = &this.call.settings.sleep;
            match this.stage.as_mut().project() {
                StageProjection::Calling { attempt, until_deadline } => {
                    let Poll::Ready(mut outcome) = attempt.poll(context) else {
                        ready!(poll_deadline(until_deadline, this.call.deadline(), sleep, context));
                        break this.call.give_up(deadline, this.error.take());
                    };
                    // The outcome stays in place until the call has ended, because a response is large to move.
                    let judgement = this.call.judge(&mut outcome);
                    if let Judgement::Again(wait) = judgement {
                        *this.error = outcome.err().or_else(|| this.error.take());
                        let wait = this.call.settings.sleep.sleep(wait);
                        this.stage.set(Stage::Waiting { wait });
                        continue;
                    }
                    this.stage.set(Stage::Over);
                    let error = match outcome {
                        Ok(response) => match judgement {
                            Judgement::Over(_) => return Poll::Ready(Ok(response)),
                            _ => this.call.give_up(deadline, this.error.take()),
                        },
                        Err(error) => {
                            let reason = if let Judgement::Over(reason) = judgement { reason } else { deadline };
                            this.call.fail(reason, error, this.error)
                        }
                    };
                    return Poll::Ready(Err(this.call.error(error)));
                }
                StageProjection::Waiting { wait } => {
                    ready!(wait.poll(context));
                    let longer = this.service.as_mut().and_then(Callee::after_wait);
                    if let Err(reason) = this.call.after_wait(longer) {
                        break this.call.give_up(reason, this.error.take());
                    }
                    match longer {
                        Some(longer) => {
                            let wait = sleep.sleep(longer);
                            this.stage.set(Stage::Waiting { wait });
                        }
                        None => this.stage.set(Stage::Readying { until_deadline: None }),
                    }
                }
                StageProjection::Readying { until_deadline } => {
                    let Some(service) = this.service else { return Poll::Pending };
                    if this.call.is_too_late() {
                        break this.call.give_up(deadline, this.error.take());
                    }
                    let Poll::Ready(polled) = service.poll_ready(context) else {
                        ready!(poll_deadline(until_deadline, this.call.until(), sleep, context));
                        break this.call.give_up(deadline, this.error.take());
                    };
                    if let Err(error) = polled {
                        break this.call.fail(GaveUp::NotRetryable, error, this.error);
                    }
                    let Some(request) = this.call.next_request::<Q>() else { return Poll::Pending };
                    let attempt = service.call(request);
                    this.stage.set(Stage::Calling { attempt, until_deadline: None });
                }
                StageProjection::NotBegun { reason } => break RetryError::new(*reason, 0, Duration::ZERO, None),
                // It was polled again after it was ready.
                StageProjection::Over => return Poll::Pending,
            }
        };
        this.stage.set(Stage::Over);
        Poll::Ready(Err(this.call.error(error)))
    }
}

/// Polls until the deadline has passed.
fn poll_deadline<C: Clock, Z: Sleep>(
    mut timer: Pin<&mut Option<Z::Sleeping>>,
    deadline: &Deadline<C>,
    sleep: &Z,
    context: &mut Context<'_>,
) -> Poll<()> {
    if deadline.is_never() {
        return Poll::Pending;
    }
    loop {
        if let Some(sleeping) = timer.as_mut().as_pin_mut() {
            ready!(sleeping.poll(context));
        }
        let left = deadline.remaining();
        if left.is_zero() {
            return Poll::Ready(());
        }
        // There is no timer yet, or its clock is ahead of the deadline's.
        timer.set(Some(sleep.sleep(left)));
    }
}

impl<S, Q, C, B, P, Z> fmt::Debug for RetryingFuture<S, Q, C, B, P, Z>
where
    S: Callee<Request<P::Body>>,
    B: Budgets,
    P: RetryProtocol<Q>,
    Z: Sleep,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_calling = matches!(self.stage, Stage::Calling { .. });
        f.debug_struct("RetryingFuture").field("is_calling", &is_calling).finish_non_exhaustive()
    }
}
