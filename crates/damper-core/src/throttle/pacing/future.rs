//! The calls of asynchronous code.

use super::{PacedAttempts, PacedRetry, Pacer, ReadHints, Strategy};
use crate::retry::{Budget, RetryError};
use crate::time::{Clock, Sleep};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
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
/// not learn from it. A retry that was withdrawn from the budget is spent. Polled again after it was ready, it makes the call anew.
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
    pub fn sleeping_by<P, F, T, E>(self, sleep: P) -> PacedFuture<'a, S, C, B, R, O, F, P, E>
    where
        P: Sleep,
        R: ReadHints<Result<T, E>>,
        O: FnMut(u32) -> F,
        F: Future<Output = Result<T, E>>,
    {
        PacedFuture { run: self, sleep, attempts: None, error: None, attempt: None, sleeping: None }
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
    type IntoFuture = PacedFuture<'a, S, C, B, R, O, F, crate::time::TokioSleep, E>;

    fn into_future(self) -> Self::IntoFuture {
        self.sleeping_by(crate::time::TokioSleep)
    }
}

impl<S, C, B, R, O> fmt::Debug for PacedRun<'_, S, C, B, R, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedRun").finish_non_exhaustive()
    }
}

pin_project! {
    /// Makes a paced call: sleeps, calls, and retries while the service rejects.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct PacedFuture<'a, S, C, B, R, O, F, P: Sleep, E> {
        run: PacedRun<'a, S, C, B, R, O>,
        sleep: P,
        // `Some` while the call is in progress.
        attempts: Option<PacedAttempts>,
        // The last error of an attempt.
        error: Option<E>,
        #[pin]
        attempt: Option<F>,
        #[pin]
        sleeping: Option<P::Sleeping>,
    }
}

impl<S, C, B, R, O, F, P, T, E> Future for PacedFuture<'_, S, C, B, R, O, F, P, E>
where
    S: Strategy,
    C: Clock,
    B: Budget,
    R: ReadHints<Result<T, E>>,
    O: FnMut(u32) -> F,
    F: Future<Output = Result<T, E>>,
    P: Sleep,
{
    type Output = Result<T, RetryError<E>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let PacedRun { pacer, retry, hints, operation } = this.run;
        loop {
            let Some(attempts) = this.attempts else {
                let mut attempts = pacer.begin();
                match attempts.before_call(pacer, retry) {
                    Ok(wait) if wait.is_zero() => {}
                    Ok(wait) => this.sleeping.set(Some(this.sleep.sleep(wait))),
                    Err(reason) => return Poll::Ready(Err(attempts.gave_up(pacer, reason, None))),
                }
                *this.attempts = Some(attempts);
                continue;
            };
            if let Some(sleeping) = this.sleeping.as_mut().as_pin_mut() {
                ready!(sleeping.poll(context));
                match attempts.after_sleep(pacer, retry) {
                    Ok(longer) => this.sleeping.set(longer.map(|wait| this.sleep.sleep(wait))),
                    Err(reason) => {
                        let error = attempts.gave_up(pacer, reason, this.error.take());
                        this.sleeping.set(None);
                        *this.attempts = None;
                        return Poll::Ready(Err(error));
                    }
                }
                continue;
            }
            let Some(attempt) = this.attempt.as_mut().as_pin_mut() else {
                this.attempt.set(Some(operation(attempts.begin_attempt(retry))));
                continue;
            };
            let outcome = ready!(attempt.poll(context));
            this.attempt.set(None);
            let answer = hints.hints(&outcome);
            let result = match (attempts.answered(pacer, retry, &answer), outcome) {
                (Ok(Some(wait)), outcome) => {
                    *this.error = outcome.err().or(this.error.take());
                    this.sleeping.set(Some(this.sleep.sleep(wait)));
                    continue;
                }
                (_, Ok(value)) => Ok(value),
                (reason, Err(error)) => Err(attempts.failed(pacer, reason.err(), error)),
            };
            (*this.attempts, *this.error) = (None, None);
            return Poll::Ready(result);
        }
    }
}

impl<S, C, B, R, O, F, P: Sleep, E> fmt::Debug for PacedFuture<'_, S, C, B, R, O, F, P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_calling = self.attempt.is_some();
        f.debug_struct("PacedFuture").field("is_calling", &is_calling).finish_non_exhaustive()
    }
}
