//! How often a call is tried, when, and within which limits.

use super::{AnyError, Attempt, Attempts, Backoff, Budget, GaveUp, RetryError, RetryFuture, Retryable, Unlimited};
use crate::deadline::Deadline;
use crate::time::{Clock, DefaultClock, Sleep, random};
use core::fmt;
use core::time::Duration;

/// The longest wait that a server can ask for, by default.
const MAX_HINT: Duration = Duration::from_secs(5 * 60);

/// The first delay after a server said that it is over a limit, by default.
const THROTTLED_BASE: Duration = Duration::from_secs(1);

/// Tries a call again where that may help: so often at most, after a [`Backoff`], within a [budget](Budget) and a
/// [`Deadline`].
///
/// Give it a [`RetryBudget`](super::RetryBudget) that all calls to a server share. Without one, three attempts
/// per call are three times the load on a server that is failing under its load.
///
/// A server's `Retry-After` is kept to and spread out; refusals of damper's own (an open breaker, a limit, a deadline)
/// end the call at once. The [order of the questions](super) is the module's.
///
/// # Examples
///
#[cfg_attr(feature = "tokio", doc = "```")]
#[cfg_attr(not(feature = "tokio"), doc = "```text")]
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::{Backoff, Deadline, Retry, RetryBudget};
///
/// static BUDGET: RetryBudget = RetryBudget::DEFAULT; // for 20 % of first attempts, and 10 a second
///
/// # async fn fetch(_: &str) -> Result<String, std::io::Error> { Ok("page".to_owned()) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let retry = Retry::new(3)
///     .backoff(Backoff::exponential(Duration::from_millis(100)))
///     .budget(&BUDGET)
///     .deadline(Deadline::after(Duration::from_secs(2)));
/// let page = retry.run(|_attempt| fetch("https://example.com/")).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a policy does nothing by itself: `call` or `run` it"]
pub struct Retry<C = DefaultClock, B = Unlimited, V = AnyError> {
    max_attempts: u32,
    backoff: Backoff,
    throttled_base: Duration,
    max_hint: Duration,
    seed: Seeding,
    deadline: Deadline<C>,
    budget: B,
    retryable: V,
    clock: C,
}

/// Where the seed of a call's jitter comes from.
#[derive(Clone, Copy)]
enum Seeding {
    #[cfg(feature = "std")]
    Random,
    /// From what tells this caller from others.
    Caller(u64),
    /// From the clock alone.
    Fixed(u64),
}

#[cfg(feature = "std")]
impl Retry {
    /// Makes at most so many attempts, the first included; 0 is 1. Every error is [tried again](AnyError), without a budget
    /// and without a deadline.
    pub const fn new(max_attempts: u32) -> Self {
        Self::of(max_attempts, Seeding::Random, crate::time::Monotonic, crate::time::Monotonic)
    }
}

/// Three attempts.
#[cfg(feature = "std")]
impl Default for Retry {
    fn default() -> Self {
        Self::new(3)
    }
}

impl<C: Clock + Clone> Retry<C> {
    /// Makes at most so many attempts on a clock of your own. The seed makes this caller's jitter differ from that of others:
    /// a serial number, or random.
    pub fn with_clock(max_attempts: u32, clock: C, seed: u64) -> Self {
        Self::of(max_attempts, Seeding::Caller(seed), clock.clone(), clock)
    }
}

impl<C: Clock> Retry<C> {
    const fn of(max_attempts: u32, seed: Seeding, clock: C, deadline_clock: C) -> Self {
        Self {
            max_attempts: if max_attempts == 0 { 1 } else { max_attempts },
            backoff: Backoff::DEFAULT,
            throttled_base: THROTTLED_BASE,
            max_hint: MAX_HINT,
            seed,
            deadline: Deadline::never(deadline_clock),
            budget: Unlimited,
            retryable: AnyError,
            clock,
        }
    }
}

impl<C, B, V> Retry<C, B, V> {
    /// Sets how long to wait before each retry. Default: [`Backoff::DEFAULT`].
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets the first delay of the backoff after a server said that it is [over a limit](super::Failure::THROTTLED). Default: 1
    /// s, or that of the backoff if it is longer.
    pub const fn throttled_base(mut self, delay: Duration) -> Self {
        self.throttled_base = delay;
        self
    }

    /// Sets the longest wait that a server can ask for. Asked for a longer one, the call is given up. Default: 5 min.
    pub const fn max_hint(mut self, longest: Duration) -> Self {
        self.max_hint = longest;
        self
    }

    /// Sets the budget that calls share, by reference or in an `Arc`. Default: [`Unlimited`].
    pub fn budget<N: Budget>(self, budget: N) -> Retry<C, N, V> {
        let Self { max_attempts, backoff, throttled_base, max_hint, seed, deadline, retryable, clock, .. } = self;
        Retry { max_attempts, backoff, throttled_base, max_hint, seed, deadline, budget, retryable, clock }
    }

    /// Sets the deadline of the call, all attempts and waits together. Default: none.
    ///
    /// No attempt begins that would begin after it, and [`run`](Self::run) drops an attempt that is not over by then.
    pub fn deadline(mut self, deadline: Deadline<C>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets which outcomes are tried again. Default: [`AnyError`].
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "std", doc = "```")]
    #[cfg_attr(not(feature = "std"), doc = "```text")]
    /// # extern crate damper_core as damper;
    /// use damper::Retry;
    /// use damper::retry::Failure;
    ///
    /// let retry = Retry::new(3).when(|result: &Result<u16, String>| match result {
    ///     Ok(503) => Some(Failure::TRANSIENT),
    ///     Ok(_) => None,
    ///     Err(_) => Some(Failure::FATAL),
    /// });
    /// assert_eq!(retry.call(|_| Ok::<u16, String>(200)).unwrap(), 200);
    /// ```
    pub fn when<T, E, F: Fn(&Result<T, E>) -> Option<super::Failure>>(self, failure: F) -> Retry<C, B, F> {
        let Self { max_attempts, backoff, throttled_base, max_hint, seed, deadline, budget, clock, .. } = self;
        Retry { max_attempts, backoff, throttled_base, max_hint, seed, deadline, budget, retryable: failure, clock }
    }

    /// Sets the seed of the jitter, for tests: calls that begin at the same tick of the clock then wait for the same times.
    /// Default: random, another one for each call.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Seeding::Fixed(seed);
        self
    }

    /// Returns the most attempts that are made, the first included.
    #[must_use]
    pub const fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// Returns the clock that waits and deadlines are measured on.
    #[must_use]
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    /// Takes the budget out.
    pub(crate) fn split_budget(self) -> (Retry<C, Unlimited, V>, B) {
        let Self { max_attempts, backoff, throttled_base, max_hint, seed, deadline, budget, retryable, clock } = self;
        (
            Retry {
                max_attempts,
                backoff,
                throttled_base,
                max_hint,
                seed,
                deadline,
                budget: Unlimited,
                retryable,
                clock,
            },
            budget,
        )
    }

    pub(super) const fn budget_ref(&self) -> &B {
        &self.budget
    }

    pub(super) const fn backoff_ref(&self) -> &Backoff {
        &self.backoff
    }

    pub(super) const fn longest_hint(&self) -> Duration {
        self.max_hint
    }

    pub(super) fn throttled_backoff(&self) -> Backoff {
        self.backoff.beginning_with(self.throttled_base.max(self.backoff.base()))
    }

    pub(super) const fn retryable(&self) -> &V {
        &self.retryable
    }
}

impl<C: Clock + Clone, B, V> Retry<C, B, V> {
    /// Begins a call within a budget that is chosen for it, with a deadline of its own if it has one.
    pub(crate) fn begin_within<N: Budget>(&self, budget: &N, deadline: Option<Deadline<C>>) -> Attempts<C> {
        let own = self.deadline.clone();
        let deadline = match deadline {
            Some(deadline) => deadline.earlier(own),
            None => own,
        };
        // An expired call makes no attempt, so it is not counted.
        if !deadline.is_expired() {
            budget.began();
        }
        Attempts::new(&self.clock, deadline, self.draw_seed())
    }

    /// A seed for one call.
    fn draw_seed(&self) -> u64 {
        match self.seed {
            Seeding::Fixed(seed) => random::scatter(seed, self.clock.now()),
            #[cfg(feature = "std")]
            Seeding::Random => random::draw(),
            Seeding::Caller(seed) => {
                // Calls that begin at the same tick run on different stacks, or one after the other.
                let place = core::ptr::from_ref(&seed).addr() as u64;
                random::scatter(seed ^ random::scatter(place, random::ordinal()), self.clock.now())
            }
        }
    }
}

impl<C: Clock + Clone, B: Budget, V> Retry<C, B, V> {
    /// Begins a call, which the budget counts once: for middleware that makes its attempts itself.
    #[must_use]
    pub fn begin(&self) -> Attempts<C> {
        self.begin_within(&self.budget, None)
    }

    /// Begins a call with a deadline of its own, or that of the policy if it passes earlier.
    #[must_use]
    pub fn begin_by(&self, deadline: Deadline<C>) -> Attempts<C> {
        self.begin_within(&self.budget, Some(deadline))
    }

    /// Calls until an attempt succeeds or the call is given up. Blocks the thread, and sleeps on it.
    ///
    /// An attempt is not interrupted: pass its [deadline](Attempt::deadline) on.
    ///
    /// # Errors
    ///
    /// [`RetryError`], which says why the call was given up. An answer that is `Ok` is returned as it is, also the last one
    /// that was to be tried again.
    #[cfg(feature = "std")]
    pub fn call<T, E>(&self, operation: impl FnMut(Attempt<C>) -> Result<T, E>) -> Result<T, RetryError<E>>
    where
        V: Retryable<T, E>,
    {
        self.call_sleeping_by(std::thread::sleep, operation)
    }

    /// As `call`, sleeping by a function of yours: in firmware the timer's.
    ///
    /// # Errors
    ///
    /// [`RetryError`], which says why the call was given up.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::{ManualClock, Retry};
    ///
    /// let clock = ManualClock::new();
    /// let retry = Retry::with_clock(5, &clock, 7);
    /// let value = retry.call_sleeping_by(
    ///     |wait| clock.advance(wait), // the timer's `delay`
    ///     |attempt| if attempt.number() < 3 { Err(core::fmt::Error) } else { Ok("measured") },
    /// );
    /// assert_eq!(value, Ok("measured"));
    /// ```
    pub fn call_sleeping_by<T, E>(
        &self,
        mut sleep: impl FnMut(Duration),
        mut operation: impl FnMut(Attempt<C>) -> Result<T, E>,
    ) -> Result<T, RetryError<E>>
    where
        V: Retryable<T, E>,
    {
        let mut attempts = self.begin();
        if attempts.deadline().is_expired() {
            return Err(RetryError::new(GaveUp::Deadline { hint: None }, 0, Duration::ZERO, None));
        }
        let mut last = None;
        loop {
            let outcome = operation(attempts.attempt());
            match self.judge(&mut attempts, outcome) {
                Judgement::Over(result) => return result,
                Judgement::Again(wait, error) => {
                    sleep(wait);
                    last = error.or(last);
                }
            }
            // It may have slept for longer.
            if attempts.deadline().is_expired() {
                return Err(self.out_of_time(&attempts, last));
            }
        }
    }

    /// Calls until an attempt succeeds or the call is given up, asynchronously: await it as it is where the feature `tokio` is
    /// on, or name what to [sleep by](RetryRun::sleeping_by) on another runtime.
    ///
    /// At the deadline the present attempt is dropped.
    pub fn run<O, F, T, E>(&self, operation: O) -> RetryRun<'_, C, B, V, O>
    where
        V: Retryable<T, E>,
        O: FnMut(Attempt<C>) -> F,
        F: Future<Output = Result<T, E>>,
    {
        RetryRun { retry: self, operation }
    }

    /// Judges an outcome.
    pub(super) fn judge<T, E>(&self, attempts: &mut Attempts<C>, outcome: Result<T, E>) -> Judgement<T, E>
    where
        V: Retryable<T, E>,
    {
        let Some(failure) = self.retryable().failure(&outcome) else {
            attempts.succeeded(self);
            return Judgement::Over(outcome.map_err(|error| self.give_up(attempts, GaveUp::NotRetryable, Some(error))));
        };
        match (attempts.failed(self, failure), outcome) {
            (Ok(wait), outcome) => Judgement::Again(wait, outcome.err()),
            (Err(_), Ok(answer)) => Judgement::Over(Ok(answer)),
            (Err(reason), Err(error)) => Judgement::Over(Err(self.give_up(attempts, reason, Some(error)))),
        }
    }

    #[cold]
    pub(super) fn give_up<E>(&self, attempts: &Attempts<C>, reason: GaveUp, error: Option<E>) -> RetryError<E> {
        RetryError::new(reason, attempts.number(), attempts.elapsed(self), error)
    }

    /// The deadline passed during the wait before the present attempt, which was not begun.
    #[cold]
    pub(super) fn out_of_time<E>(&self, attempts: &Attempts<C>, error: Option<E>) -> RetryError<E> {
        RetryError::new(GaveUp::Deadline { hint: None }, attempts.number() - 1, attempts.elapsed(self), error)
    }
}

/// What follows from the outcome of an attempt.
pub(super) enum Judgement<T, E> {
    /// The call is over.
    Over(Result<T, RetryError<E>>),
    /// There is another attempt after this wait. The error of this one is the last that is known.
    Again(Duration, Option<E>),
}

/// A call that is tried again asynchronously. Made by [`Retry::run`].
///
/// Nothing is called before it is awaited.
#[must_use = "nothing is called before it is awaited"]
pub struct RetryRun<'a, C, B, V, O> {
    retry: &'a Retry<C, B, V>,
    operation: O,
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
/// Polled outside of a tokio runtime whose timer is enabled, once it waits for its next attempt. Elsewhere: [`sleeping_by`](RetryRun::sleeping_by).
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

impl<C, B: fmt::Debug, V> fmt::Debug for Retry<C, B, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("max_attempts", &self.max_attempts)
            .field("backoff", &self.backoff)
            .field("throttled_base", &self.throttled_base)
            .field("max_hint", &self.max_hint)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}
