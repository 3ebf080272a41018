//! Retries within limits: [`Retry`], [`Backoff`], [`RetryBudget`], `Hedge`.
//!
//! A retry is extra load on a system that is already failing. So the schedule of retries comes with limits on them: a
//! [budget](RetryBudget) that all callers share, a [deadline](crate::Deadline) that all attempts of a call share, and
//! the server's own hint, which no backoff undercuts.
//!
//! An outcome is checked in this order, and the first failed check ends the call:
//!
//! | | question | ends with |
//! |---|---|---|
//! | 1 | may another attempt help? By default it never does after damper's own refusals | [`GaveUp::NotRetryable`] |
//! | 2 | did the server decline a retry? | [`GaveUp::Declined`] |
//! | 3 | are attempts left? | [`GaveUp::Attempts`] |
//! | 4 | is the server's wait within the maximum? | [`GaveUp::Hint`] |
//! | 5 | does the wait end before the deadline? | [`GaveUp::Deadline`] |
//! | 6 | does the budget allow a retry? It is checked last, because the check spends it | [`GaveUp::Budget`] |
//!
//! All of it is arithmetic on values, and works without `std` and without allocation. [`Attempts`] only decides.
//! [`Retry::call`] and [`Retry::run`] also make the calls and sleep.

// | file | type |
// |---|---|
// | here | `Retry`: how often a call is attempted, when, and within which limits |
// | `attempts` | `Attempts`: the attempts of one call; the decision; `Attempt` |
// | `attempts_future` | `AttemptsFuture`: the future of every call that is made in attempts, here, by a pacer, in damper-tower and in damper-http; `MakeAttempts` |
// | `repeated_call` | `RepeatedCall`: an asynchronous call of a retry, a hedge or a pacer, before it is awaited |
// | `future` | `RetryFuture`: an asynchronous call with retries |
// | `failure` | `Failure`: the meaning of an outcome for the next attempt; `EveryErr` |
// | `error` | `RetryError` and `GaveUp`: why a call was given up |
// | `backoff` | `Backoff`: how long to wait before each retry; `Delays` |
// | `jitter` | `Jitter`: the random part of a wait |
// | `schedule` | `RetrySchedule`: the attempts and delays that change while calls are made |
// | `hedge` | a second attempt beside a slow first one |
// | `budget` | budgets: limits on the retries of all calls together |

pub(crate) mod attempts;
pub(crate) mod attempts_future;
mod backoff;
mod budget;
mod error;
mod failure;
mod future;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub(crate) mod hedge;
mod jitter;
mod repeated_call;
mod schedule;

pub use attempts::{Attempt, Attempts};
pub use backoff::{Backoff, Delays};
pub use budget::{
    Budget, RetryBucket, RetryBudget, RetryBudgetConfig, RetryBudgetConfigBuilder, RetryQuota, RetryThrottle, Unlimited,
};
pub use error::{GaveUp, RetryError};
pub use failure::{EveryErr, Failure};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use hedge::{Hedge, HedgeConfig, HedgeConfigBuilder, HedgeStatus};
pub use jitter::Jitter;
pub use repeated_call::RepeatedCall;
pub use schedule::RetrySchedule;

use crate::Reads;
use crate::deadline::Deadline;
use crate::setting::Setting;
use crate::time::{Clock, DefaultClock, random};
use core::fmt;
use core::time::Duration;

/// The default maximum of a wait that a server asks for.
pub(crate) const MAX_HINT: Duration = Duration::from_secs(5 * 60);

/// The default first delay after a server reports that it is over a limit.
const THROTTLED_BASE: Duration = Duration::from_secs(1);

/// Retries a call if that may help.
///
/// It makes a limited number of attempts, spaced by a [`Backoff`], within a [budget](Budget) and a [`Deadline`].
///
/// Give it a [`RetryBudget`] that all calls to a server share. Without one, three attempts per call
/// triple the load on a server that fails under its load.
///
/// A server's `Retry-After` is honoured and spread out. By default a refusal by damper itself (an open breaker, a limit, a
/// deadline) ends the call at once; [`when`](Self::when) can say otherwise. The module lists the [order of the checks](self).
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "tokio")] {
/// use core::time::Duration;
/// use damper::{Backoff, Deadline, Retry, RetryBudget};
///
/// static BUDGET: RetryBudget = RetryBudget::DEFAULT; // for 20 % of first attempts, and 10 a second
///
/// # async fn fetch(_: &str) -> Result<String, std::io::Error> { Ok("page".to_owned()) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let retry = Retry::new(3)
///     .backoff(Backoff::exponential(Duration::from_millis(100)))
///     .budget(&BUDGET)
///     .deadline(Deadline::after(Duration::from_secs(2)));
/// let page = retry.run(|_attempt| fetch("https://example.com/")).await?;
/// # Ok(())
/// # }
/// # run().unwrap(); }
/// ```
#[derive(Clone)]
#[must_use = "a policy does nothing by itself: `call` or `run` it"]
pub struct Retry<C = DefaultClock, B = Unlimited, V = EveryErr> {
    terms: RetryTerms,
    deadline: Deadline<C>,
    budget: B,
    retryable: V,
    clock: C,
}

/// The settings of a policy that no type parameter touches.
#[derive(Clone)]
struct RetryTerms {
    max_attempts: u32,
    backoff: Backoff,
    /// Overrides the attempts and the delays of the backoff.
    schedule: Option<Setting<RetrySchedule>>,
    throttled_base: Duration,
    max_hint: Duration,
    seed: Seeding,
    /// Whether [`Retry::budget`] has set the budget.
    has_budget: bool,
}

/// The source of the seed of a call's jitter.
#[derive(Clone, Copy)]
enum Seeding {
    #[cfg(feature = "std")]
    Random,
    /// A number that differs between callers.
    Caller(u64),
    /// The clock alone, with this seed.
    Fixed(u64),
}

#[cfg(feature = "std")]
impl Retry {
    /// Makes at most this many attempts, including the first. 0 counts as 1.
    ///
    /// Every error is [retried](EveryErr), without a budget and without a deadline.
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
    /// Makes at most this many attempts, on a clock of your own.
    ///
    /// The seed makes this caller's jitter differ from that of others. Use a serial number or a random number.
    pub fn with_clock(max_attempts: u32, clock: C, seed: u64) -> Self {
        Self::of(max_attempts, Seeding::Caller(seed), clock.clone(), clock)
    }
}

impl<C: Clock> Retry<C> {
    const fn of(max_attempts: u32, seed: Seeding, clock: C, deadline_clock: C) -> Self {
        Self {
            terms: RetryTerms {
                max_attempts: if max_attempts == 0 { 1 } else { max_attempts },
                backoff: Backoff::DEFAULT,
                schedule: None,
                throttled_base: THROTTLED_BASE,
                max_hint: MAX_HINT,
                seed,
                has_budget: false,
            },
            deadline: Deadline::never(deadline_clock),
            budget: Unlimited,
            retryable: EveryErr,
            clock,
        }
    }
}

impl<C, B, V> Retry<C, B, V> {
    /// Sets how long to wait before each retry. Default: [`Backoff::DEFAULT`].
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.terms.backoff = backoff;
        self
    }

    /// Sets the attempts and the range of the delays, which can change while calls are made.
    ///
    /// They replace those of [`new`](Retry::new) and of the [backoff](Self::backoff). Each call reads them once, when it begins: a call
    /// that is being made keeps those that it began with.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use core::time::Duration;
    /// use damper::retry::RetrySchedule;
    /// use damper::{Backoff, Live, Retry};
    ///
    /// static SCHEDULE: Live<RetrySchedule> = Live::new(RetrySchedule::new(3).base_delay(Duration::from_millis(50)));
    ///
    /// let retry = Retry::default().backoff(Backoff::fibonacci(Duration::ZERO)).schedule(&SCHEDULE);
    /// SCHEDULE.set(RetrySchedule::new(2).base_delay(Duration::from_millis(200))); // of the next call on
    /// # assert_eq!(retry.max_attempts(), 2);
    /// # }
    /// ```
    pub fn schedule(mut self, schedule: impl Into<Setting<RetrySchedule>>) -> Self {
        self.terms.schedule = Some(schedule.into());
        self
    }

    /// Sets the backoff's first delay after a server reports that it is [over a limit](Failure::THROTTLED).
    ///
    /// Default: 1 s, or the backoff's own if it is longer. It does not apply where the server says how long to wait.
    pub const fn throttled_base(mut self, delay: Duration) -> Self {
        self.terms.throttled_base = delay;
        self
    }

    /// Sets the longest wait that a server may ask for. Default: 5 min.
    ///
    /// If a server asks for a longer one, the call is given up.
    pub const fn max_hint(mut self, longest: Duration) -> Self {
        self.terms.max_hint = longest;
        self
    }

    /// Sets the budget that calls share, by reference or in an `Arc`. Default: [`Unlimited`].
    ///
    /// A client's stack of `damper::http` gives a policy for which none is set a budget of its own. There `budget(Unlimited)` says that it is
    /// to have none.
    pub fn budget<N: Budget>(self, budget: N) -> Retry<C, N, V> {
        let Self { terms, deadline, retryable, clock, .. } = self;
        Retry { terms: RetryTerms { has_budget: true, ..terms }, deadline, budget, retryable, clock }
    }

    /// Sets the deadline of the call, for all attempts and waits together. Default: none.
    ///
    /// No attempt starts after it, and [`run`](Self::run) drops an attempt still in flight then.
    pub fn deadline(mut self, deadline: Deadline<C>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets which outcomes are retried. Default: [`EveryErr`].
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::Retry;
    /// use damper::retry::Failure;
    ///
    /// let retry = Retry::new(3).when(|result: &Result<u16, String>| match result {
    ///     Ok(503) => Some(Failure::TRANSIENT),
    ///     Ok(_) => None,
    ///     Err(_) => Some(Failure::FATAL),
    /// });
    /// assert_eq!(retry.call(|_| Ok::<u16, String>(200)).unwrap(), 200);
    /// # }
    /// ```
    pub fn when<T, E, F: Fn(&Result<T, E>) -> Option<Failure>>(self, failure: F) -> Retry<C, B, F> {
        let Self { terms, deadline, budget, clock, .. } = self;
        Retry { terms, deadline, budget, retryable: failure, clock }
    }

    /// Sets the seed of the jitter, for tests. Default: random for each call.
    ///
    /// Calls that begin at the same tick of the clock then have the same waits.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.terms.seed = Seeding::Fixed(seed);
        self
    }

    /// Returns the maximum number of attempts, including the first, of a call that begins now.
    #[must_use]
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts_by(self.schedule_now())
    }

    /// Returns the clock that measures waits and deadlines.
    #[must_use]
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    /// Splits off the budget.
    pub(crate) fn split_budget(self) -> (Retry<C, Unlimited, V>, B) {
        let Self { terms, deadline, budget, retryable, clock } = self;
        let terms = RetryTerms { has_budget: false, ..terms };
        (Retry { terms, deadline, budget: Unlimited, retryable, clock }, budget)
    }

    pub(crate) const fn has_budget(&self) -> bool {
        self.terms.has_budget
    }

    pub(crate) const fn budget_ref(&self) -> &B {
        &self.budget
    }

    /// Returns the schedule of a call that begins now; `None` if the policy has none.
    #[inline]
    fn schedule_now(&self) -> Option<RetrySchedule> {
        self.terms.schedule.as_ref().map(Setting::get)
    }

    /// Returns the maximum number of attempts of a call with this schedule.
    #[inline]
    fn max_attempts_by(&self, schedule: Option<RetrySchedule>) -> u32 {
        schedule.map_or(self.terms.max_attempts, RetrySchedule::max_attempts)
    }

    /// Returns the backoff of a call with this schedule.
    fn backoff_by(&self, schedule: Option<RetrySchedule>) -> Backoff {
        schedule.map_or(self.terms.backoff, |schedule| schedule.applied_to(self.terms.backoff))
    }

    const fn longest_hint(&self) -> Duration {
        self.terms.max_hint
    }

    /// Returns a call's backoff after a server has reported that it is over a limit.
    fn throttled_backoff(&self, backoff: Backoff) -> Backoff {
        backoff.beginning_with(self.terms.throttled_base.max(backoff.base()))
    }

    const fn retryable(&self) -> &V {
        &self.retryable
    }
}

impl<C: Clock + Clone, B, V> Retry<C, B, V> {
    /// Starts a call within a budget chosen for it, and with its own deadline if it has one.
    ///
    /// It is for middleware whose calls have budgets of their own, such as one for each host.
    #[must_use]
    #[inline]
    pub fn begin_within<N: Budget>(&self, budget: &N, deadline: Option<Deadline<C>>) -> Attempts<C> {
        let own = self.deadline.clone();
        let deadline = match deadline {
            Some(deadline) => deadline.earlier(own),
            None => own,
        };
        // An expired call makes no attempt, so it is not counted.
        if !deadline.is_expired() {
            budget.began();
        }
        Attempts::new(&self.clock, deadline, self.first_seed(), self.schedule_now())
    }

    /// Returns the seed of a call that begins now; `None` if it is as good when it is drawn later.
    fn first_seed(&self) -> Option<u64> {
        match self.terms.seed {
            // Most calls need no retry, and a draw takes longer than all else that begins a call.
            #[cfg(feature = "std")]
            Seeding::Random => None,
            Seeding::Caller(_) | Seeding::Fixed(_) => Some(self.draw_seed()),
        }
    }

    /// Draws a seed for one call.
    fn draw_seed(&self) -> u64 {
        match self.terms.seed {
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
    /// Starts a call, which the budget counts once. For middleware that makes its attempts itself.
    #[must_use]
    pub fn begin(&self) -> Attempts<C> {
        self.begin_within(&self.budget, None)
    }

    /// Starts a call with a deadline of its own, or the policy's if that passes earlier.
    #[must_use]
    pub fn begin_by(&self, deadline: Deadline<C>) -> Attempts<C> {
        self.begin_within(&self.budget, Some(deadline))
    }

    /// Makes attempts until one succeeds or the call is given up. Blocks the thread during waits.
    ///
    /// It does not interrupt an attempt. Pass its [deadline](Attempt::deadline) on.
    ///
    /// # Errors
    ///
    /// [`RetryError`], which has the reason. An `Ok` is returned as it is, even if it was retryable and the attempts
    /// are used up.
    #[cfg(feature = "std")]
    pub fn call<T, E>(&self, operation: impl FnMut(Attempt<C>) -> Result<T, E>) -> Result<T, RetryError<E>>
    where
        V: Reads<Result<T, E>, Option<Failure>>,
    {
        self.call_sleeping_by(std::thread::sleep, operation)
    }

    /// Makes attempts like `call`, sleeping with your own function. In firmware use the timer's.
    ///
    /// # Errors
    ///
    /// [`RetryError`], which has the reason.
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
        V: Reads<Result<T, E>, Option<Failure>>,
    {
        let mut attempts = self.begin();
        if attempts.deadline().is_expired() {
            return Err(RetryError::new(GaveUp::Deadline { hint: None }, 0, Duration::ZERO, None));
        }
        let mut last = None;
        loop {
            let outcome = operation(attempts.attempt());
            let wait = match self.judge(&mut attempts, &outcome) {
                Ok(wait) => wait,
                Err(reason) => {
                    return outcome.map_err(|error| {
                        self.give_up(reason, attempts.number(), &attempts, Some(error)).with_previous_error(last)
                    });
                }
            };
            sleep(wait);
            last = outcome.err().or(last);
            // The sleep may have been longer.
            if attempts.deadline().is_expired() {
                return Err(self.give_up(GaveUp::Deadline { hint: None }, attempts.number() - 1, &attempts, last));
            }
        }
    }

    /// Makes attempts asynchronously until one succeeds or the call is given up.
    ///
    /// Await the result directly with the feature `tokio`, or choose a sleep with
    /// [`sleeping_by`](RepeatedCall::sleeping_by) on another runtime.
    ///
    /// At the deadline the attempt in flight is dropped.
    pub fn run<O, F, T, E>(&self, operation: O) -> RepeatedCall<&Self, O>
    where
        V: Reads<Result<T, E>, Option<Failure>>,
        O: FnMut(Attempt<C>) -> F,
        F: Future<Output = Result<T, E>>,
    {
        RepeatedCall { policy: self, operation }
    }

    /// Classifies an outcome, and returns the wait before the next attempt.
    ///
    /// # Errors
    ///
    /// The reason why the call is over.
    fn judge<T, E>(&self, attempts: &mut Attempts<C>, outcome: &Result<T, E>) -> Result<Duration, GaveUp>
    where
        V: Reads<Result<T, E>, Option<Failure>>,
    {
        if let Some(failure) = self.retryable().read_from(outcome) {
            attempts.failed(self, failure)
        } else {
            attempts.succeeded(self);
            Err(GaveUp::NotRetryable)
        }
    }

    /// Returns the error of a call of which so many attempts were begun.
    #[cold]
    fn give_up<E>(&self, reason: GaveUp, begun: u32, attempts: &Attempts<C>, error: Option<E>) -> RetryError<E> {
        RetryError::new(reason, begun, attempts.elapsed(self), error)
    }
}

impl<C, B: fmt::Debug, V> fmt::Debug for Retry<C, B, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("max_attempts", &self.max_attempts())
            .field("backoff", &self.backoff_by(self.schedule_now()))
            .field("throttled_base", &self.terms.throttled_base)
            .field("max_hint", &self.terms.max_hint)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}
