//! The calls of asynchronous code.

use super::{Hints, PacedAttempts, PacedRetry, Pacer, Strategy};
use crate::Reads;
use crate::retry::attempts_future::{AttemptsFuture, MakeAttempts, Next};
use crate::retry::{Budget, GaveUp, RepeatedCall, RetryError};
use crate::time::{Clock, Sleep};
use core::fmt;
use core::ops::Deref;
use core::task::{Context, Poll};
use core::time::Duration;

impl<'a, S: Strategy, C: Clock, B: Budget, R, O> RepeatedCall<(&'a Pacer<S, C>, &'a PacedRetry<B>, R), O> {
    /// Returns a future that makes the call and sleeps by `sleep`, on any runtime.
    pub fn sleeping_by<P, F, T, E>(self, sleep: P) -> PacedFuture<&'a Pacer<S, C>, &'a B, R, O, P>
    where
        P: Sleep,
        R: Reads<Result<T, E>, Hints>,
        O: FnMut(u32) -> F,
        F: Future<Output = Result<T, E>>,
    {
        let Self { policy: (pacer, retry, hints), operation } = self;
        AttemptsFuture::new(PacedCalls::new(pacer, retry.by_ref(), hints, operation, sleep))
    }
}

/// Sleeps by tokio's timer.
///
/// # Panics
///
/// If polled outside of a tokio runtime whose timer is enabled, once it sleeps. Elsewhere:
/// [`sleeping_by`](RepeatedCall::sleeping_by).
#[cfg(feature = "tokio")]
impl<'a, S, C, B, R, O, F, T, E> IntoFuture for RepeatedCall<(&'a Pacer<S, C>, &'a PacedRetry<B>, R), O>
where
    S: Strategy,
    C: Clock,
    B: Budget,
    R: Reads<Result<T, E>, Hints>,
    O: FnMut(u32) -> F,
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<T, RetryError<E>>;
    type IntoFuture = PacedFuture<&'a Pacer<S, C>, &'a B, R, O, crate::time::TokioSleep>;

    fn into_future(self) -> Self::IntoFuture {
        self.sleeping_by(crate::time::TokioSleep)
    }
}

/// The operation of a paced call: a function of the attempt's number, or a service with a request.
pub trait PacedOperation {
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

impl<O: FnMut(u32) -> F, F: Future<Output = Result<T, E>>, T, E> PacedOperation for O {
    type Value = T;
    type Error = E;
    type Attempt = F;

    #[inline]
    fn attempt(&mut self, number: u32, _: bool) -> Option<F> {
        Some(self(number))
    }
}

/// Makes a paced call: sleeps, calls, and retries while the service rejects.
pub type PacedFuture<G, B, R, O, P> = AttemptsFuture<PacedCalls<G, B, R, O, P>>;

/// The attempts of a paced call, as their future makes them.
pub struct PacedCalls<G, B, R, O, P> {
    pacer: G,
    retry: PacedRetry<B>,
    hints: R,
    operation: O,
    sleep: P,
    /// `Some` once the call has begun.
    attempts: Option<PacedAttempts>,
}

impl<G, B, R, O, P, S, C> PacedCalls<G, B, R, O, P>
where
    G: Deref<Target = Pacer<S, C>>,
    B: Budget,
    R: Reads<Result<O::Value, O::Error>, Hints>,
    O: PacedOperation,
    P: Sleep,
    S: Strategy,
    C: Clock,
{
    /// Creates the attempts of a call, which begins when its future is polled, or by [`begin`](Self::begin).
    pub const fn new(pacer: G, retry: PacedRetry<B>, hints: R, operation: O, sleep: P) -> Self {
        Self { pacer, retry, hints, operation, sleep, attempts: None }
    }

    /// Begins the call now: makes the first attempt, or begins to sleep.
    #[inline]
    pub fn begin(mut self) -> PacedFuture<G, B, R, O, P> {
        match self.after_wait() {
            Ok(None) => match self.attempt() {
                Some(attempt) => AttemptsFuture::calling(self, attempt),
                None => AttemptsFuture::new(self),
            },
            Ok(Some(wait)) => {
                self.operation.release();
                AttemptsFuture::waiting(self, wait)
            }
            Err(reason) => {
                self.operation.release();
                let error = self.give_up(reason, None, None);
                AttemptsFuture::not_begun(self, error)
            }
        }
    }
}

impl<G, B, R, O, P, S, C> MakeAttempts for PacedCalls<G, B, R, O, P>
where
    G: Deref<Target = Pacer<S, C>>,
    B: Budget,
    R: Reads<Result<O::Value, O::Error>, Hints>,
    O: PacedOperation,
    P: Sleep,
    S: Strategy,
    C: Clock,
{
    type Value = O::Value;
    type Error = O::Error;
    type Attempt = O::Attempt;
    type GivenUp = RetryError<O::Error>;
    type Sleep = P;

    #[inline]
    fn sleep(&self) -> &P {
        &self.sleep
    }

    #[inline]
    fn after_wait(&mut self) -> Result<Option<Duration>, GaveUp> {
        let Self { pacer, retry, attempts, .. } = self;
        if let Some(attempts) = attempts {
            return attempts.after_sleep(pacer, retry);
        }
        let wait = attempts.insert(pacer.begin()).before_call(pacer, retry)?;
        Ok(if wait.is_zero() { None } else { Some(wait) })
    }

    #[inline]
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), O::Error>> {
        self.operation.poll_ready(context)
    }

    #[inline]
    fn attempt(&mut self) -> Option<O::Attempt> {
        let number = self.attempts.as_mut()?.begin_attempt(&self.retry);
        self.operation.attempt(number, number >= self.retry.max_attempts())
    }

    #[inline]
    fn judge(&mut self, outcome: &mut Result<O::Value, O::Error>) -> Next {
        let Self { pacer, retry, hints, operation, attempts, .. } = self;
        let answered = attempts.as_mut().map(|attempts| attempts.answered(pacer, retry, &hints.read_from(outcome)));
        match answered {
            Some(Ok(Some(wait))) if operation.is_repeatable() => Next::Again(wait),
            Some(Err(reason)) => Next::Over(reason),
            _ => Next::Over(GaveUp::NotRetryable),
        }
    }

    #[inline]
    fn time_to_begin(&self) -> Duration {
        self.attempts.map_or(Duration::MAX, |attempts| attempts.time_left(&self.pacer, &self.retry))
    }

    #[cold]
    fn give_up(&self, reason: GaveUp, error: Option<O::Error>, _: Option<O::Error>) -> RetryError<O::Error> {
        let attempts = self.attempts.unwrap_or_else(|| self.pacer.begin());
        attempts.gave_up(&self.pacer, reason, error)
    }
}

impl<G, B, R, O, P> fmt::Debug for PacedCalls<G, B, R, O, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedCalls").field("attempts", &self.attempts).finish_non_exhaustive()
    }
}
