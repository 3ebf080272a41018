//! Asynchronous calls with retries: a call before it is awaited, and its future.

use super::attempts_future::{AttemptsFuture, MakeAttempts, Next};
use super::{Attempt, Attempts, Budget, Failure, GaveUp, RepeatedCall, Retry, RetryError};
use crate::Reads;
use crate::time::{Clock, Sleep};
use core::fmt;
use core::task::{Context, Poll};
use core::time::Duration;

impl<'a, C: Clock + Clone, B: Budget, V, O> RepeatedCall<&'a Retry<C, B, V>, O> {
    /// Returns a future that makes the call and sleeps by `sleep`, on any runtime.
    pub fn sleeping_by<S, F, T, E>(self, sleep: S) -> RetryFuture<'a, C, B, V, O, S>
    where
        S: Sleep,
        V: Reads<Result<T, E>, Option<Failure>>,
        O: FnMut(Attempt<C>) -> F,
        F: Future<Output = Result<T, E>>,
    {
        let Self { policy: retry, operation } = self;
        AttemptsFuture::new(RetryCalls { retry, operation, sleep, attempts: None, begun: 0 })
    }
}

/// Sleeps by tokio's timer.
///
/// # Panics
///
/// If it waits for its next attempt outside a tokio runtime with a timer. Elsewhere use
/// [`sleeping_by`](RepeatedCall::sleeping_by).
#[cfg(feature = "tokio")]
impl<'a, C, B, V, O, F, T, E> IntoFuture for RepeatedCall<&'a Retry<C, B, V>, O>
where
    C: Clock + Clone,
    B: Budget,
    V: Reads<Result<T, E>, Option<Failure>>,
    O: FnMut(Attempt<C>) -> F,
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<T, RetryError<E>>;
    type IntoFuture = RetryFuture<'a, C, B, V, O, crate::time::TokioSleep>;

    fn into_future(self) -> Self::IntoFuture {
        self.sleeping_by(crate::time::TokioSleep)
    }
}

/// Makes the attempts of an asynchronous call, and sleeps between them.
pub(super) type RetryFuture<'a, C, B, V, O, S> = AttemptsFuture<RetryCalls<'a, C, B, V, O, S>>;

/// The attempts of an asynchronous call, as their future makes them.
pub struct RetryCalls<'a, C, B, V, O, S> {
    retry: &'a Retry<C, B, V>,
    operation: O,
    sleep: S,
    /// `Some` once the call has begun.
    attempts: Option<Attempts<C>>,
    /// The attempts that were begun. A planned one does not count.
    begun: u32,
}

impl<C, B, V, O, F, S, T, E> MakeAttempts for RetryCalls<'_, C, B, V, O, S>
where
    C: Clock + Clone,
    B: Budget,
    V: Reads<Result<T, E>, Option<Failure>>,
    O: FnMut(Attempt<C>) -> F,
    F: Future<Output = Result<T, E>>,
    S: Sleep,
{
    type Value = T;
    type Error = E;
    type Attempt = F;
    type GivenUp = RetryError<E>;
    type Sleep = S;

    #[inline]
    fn sleep(&self) -> &S {
        &self.sleep
    }

    /// The sleep may have been longer.
    fn after_wait(&mut self) -> Result<Option<Duration>, GaveUp> {
        let attempts = self.attempts.get_or_insert_with(|| self.retry.begin());
        if attempts.deadline().is_expired() { Err(GaveUp::Deadline { hint: None }) } else { Ok(None) }
    }

    #[inline]
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), E>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn attempt(&mut self) -> Option<F> {
        let attempts = self.attempts.as_ref()?;
        self.begun = attempts.number();
        Some((self.operation)(attempts.attempt()))
    }

    #[inline]
    fn judge(&mut self, outcome: &mut Result<T, E>) -> Next {
        match &mut self.attempts {
            Some(attempts) => self.retry.judge(attempts, outcome).map_or_else(Next::Over, Next::Again),
            None => Next::TooLate,
        }
    }

    #[inline]
    fn time_to_begin(&self) -> Duration {
        self.time_to_end()
    }

    #[inline]
    fn time_to_end(&self) -> Duration {
        self.attempts.as_ref().map_or(Duration::MAX, |attempts| attempts.deadline().remaining())
    }

    #[cold]
    fn give_up(&self, reason: GaveUp, error: Option<E>, previous: Option<E>) -> RetryError<E> {
        let elapsed = match &self.attempts {
            Some(attempts) if self.begun > 0 => attempts.elapsed(self.retry),
            _ => Duration::ZERO,
        };
        RetryError::new(reason, self.begun, elapsed, error).with_previous_error(previous)
    }
}

impl<C, B, V, O, S> fmt::Debug for RetryCalls<'_, C, B, V, O, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryCalls").field("begun", &self.begun).finish_non_exhaustive()
    }
}
