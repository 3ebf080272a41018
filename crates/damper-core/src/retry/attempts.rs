//! The attempts of one call.

use super::failure::{FailureKind, ServerHint};
use super::{Budget, Failure, GaveUp, Retry, RetrySchedule};
use crate::deadline::Deadline;
use crate::time::random::{self, SplitMix};
use crate::time::{Clock, DefaultClock};
use core::fmt;
use core::time::Duration;

/// The attempts of one call: decides whether and when there is another. Made by [`Retry::begin`].
///
/// It neither calls nor sleeps, so it fits into any middleware. Dropping it has no effect.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::retry::{Failure, GaveUp, Retry};
///
/// let retry = Retry::new(2);
/// let mut attempts = retry.begin();
/// // the first attempt fails
/// let wait = attempts.failed(&retry, Failure::TRANSIENT)?;
/// // sleep for `wait`; the second attempt fails
/// assert_eq!(attempts.failed(&retry, Failure::TRANSIENT), Err(GaveUp::Attempts));
/// # }
/// # Ok::<(), damper::retry::GaveUp>(())
/// ```
#[derive(Clone)]
pub struct Attempts<C = DefaultClock> {
    /// The number of attempts begun.
    number: u32,
    /// The retries that the backoff counts. A pushback restarts the count.
    retries: u32,
    /// The previous wait, in nanoseconds.
    previous: u64,
    /// Where jitter comes from. `None` until the first wait, if the seed is drawn from the operating system.
    random: Option<SplitMix>,
    /// The clock's reading when the call began.
    began: u64,
    deadline: Deadline<C>,
    /// The schedule that was in force when the call began, if the policy has one.
    schedule: Option<RetrySchedule>,
    /// Whether a retry was free because the call was unprocessed.
    had_free_retry: bool,
    /// Whether a retry was [transparent](Failure::transparent). It counts in `number`, but not in `max_attempts`.
    had_transparent_retry: bool,
    /// The kind of failure after which the present attempt was withdrawn from the budget, if it was.
    withdrawn_after: Option<FailureKind>,
}

/// The argument of a retried operation: the attempt's number, and the call's deadline.
#[derive(Clone, Copy)]
pub struct Attempt<C = DefaultClock> {
    number: u32,
    deadline: Deadline<C>,
}

impl<C> Attempt<C> {
    /// Returns the number of the attempt, counted from 1.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Returns the deadline of the whole call.
    #[must_use]
    pub const fn deadline(&self) -> &Deadline<C> {
        &self.deadline
    }
}

impl<C: Clock + Clone> Attempts<C> {
    /// Begins with this seed of the jitter; without one, it is drawn before the first wait.
    pub(super) fn new(clock: &C, deadline: Deadline<C>, seed: Option<u64>, schedule: Option<RetrySchedule>) -> Self {
        let (random, began) = (seed.map(SplitMix::new), clock.now());
        Self {
            number: 1,
            retries: 0,
            previous: 0,
            random,
            began,
            deadline,
            schedule,
            had_free_retry: false,
            had_transparent_retry: false,
            withdrawn_after: None,
        }
    }

    /// Returns the number of the present attempt, counted from 1.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Returns whether the policy allows no further attempt, except a [transparent](Failure::transparent) one.
    #[must_use]
    pub fn is_last<B, V>(&self, retry: &Retry<C, B, V>) -> bool {
        self.number - u32::from(self.had_transparent_retry) >= retry.max_attempts_by(self.schedule)
    }

    /// Returns whether this call already had a [transparent](Failure::transparent) retry. There is only one.
    #[must_use]
    pub const fn had_transparent_retry(&self) -> bool {
        self.had_transparent_retry
    }

    /// Returns whether the next attempt after this failure is transparent.
    fn is_transparent(&self, failure: Failure) -> bool {
        failure.is_unseen && !self.had_transparent_retry && failure.may_retry() && failure.hint != ServerHint::Never
    }

    /// Returns the present attempt.
    #[must_use]
    pub fn attempt(&self) -> Attempt<C> {
        Attempt { number: self.number, deadline: self.deadline.clone() }
    }

    /// Returns the deadline of the call.
    #[must_use]
    pub const fn deadline(&self) -> &Deadline<C> {
        &self.deadline
    }

    /// Returns the time since the call began, on the clock of `retry`.
    #[must_use]
    pub fn elapsed<B, V>(&self, retry: &Retry<C, B, V>) -> Duration {
        let clock = retry.clock();
        // Zero on a clock that stepped back.
        let ticks = clock.now().wrapping_sub(self.began) as i64;
        let nanos = match (ticks, clock.frequency()) {
            (..=0, _) | (_, 0) => 0,
            (ticks, frequency) => u128::from(ticks.unsigned_abs()) * 1_000_000_000 / u128::from(frequency),
        };
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Records that the present attempt succeeded.
    pub fn succeeded<B: Budget, V>(&self, retry: &Retry<C, B, V>) {
        self.count_success(retry.budget_ref());
    }

    /// Records that the present attempt failed, and returns the wait before the next one.
    ///
    /// `retry` is the policy with which the call began. Middleware that does something between the parts of this step, or whose calls have a
    /// budget of their own, takes [`count_failure`](Self::count_failure), [`next_wait`](Self::next_wait) and [`withdraw`](Self::withdraw),
    /// in this order.
    ///
    /// # Errors
    ///
    /// The reason why there is no further attempt. The call has ended.
    pub fn failed<B: Budget, V>(&mut self, retry: &Retry<C, B, V>, failure: Failure) -> Result<Duration, GaveUp> {
        let budget = retry.budget_ref();
        self.count_failure(budget, failure);
        let wait = self.next_wait(retry, failure, Duration::MAX)?;
        self.withdraw(budget, failure)?;
        Ok(wait)
    }

    /// Counts the present attempt, which succeeded, in a budget.
    #[inline]
    pub fn count_success<N: Budget>(&self, budget: &N) {
        match self.withdrawn_after {
            Some(kind) => budget.retry_succeeded(Failure::of(kind)),
            None => budget.succeeded(),
        }
    }

    /// Counts a failed attempt in a budget, unless the failure says nothing about the server.
    ///
    /// It says nothing if the call itself is at fault, or if the server's application did not see the call.
    #[inline]
    pub fn count_failure<N: Budget>(&self, budget: &N, failure: Failure) {
        if failure.counts() && !self.is_transparent(failure) {
            budget.failed();
        }
    }

    /// Returns the wait before the next attempt, which no budget has been asked about.
    ///
    /// The attempt begins before the deadline, and before `left` is over. Pass `Duration::MAX` if only the deadline bounds it.
    ///
    /// # Errors
    ///
    /// The reason why there is no further attempt.
    #[inline]
    pub fn next_wait<B, V>(
        &mut self,
        retry: &Retry<C, B, V>,
        failure: Failure,
        left: Duration,
    ) -> Result<Duration, GaveUp> {
        if !failure.may_retry() {
            return Err(GaveUp::NotRetryable);
        }
        if failure.hint == ServerHint::Never {
            return Err(GaveUp::Declined);
        }
        if self.is_transparent(failure) {
            let is_over = left.is_zero() || self.deadline.is_expired();
            return if is_over { Err(GaveUp::Deadline { hint: None }) } else { Ok(Duration::ZERO) };
        }
        if self.is_last(retry) {
            return Err(GaveUp::Attempts);
        }
        self.wait(retry, failure, left)
    }

    /// Withdraws the next attempt from the call's budget, and makes it the present one.
    ///
    /// # Errors
    ///
    /// [`GaveUp::Budget`], and the present attempt remains the last one.
    #[inline]
    pub fn withdraw<N: Budget>(&mut self, budget: &N, failure: Failure) -> Result<(), GaveUp> {
        let is_free = failure.is_unprocessed && !self.had_free_retry;
        let mut withdrawn_after = None;
        if self.is_transparent(failure) {
            // A transparent retry also uses up the free one.
            (self.had_transparent_retry, self.had_free_retry) = (true, true);
        } else if is_free {
            self.had_free_retry = true;
        } else if budget.try_withdraw_after(failure) {
            withdrawn_after = Some(failure.kind);
        } else {
            return Err(GaveUp::Budget);
        }
        self.withdrawn_after = withdrawn_after;
        self.number = self.number.saturating_add(1);
        Ok(())
    }

    /// Returns the wait before the next attempt, which ends before the deadline and before `left` is over.
    fn wait<B, V>(&mut self, retry: &Retry<C, B, V>, failure: Failure, left: Duration) -> Result<Duration, GaveUp> {
        let hint = match failure.hint {
            ServerHint::NotBefore(wait) | ServerHint::Exactly(wait) => Some(wait),
            ServerHint::None | ServerHint::Never => None,
        };
        let longest = retry.longest_hint();
        if let Some(wait) = hint.filter(|wait| *wait > longest) {
            return Err(GaveUp::Hint { wait, longest });
        }
        let left = if self.deadline.is_never() { left } else { left.min(self.deadline.remaining()) };
        // `Duration::MAX` is no bound.
        let is_too_long = |wait: Duration| wait >= left && left < Duration::MAX;
        let no_time = GaveUp::Deadline { hint: hint.filter(|hint| is_too_long(*hint)) };
        if let ServerHint::Exactly(wait) = failure.hint {
            (self.retries, self.previous) = (0, 0);
            return if is_too_long(wait) { Err(no_time) } else { Ok(wait) };
        }
        let own = retry.backoff_by(self.schedule);
        let backoff = match failure.kind {
            FailureKind::Throttled if hint.is_none() => retry.throttled_backoff(own),
            // The server's wait takes the place of the longer backoff.
            FailureKind::Throttled | FailureKind::Transient | FailureKind::Fatal => own,
        };
        self.retries = self.retries.saturating_add(1);
        let previous = if self.previous == 0 { backoff.base().as_nanos() as u64 } else { self.previous };
        let random = self.random.get_or_insert_with(|| SplitMix::new(retry.draw_seed()));
        self.previous = backoff.draw(self.retries, previous, random.next());
        let wait = Duration::from_nanos(self.previous);
        let Some(hint) = hint else { return if is_too_long(wait) { Err(no_time) } else { Ok(wait) } };
        let wait = wait.max(hint);
        if is_too_long(wait) {
            return Err(no_time);
        }
        Ok(wait.saturating_add(spread(hint, backoff.base(), left.saturating_sub(wait), random)))
    }
}

/// Draws a delay beyond the server's wait, so that clients with the same wait do not return together.
///
/// It takes at most half of the room before the deadline. The other half is for a timer that is late.
fn spread(hint: Duration, base: Duration, room: Duration, random: &mut SplitMix) -> Duration {
    let most = (hint / 10).max(base).min(room / 2).as_nanos();
    Duration::from_nanos(random::below(u64::try_from(most).unwrap_or(u64::MAX >> 1), random.next()))
}

impl<C: Clock> fmt::Debug for Attempts<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts")
            .field("number", &self.number)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl<C: Clock> fmt::Debug for Attempt<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("number", &self.number).field("deadline", &self.deadline).finish()
    }
}
