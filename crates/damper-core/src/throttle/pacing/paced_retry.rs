//! The number and time of retries of a rejected call.

use super::{Hints, Pacer, SeenPause, Strategy};
use crate::deadline::Deadline;
use crate::retry::{Budget, Failure, GaveUp, RetryError, Unlimited};
use crate::throttle::PaceTooSlow;
use crate::time::Clock;
use core::time::Duration;

/// The bounds of the retries of a rejected call: attempts, time and [budget](Budget).
///
/// The pacer decides when to retry.
///
/// A paced client is rejected rarely, and a call then succeeds at the second or third attempt. So these bounds are for services
/// that have become slower than their stated limit, or are down.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::throttle::PacedRetry;
///
/// const RETRY: PacedRetry = PacedRetry::new(5).max_time(Duration::from_secs(30));
/// assert_eq!(RETRY.max_attempts(), 5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a policy does nothing by itself: pass it to a pacer's `call` or `run`"]
pub struct PacedRetry<B = Unlimited> {
    max_attempts: u32,
    max_time: Duration,
    budget: B,
}

impl PacedRetry {
    /// At most ten attempts within 5 minutes, without a budget.
    pub const DEFAULT: Self = Self::new(10);

    /// Creates a policy of at most `max_attempts` attempts, within 5 minutes and without a budget.
    ///
    /// The first attempt counts too; 0 counts as 1.
    pub const fn new(max_attempts: u32) -> Self {
        let max_attempts = if max_attempts == 0 { 1 } else { max_attempts };
        Self { max_attempts, max_time: Duration::from_secs(5 * 60), budget: Unlimited }
    }
}

impl Default for PacedRetry {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl<B> PacedRetry<B> {
    /// Sets the longest time of a call, including all its sleeps. Default: 5 min.
    ///
    /// The sleep before the first attempt counts too. A call that would have to sleep for longer is given up at once. An attempt
    /// is not interrupted: put a timeout into it.
    pub const fn max_time(mut self, longest: Duration) -> Self {
        self.max_time = longest;
        self
    }

    /// Shortens the longest time to the time left of a deadline now: for the policy of one call.
    pub fn deadline<C: Clock>(mut self, deadline: &Deadline<C>) -> Self {
        self.max_time = self.max_time.min(deadline.remaining());
        self
    }

    /// Sets the budget that calls share, by reference or in an `Arc`. Default: [`Unlimited`].
    pub fn budget<N: Budget>(self, budget: N) -> PacedRetry<N> {
        PacedRetry { max_attempts: self.max_attempts, max_time: self.max_time, budget }
    }

    /// Returns the policy with a reference to its budget.
    pub(super) const fn by_ref(&self) -> PacedRetry<&B> {
        PacedRetry { max_attempts: self.max_attempts, max_time: self.max_time, budget: &self.budget }
    }

    /// Splits the budget off, so that each call can have another one.
    pub(crate) fn split_budget(self) -> (PacedRetry, B) {
        let Self { max_attempts, max_time, budget } = self;
        (PacedRetry { max_attempts, max_time, budget: Unlimited }, budget)
    }

    /// Returns the most attempts that are made, the first included.
    #[must_use]
    pub const fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// Returns the longest time of a call.
    #[must_use]
    pub const fn longest_time(&self) -> Duration {
        self.max_time
    }
}

/// One call in progress: it says how long to sleep before each attempt, and when to give up.
///
/// Made by [`Pacer::begin`].
///
/// It neither calls nor sleeps, so it fits into any middleware. Dropping it has no effect. Pass the same pacer and the same
/// policy each time.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::Quota;
/// use damper::retry::GaveUp;
/// use damper::throttle::{Hints, PacedRetry, Pacer};
///
/// let pacer = Pacer::new(Quota::per_hour(4500));
/// let retry = PacedRetry::new(2);
/// let mut attempts = pacer.begin();
/// let wait = attempts.before_call(&pacer, &retry)?;
/// // sleep for `wait`, and for what `after_sleep` returns
/// attempts.begin_attempt(&retry);
/// // the service rejects the call
/// let wait = attempts.answered(&pacer, &retry, &Hints::REJECTED)?.unwrap();
/// // sleep for `wait`, and for what `after_sleep` returns
/// attempts.begin_attempt(&retry);
/// // the service rejects it again
/// assert_eq!(attempts.answered(&pacer, &retry, &Hints::REJECTED), Err(GaveUp::Attempts));
/// # }
/// # Ok::<(), damper::retry::GaveUp>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PacedAttempts {
    /// The attempts that were begun.
    number: u32,
    /// The start of the call, in microseconds of the pacer's clock.
    began: u64,
    /// The pause that the present sleep takes into account.
    pause: SeenPause,
}

impl PacedAttempts {
    pub(super) const fn new(began: u64, pause: SeenPause) -> Self {
        Self { number: 0, began, pause }
    }

    /// Returns how many attempts were begun.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Counts an attempt that begins.
    ///
    /// Returns the attempt's number, counted from 1. With the first attempt the budget counts the call.
    pub fn begin_attempt<B: Budget>(&mut self, retry: &PacedRetry<B>) -> u32 {
        if self.number == 0 {
            retry.budget.began();
        }
        self.number = self.number.saturating_add(1);
        self.number
    }

    /// Returns how long to sleep before the first attempt.
    ///
    /// # Errors
    ///
    /// [`GaveUp::Paced`] if the sleep exceeds the time of the call, [`GaveUp::Deadline`] if there is no sleep and the time is
    /// over.
    pub fn before_call<S: Strategy, C: Clock, B>(
        &mut self,
        pacer: &Pacer<S, C>,
        retry: &PacedRetry<B>,
    ) -> Result<Duration, GaveUp> {
        self.pause = SeenPause::of(pacer);
        let wait = pacer.before_call_within(|| self.time_left(pacer, retry));
        let left = self.time_left(pacer, retry);
        if wait < left {
            Ok(wait)
        } else if wait.is_zero() {
            Err(GaveUp::Deadline { hint: None })
        } else {
            Err(GaveUp::Paced(PaceTooSlow::new(wait, left)))
        }
    }

    /// Learns from the response to the present attempt.
    ///
    /// Returns how long to sleep before the next one, `None` if the service did not reject this one.
    ///
    /// # Errors
    ///
    /// The reason why there is no further attempt: the call has ended.
    pub fn answered<S: Strategy, C: Clock, B: Budget>(
        &mut self,
        pacer: &Pacer<S, C>,
        retry: &PacedRetry<B>,
        hints: &Hints,
    ) -> Result<Option<Duration>, GaveUp> {
        self.pause = SeenPause::of(pacer);
        let is_last = self.number >= retry.max_attempts;
        let longest = || if is_last { Duration::ZERO } else { self.time_left(pacer, retry) };
        let Some(wait) = pacer.answered_within(hints, longest) else {
            if hints.is_accepted() {
                // Retries are made after a server's refusal.
                if self.number > 1 {
                    retry.budget.retry_succeeded(Failure::THROTTLED);
                } else {
                    retry.budget.succeeded();
                }
            }
            return Ok(None);
        };
        retry.budget.failed();
        if is_last {
            return Err(GaveUp::Attempts);
        }
        let left = self.time_left(pacer, retry);
        if wait >= left {
            return Err(GaveUp::Deadline { hint: hints.retry_after.filter(|hint| *hint >= left) });
        }
        // Last, because it spends from the budget.
        if retry.budget.try_withdraw_after(Failure::THROTTLED) { Ok(Some(wait)) } else { Err(GaveUp::Budget) }
    }

    /// Returns the time since the call began, on the pacer's clock.
    #[must_use]
    pub fn elapsed<S: Strategy, C: Clock>(&self, pacer: &Pacer<S, C>) -> Duration {
        pacer.since(self.began)
    }

    /// Returns how much longer to sleep after a sleep, `None` if the attempt can begin.
    ///
    /// The service may have asked for a pause meanwhile.
    ///
    /// # Errors
    ///
    /// If the sleep took all of the time of the call, or the rest exceeds the time left: [`GaveUp::Paced`] before the first
    /// attempt, else [`GaveUp::Deadline`].
    pub fn after_sleep<S: Strategy, C: Clock, B>(
        &mut self,
        pacer: &Pacer<S, C>,
        retry: &PacedRetry<B>,
    ) -> Result<Option<Duration>, GaveUp> {
        let left = self.time_left(pacer, retry);
        let longer = if left.is_zero() { None } else { self.pause.extension(pacer) };
        if longer.unwrap_or_default() < left {
            Ok(longer)
        } else if self.number == 0 {
            Err(GaveUp::Paced(PaceTooSlow::new(longer.unwrap_or_else(|| self.elapsed(pacer)), left)))
        } else {
            Err(GaveUp::Deadline { hint: longer })
        }
    }

    /// Returns the time left of the call.
    #[must_use]
    pub fn time_left<S: Strategy, C: Clock, B>(&self, pacer: &Pacer<S, C>, retry: &PacedRetry<B>) -> Duration {
        retry.max_time.saturating_sub(self.elapsed(pacer))
    }

    /// Returns the error of a call that was given up.
    #[cold]
    pub(super) fn gave_up<S: Strategy, C: Clock, E>(
        &self,
        pacer: &Pacer<S, C>,
        reason: GaveUp,
        error: Option<E>,
    ) -> RetryError<E> {
        RetryError::new(reason, self.number, self.elapsed(pacer), error)
    }

    /// Returns the error of a call whose last attempt failed; with a reason it was a rejection.
    #[cold]
    pub(super) fn failed<S: Strategy, C: Clock, E>(
        &self,
        pacer: &Pacer<S, C>,
        reason: Option<GaveUp>,
        error: E,
    ) -> RetryError<E> {
        self.gave_up(pacer, reason.unwrap_or(GaveUp::NotRetryable), Some(error))
    }
}
