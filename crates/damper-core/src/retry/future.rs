//! Asynchronous calls with retries: a call before it is awaited, and its future.

use super::{Attempt, Attempts, Budget, GaveUp, Judgement, Retry, RetryError, Retryable};
use crate::time::{Clock, Sleep};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use pin_project_lite::pin_project;

/// An asynchronous call with retries. Made by [`Retry::run`].
///
/// It does nothing until it is awaited. If it has a deadline, an attempt still in flight then is dropped.
///
/// # Errors
///
/// [`RetryError`], as for `Retry::call`.
///
/// # Cancel safety
///
/// Dropping its future drops the attempt in flight, and no other attempt is made. A retry already withdrawn from the budget for
/// that attempt is spent. A poll after completion makes the call again.
#[must_use = "nothing is called before it is awaited"]
pub struct RetryRun<'a, C, B, V, O> {
    pub(super) retry: &'a Retry<C, B, V>,
    pub(super) operation: O,
}

impl<'a, C: Clock + Clone, B: Budget, V, O> RetryRun<'a, C, B, V, O> {
    /// Returns a future that makes the call and sleeps by `sleep`, on any runtime.
    pub fn sleeping_by<S, F, T, E>(self, sleep: S) -> RetryFuture<'a, C, B, V, O, F, S, E>
    where
        S: Sleep,
        V: Retryable<T, E>,
        O: FnMut(Attempt<C>) -> F,
        F: Future<Output = Result<T, E>>,
    {
        RetryFuture::new(self.retry, self.operation, sleep)
    }
}

/// Sleeps by tokio's timer.
///
/// # Panics
///
/// If it waits for its next attempt outside a tokio runtime with a timer. Elsewhere use
/// [`sleeping_by`](RetryRun::sleeping_by).
#[cfg(feature = "tokio")]
impl<'a, C, B, V, O, F, T, E> IntoFuture for RetryRun<'a, C, B, V, O>
where
    C: Clock + Clone,
    B: Budget,
    V: Retryable<T, E>,
    O: FnMut(Attempt<C>) -> F,
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<T, RetryError<E>>;
    type IntoFuture = RetryFuture<'a, C, B, V, O, F, crate::time::TokioSleep, E>;

    fn into_future(self) -> Self::IntoFuture {
        self.sleeping_by(crate::time::TokioSleep)
    }
}

impl<C, B, V, O> fmt::Debug for RetryRun<'_, C, B, V, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryRun").finish_non_exhaustive()
    }
}

pin_project! {
    /// Makes the attempts of an asynchronous call, and sleeps between them.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct RetryFuture<'a, C, B, V, O, F, S: Sleep, E> {
        retry: &'a Retry<C, B, V>,
        operation: O,
        sleep: S,
        // `Some` while the call is in flight.
        attempts: Option<Attempts<C>>,
        // The last error of an attempt.
        error: Option<E>,
        #[pin]
        attempt: Option<F>,
        // Sleeps until the deadline during an attempt, and until the next attempt otherwise.
        #[pin]
        sleeping: Option<S::Sleeping>,
    }
}

impl<'a, C, B, V, O, F, S: Sleep, E> RetryFuture<'a, C, B, V, O, F, S, E> {
    pub(super) const fn new(retry: &'a Retry<C, B, V>, operation: O, sleep: S) -> Self {
        Self { retry, operation, sleep, attempts: None, error: None, attempt: None, sleeping: None }
    }
}

impl<C, B, V, O, F, S, T, E> Future for RetryFuture<'_, C, B, V, O, F, S, E>
where
    C: Clock + Clone,
    B: Budget,
    V: Retryable<T, E>,
    O: FnMut(Attempt<C>) -> F,
    F: Future<Output = Result<T, E>>,
    S: Sleep,
{
    type Output = Result<T, RetryError<E>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let Some(attempts) = this.attempts else {
                let attempts = this.retry.begin();
                if attempts.deadline().is_expired() {
                    let reason = GaveUp::Deadline { hint: None };
                    return Poll::Ready(Err(RetryError::new(reason, 0, Duration::ZERO, None)));
                }
                *this.attempts = Some(attempts);
                continue;
            };
            match this.attempt.as_mut().as_pin_mut().map(|attempt| attempt.poll(context)) {
                Some(Poll::Ready(outcome)) => {
                    this.attempt.set(None);
                    match this.retry.judge(attempts, outcome) {
                        Judgement::Over(result) => {
                            this.sleeping.set(None);
                            *this.attempts = None;
                            let previous = this.error.take();
                            return Poll::Ready(result.map_err(|error| error.with_previous_error(previous)));
                        }
                        Judgement::Again(wait, error) => {
                            *this.error = error.or(this.error.take());
                            this.sleeping.set(Some(this.sleep.sleep(wait)));
                        }
                    }
                }
                Some(Poll::Pending) => {
                    let Some(until_deadline) = this.sleeping.as_mut().as_pin_mut() else { return Poll::Pending };
                    ready!(until_deadline.poll(context));
                    let left = attempts.deadline().remaining();
                    if left.is_zero() {
                        let error = this.retry.give_up(attempts, GaveUp::Deadline { hint: None }, this.error.take());
                        this.attempt.set(None);
                        this.sleeping.set(None);
                        *this.attempts = None;
                        return Poll::Ready(Err(error));
                    }
                    // The timer's clock is ahead of the deadline's.
                    this.sleeping.set(Some(this.sleep.sleep(left)));
                }
                None => {
                    if let Some(wait) = this.sleeping.as_mut().as_pin_mut() {
                        ready!(wait.poll(context));
                        this.sleeping.set(None);
                        // The sleep may have been longer.
                        if attempts.deadline().is_expired() {
                            let error = this.retry.out_of_time(attempts, this.error.take());
                            *this.attempts = None;
                            return Poll::Ready(Err(error));
                        }
                    }
                    this.attempt.set(Some((this.operation)(attempts.attempt())));
                    if !attempts.deadline().is_never() {
                        this.sleeping.set(Some(this.sleep.sleep(attempts.deadline().remaining())));
                    }
                }
            }
        }
    }
}

impl<C, B, V, O, F, S: Sleep, E> fmt::Debug for RetryFuture<'_, C, B, V, O, F, S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_calling = self.attempt.is_some();
        f.debug_struct("RetryFuture").field("is_calling", &is_calling).finish_non_exhaustive()
    }
}
