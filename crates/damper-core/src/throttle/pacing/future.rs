//! The calls of asynchronous code.

use super::{PacedAttempts, PacedRetry, Pacer, ReadHints, Strategy};
use crate::retry::{Budget, GaveUp, RetryError};
use crate::time::{Clock, Sleep};
use core::fmt;
use core::ops::Deref;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use pin_project_lite::pin_project;

/// A paced call of asynchronous code. Made by [`Pacer::run`].
///
/// No call is made before it is awaited. An attempt is not interrupted: put a timeout into it.
///
/// # Errors
///
/// [`RetryError`], as for `Pacer::call`.
///
/// # Cancel safety
///
/// If its future is dropped while it sleeps, it makes no further attempt and leaves the pacer as it is, except that a strategy with
/// a [schedule](Strategy::schedule) loses the place. If it is dropped during an attempt, it drops that attempt, and the pacer does
/// not learn from it. A retry that was withdrawn from the budget is spent. Polled again after it was ready, it is pending.
#[must_use = "nothing is called before it is awaited"]
pub struct PacedRun<'a, S, C, B, R, O> {
    pacer: &'a Pacer<S, C>,
    retry: &'a PacedRetry<B>,
    hints: R,
    operation: O,
}

impl<'a, S, C, B, R, O> PacedRun<'a, S, C, B, R, O> {
    pub(super) const fn new(pacer: &'a Pacer<S, C>, retry: &'a PacedRetry<B>, hints: R, operation: O) -> Self {
        Self { pacer, retry, hints, operation }
    }
}

impl<'a, S: Strategy, C: Clock, B: Budget, R, O> PacedRun<'a, S, C, B, R, O> {
    /// Returns a future that makes the call and sleeps by `sleep`, on any runtime.
    pub fn sleeping_by<P, F, T, E>(self, sleep: P) -> PacedFuture<&'a Pacer<S, C>, &'a B, R, O, P>
    where
        P: Sleep,
        R: ReadHints<Result<T, E>>,
        O: FnMut(u32) -> F,
        F: Future<Output = Result<T, E>>,
    {
        let Self { pacer, retry, hints, operation } = self;
        PacedFuture::new(pacer, retry.by_ref(), hints, operation, sleep)
    }
}

/// Sleeps by tokio's timer.
///
/// # Panics
///
/// If polled outside of a tokio runtime whose timer is enabled, once it sleeps. Elsewhere:
/// [`sleeping_by`](PacedRun::sleeping_by).
#[cfg(feature = "tokio")]
impl<'a, S, C, B, R, O, F, T, E> IntoFuture for PacedRun<'a, S, C, B, R, O>
where
    S: Strategy,
    C: Clock,
    B: Budget,
    R: ReadHints<Result<T, E>>,
    O: FnMut(u32) -> F,
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<T, RetryError<E>>;
    type IntoFuture = PacedFuture<&'a Pacer<S, C>, &'a B, R, O, crate::time::TokioSleep>;

    fn into_future(self) -> Self::IntoFuture {
        self.sleeping_by(crate::time::TokioSleep)
    }
}

impl<S, C, B, R, O> fmt::Debug for PacedRun<'_, S, C, B, R, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedRun").finish_non_exhaustive()
    }
}

/// Makes the attempts of a paced call: a function of the attempt's number, or a service with a request.
pub trait MakeAttempts {
    /// The value that a call returns.
    type Value;

    /// The error of an attempt.
    type Error;

    /// An attempt.
    type Attempt: Future<Output = Result<Self::Value, Self::Error>>;

    /// Makes an attempt, and keeps what another one needs unless this is the last.
    ///
    /// Returns `None` if it cannot be made any more. Attempts are counted from 1.
    fn attempt(&mut self, number: u32, is_last: bool) -> Option<Self::Attempt>;

    /// Returns whether another attempt can be made. Default: `true`.
    fn is_repeatable(&self) -> bool {
        true
    }

    /// Releases what is reserved for the first attempt. Default: does nothing.
    ///
    /// The call sleeps first, or is not made.
    fn release(&mut self) {}

    /// Polls whether an attempt can be made after a sleep. Default: at once.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        _ = context;
        Poll::Ready(Ok(()))
    }
}

impl<O: FnMut(u32) -> F, F: Future<Output = Result<T, E>>, T, E> MakeAttempts for O {
    type Value = T;
    type Error = E;
    type Attempt = F;

    #[inline]
    fn attempt(&mut self, number: u32, _: bool) -> Option<F> {
        Some(self(number))
    }
}

pin_project! {
    /// Makes a paced call: sleeps, calls, and retries while the service rejects.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct PacedFuture<G, B, R, O: MakeAttempts, P: Sleep> {
        pacer: G,
        retry: PacedRetry<B>,
        hints: R,
        operation: O,
        sleep: P,
        // `Some` once the call has begun.
        attempts: Option<PacedAttempts>,
        // The last error of an attempt.
        error: Option<O::Error>,
        #[pin]
        stage: Stage<O::Attempt, P::Sleeping>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<F, T> {
        Sleeping { #[pin] sleeping: T },
        // Until the attempt can be made, at most until the deadline.
        Readying { #[pin] until_deadline: Option<T> },
        Calling { #[pin] attempt: F },
        // There is no time for the first attempt.
        Refused { reason: GaveUp },
        Over,
    }
}

impl<G, B, R, O, P, S, C> PacedFuture<G, B, R, O, P>
where
    G: Deref<Target = Pacer<S, C>>,
    B: Budget,
    O: MakeAttempts,
    P: Sleep,
    S: Strategy,
    C: Clock,
{
    /// Creates a call that begins when it is polled, or by [`begin`](Self::begin).
    pub const fn new(pacer: G, retry: PacedRetry<B>, hints: R, operation: O, sleep: P) -> Self {
        Self { pacer, retry, hints, operation, sleep, attempts: None, error: None, stage: Stage::Over }
    }

    /// Begins the call now: makes the first attempt, or begins to sleep.
    #[inline]
    pub fn begin(mut self) -> Self {
        let (attempts, stage) = begin(&self.pacer, &self.retry, &mut self.operation, &self.sleep);
        Self { attempts: Some(attempts), stage, ..self }
    }
}

/// Begins a call.
#[inline]
fn begin<S: Strategy, C: Clock, B: Budget, O: MakeAttempts, P: Sleep>(
    pacer: &Pacer<S, C>,
    retry: &PacedRetry<B>,
    operation: &mut O,
    sleep: &P,
) -> (PacedAttempts, Stage<O::Attempt, P::Sleeping>) {
    let mut attempts = pacer.begin();
    let stage = match attempts.before_call(pacer, retry) {
        Ok(wait) if wait.is_zero() => {
            attempt(&mut attempts, retry, operation).map_or(Stage::Over, |attempt| Stage::Calling { attempt })
        }
        Ok(wait) => {
            operation.release();
            Stage::Sleeping { sleeping: sleep.sleep(wait) }
        }
        Err(reason) => {
            operation.release();
            Stage::Refused { reason }
        }
    };
    (attempts, stage)
}

/// Makes the next attempt.
#[inline]
fn attempt<B: Budget, O: MakeAttempts>(
    attempts: &mut PacedAttempts,
    retry: &PacedRetry<B>,
    operation: &mut O,
) -> Option<O::Attempt> {
    let number = attempts.begin_attempt(retry);
    operation.attempt(number, number >= retry.max_attempts())
}

impl<G, B, R, O, P, S, C> Future for PacedFuture<G, B, R, O, P>
where
    G: Deref<Target = Pacer<S, C>>,
    B: Budget,
    R: ReadHints<Result<O::Value, O::Error>>,
    O: MakeAttempts,
    P: Sleep,
    S: Strategy,
    C: Clock,
{
    type Output = Result<O::Value, RetryError<O::Error>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let (pacer, retry, operation) = (&**this.pacer, &*this.retry, this.operation);
        let attempts = if let Some(attempts) = this.attempts {
            attempts
        } else {
            let (begun, stage) = begin(pacer, retry, operation, this.sleep);
            this.stage.set(stage);
            this.attempts.insert(begun)
        };
        let result = loop {
            let next = match this.stage.as_mut().project() {
                StageProjection::Sleeping { sleeping } => {
                    ready!(sleeping.poll(context));
                    match attempts.after_sleep(pacer, retry) {
                        Ok(Some(longer)) => Stage::Sleeping { sleeping: this.sleep.sleep(longer) },
                        Ok(None) => Stage::Readying { until_deadline: None },
                        Err(reason) => break Err((reason, this.error.take())),
                    }
                }
                StageProjection::Readying { mut until_deadline } => {
                    let left = attempts.time_left(pacer, retry);
                    if left.is_zero() {
                        break Err((GaveUp::Deadline { hint: None }, this.error.take()));
                    }
                    match operation.poll_ready(context) {
                        Poll::Ready(Ok(())) => match attempt(attempts, retry, operation) {
                            Some(attempt) => Stage::Calling { attempt },
                            None => return Poll::Pending,
                        },
                        Poll::Ready(Err(error)) => break Err((GaveUp::NotRetryable, Some(error))),
                        Poll::Pending => {
                            if until_deadline.is_none() && left < Duration::MAX {
                                until_deadline.set(Some(this.sleep.sleep(left)));
                            }
                            let Some(timer) = until_deadline.as_pin_mut() else { return Poll::Pending };
                            ready!(timer.poll(context));
                            break Err((GaveUp::Deadline { hint: None }, this.error.take()));
                        }
                    }
                }
                StageProjection::Calling { attempt } => {
                    let outcome = ready!(attempt.poll(context));
                    let answer = this.hints.hints(&outcome);
                    match (attempts.answered(pacer, retry, &answer), outcome) {
                        (Ok(Some(wait)), outcome) if operation.is_repeatable() => {
                            *this.error = outcome.err().or_else(|| this.error.take());
                            Stage::Sleeping { sleeping: this.sleep.sleep(wait) }
                        }
                        (_, Ok(value)) => break Ok(value),
                        (reason, Err(error)) => break Err((reason.err().unwrap_or(GaveUp::NotRetryable), Some(error))),
                    }
                }
                StageProjection::Refused { reason } => break Err((*reason, None)),
                // Polled again after it was ready.
                StageProjection::Over => return Poll::Pending,
            };
            this.stage.set(next);
        };
        this.stage.set(Stage::Over);
        Poll::Ready(result.map_err(|(reason, error)| attempts.gave_up(pacer, reason, error)))
    }
}

impl<G, B, R, O: MakeAttempts, P: Sleep> fmt::Debug for PacedFuture<G, B, R, O, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Sleeping { .. } => "sleeping",
            Stage::Readying { .. } => "readying",
            Stage::Calling { .. } => "calling",
            Stage::Refused { .. } => "refused",
            Stage::Over => "over",
        };
        f.debug_struct("PacedFuture").field("stage", &stage).finish_non_exhaustive()
    }
}
