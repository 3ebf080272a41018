//! The pacer: the state that threads share, and its calls.

use super::{Hints, Level, Moment, PacedAttempts, PacedRetry, Strategy};
use crate::Reads;
#[cfg(feature = "std")]
use crate::quota::Quota;
use crate::retry::{Budget, RepeatedCall, RetryError};
use crate::sync::{AtomicU64, Ordering, SpinWait, const_unless_loom};
use crate::time::{Clock, DefaultClock, LazyMicros, Micros, random};
use core::fmt;
use core::time::Duration;

/// The default of the longest hint: an hour.
const DEFAULT_MAX_HINT: u64 = 60 * 60 * 1_000_000;

/// The largest lag of a thread's reading of the clock: 10 s.
///
/// Such a reading may lie before the begin of a pause that the thread sees.
const MOST_LAG: u64 = 10_000_000;

/// Paces the calls of a client to a rate-limited service.
///
/// It says how long to sleep before each call, so that few are rejected.
///
/// A client learns from rejections (429) and from the remaining calls that the service reports. [`Level`] is the strategy unless
/// another one is [given](Self::with_strategy). Clients need not know of one another.
///
/// Put it in a `static` or an `Arc`, one for each service and credential; all threads share its state. It never locks or
/// allocates.
///
/// # Requests of the service
///
/// After a rejection with a `retry_after`, or else a `resets_in`, no call is made until then, and calls are spread after it.
/// [`Level`] also stops calls until the reset of a fixed window that is used up. Calls that already sleep are held too. A time
/// longer than [`max_hint`](Self::max_hint) counts as that, so a hostile one stops the client for at most an hour; the client
/// then calls again. A time of 0 leaves the strategy's own sleep as it is.
///
/// # Memory ordering
///
/// None is promised. All accesses are Relaxed, because each word is a value of its own and nothing else is published through it.
/// No response is lost, and no other response shortens a pause.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::Quota;
/// use damper::throttle::{Hints, PacedRetry, Pacer};
///
/// static API: Pacer = Pacer::new(Quota::per_hour(4500));
///
/// # struct Response { status: u16, remaining: Option<u64> }
/// # fn get(_: &str) -> Result<Response, std::io::Error> { Ok(Response { status: 200, remaining: Some(4_400) }) }
/// fn hints(result: &Result<Response, std::io::Error>) -> Hints {
///     match result {
///         Ok(response) if response.status == 429 => Hints::REJECTED,
///         Ok(response) => Hints::ACCEPTED.remaining(response.remaining),
///         Err(_) => Hints::UNKNOWN,
///     }
/// }
///
/// let page = API.call(&PacedRetry::DEFAULT, hints, |_attempt| get("https://example.com/"))?;
/// # assert_eq!(page.status, 200);
/// # }
/// # Ok::<(), damper::RetryError<std::io::Error>>(())
/// ```
///
/// This paces the same calls by hand:
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// # use damper::Quota;
/// # use damper::throttle::{Hints, Pacer};
/// # let api = Pacer::new(Quota::per_hour(4500));
/// # let mut answers = [Hints::REJECTED.remaining(Some(0)), Hints::ACCEPTED].into_iter();
/// # let mut send = || answers.next().unwrap();
/// # fn sleep(_: core::time::Duration) {}
/// sleep(api.before_call());
/// let mut answer = send();
/// while let Some(wait) = api.answered(&answer) {
///     sleep(wait);
///     answer = send();
/// }
/// # }
/// ```
pub struct Pacer<S = Level, C = DefaultClock> {
    strategy: S,
    /// The `learned` word of the strategy.
    learned: AtomicU64,
    /// The strategy's schedule.
    schedule: AtomicU64,
    /// The time before which no call is made, in microseconds; 0 if there was no pause yet.
    paused_until: AtomicU64,
    /// The state of the generator; 0 before it has a seed.
    random: AtomicU64,
    /// The longest hint, in microseconds.
    max_hint: u64,
    micros: LazyMicros,
    clock: C,
}

#[cfg(feature = "std")]
impl Pacer {
    const_unless_loom! {
        /// Creates a pacer with the strategy [`Level`] for a service with this limit, on the [default clock](DefaultClock).
        #[must_use]
        pub const fn new(quota: Quota) -> Self {
            Self::with_strategy(Level::new(quota))
        }
    }
}

#[cfg(feature = "std")]
impl<S: Strategy> Pacer<S> {
    const_unless_loom! {
        /// Creates a pacer with a strategy, on the [default clock](DefaultClock).
        #[must_use]
        pub const fn with_strategy(strategy: S) -> Self {
            Self::seeded(strategy, crate::time::Monotonic, 0)
        }
    }
}

impl<S: Strategy, C: Clock> Pacer<S, C> {
    const_unless_loom! {
        /// Creates a pacer on a clock of your own.
        ///
        /// The seed makes the jitter of this client differ from that of others. Use a serial number, or a random one.
        #[must_use]
        pub const fn with_clock(strategy: S, clock: C, seed: u64) -> Self {
            // Serial numbers differ in few bits.
            Self::seeded(strategy, clock, random::scatter(seed, 0) | 1)
        }
    }

    const_unless_loom! {
        const fn seeded(strategy: S, clock: C, seed: u64) -> Self {
            Self {
                strategy,
                learned: AtomicU64::new(0),
                schedule: AtomicU64::new(0),
                paused_until: AtomicU64::new(0),
                random: AtomicU64::new(seed),
                max_hint: DEFAULT_MAX_HINT,
                micros: LazyMicros::new(),
                clock,
            }
        }
    }

    /// Sets the longest time that the service can ask for.
    ///
    /// A longer `retry_after` or `resets_in` counts as this. Default: an hour.
    #[must_use]
    pub fn max_hint(mut self, longest: Duration) -> Self {
        self.max_hint = Micros::of_duration(longest).min(i64::MAX as u64);
        self
    }

    /// Returns how long to sleep before a call. Retries use the result of [`answered`](Self::answered).
    ///
    /// Dropping the call has no effect, except with a strategy that has a [schedule](Strategy::schedule): its place is lost.
    pub fn before_call(&self) -> Duration {
        self.before_call_within(|| Duration::MAX)
    }

    /// Returns the sleep before a call that is not made if its sleep is `longest` or more.
    ///
    /// Otherwise it works like [`before_call`](Self::before_call).
    ///
    /// Such a call takes no place in a [schedule](Strategy::schedule), so that later calls need not wait for it.
    ///
    /// `longest` is called only where there is a schedule.
    pub fn before_call_within(&self, longest: impl FnOnce() -> Duration) -> Duration {
        let moment = self.moment();
        // ORDERING: Relaxed, here and below: each word is a value of its own, and nothing is published through it.
        let learned = self.learned.load(Ordering::Relaxed);
        let sleep = self.strategy.before_call(learned, moment);
        self.place(sleep, learned, moment, longest)
    }

    /// Learns from a response.
    ///
    /// Returns how long to sleep before the retry, if the service rejected the call.
    pub fn answered(&self, hints: &Hints) -> Option<Duration> {
        self.answered_within(hints, || Duration::MAX)
    }

    /// Learns from a response to a call that is not retried if its sleep is `longest` or more.
    ///
    /// Otherwise it works like [`answered`](Self::answered).
    ///
    /// `longest` returns zero for a call that is never retried. A call that is not retried takes no place in a
    /// [schedule](Strategy::schedule).
    ///
    /// `longest` is called only where there is a schedule.
    pub fn answered_within(&self, hints: &Hints, longest: impl FnOnce() -> Duration) -> Option<Duration> {
        if !hints.is_rejected() && !hints.is_accepted() {
            return None;
        }
        let hints = &hints.within(Duration::from_micros(self.max_hint));
        let moment = self.moment();
        // ORDERING: Relaxed: each response updates the state by a swap of the whole word. loom-tests: pacer::no_answer_is_lost.
        let mut word = self.learned.load(Ordering::Relaxed);
        if let Some(wait) = self.strategy.pause(word, hints) {
            self.pause(wait, moment.micros);
        }
        let spin_wait = SpinWait::new();
        let (learned, sleep) = loop {
            let mut learned = word;
            let sleep = self.strategy.answered(&mut learned, hints, moment);
            if learned == word {
                break (learned, sleep);
            }
            match self.learned.compare_exchange_weak(word, learned, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break (learned, sleep),
                Err(present) => word = present,
            }
            spin_wait.spin();
        };
        hints.is_rejected().then(|| self.place(sleep, learned, moment, longest))
    }

    /// Begins a call, for middleware that sleeps and makes the call itself.
    #[must_use]
    pub fn begin(&self) -> PacedAttempts {
        self.begin_knowing(SeenPause::of(self))
    }

    /// Begins a call that knows of this pause.
    pub(crate) fn begin_knowing(&self, pause: SeenPause) -> PacedAttempts {
        PacedAttempts::new(self.micros.read(&self.clock).micros, pause)
    }

    /// Calls until the service accepts, or until `retry` gives up. Blocks the thread, and sleeps on it.
    ///
    /// The argument of `operation` is the number of the attempt, counted from 1. Only rejections are retried; another error ends
    /// the call.
    ///
    /// # Errors
    ///
    /// [`RetryError`], which says why the call was given up. If the last response is `Ok`, it is returned as it is, even if it is
    /// a rejection. Once the call sleeps after a response, that response is dropped, so a sleep that ends too late leaves only an
    /// earlier error.
    #[cfg(feature = "std")]
    pub fn call<B, R, T, E>(
        &self,
        retry: &PacedRetry<B>,
        hints: R,
        operation: impl FnMut(u32) -> Result<T, E>,
    ) -> Result<T, RetryError<E>>
    where
        B: Budget,
        R: Reads<Result<T, E>, Hints>,
    {
        self.call_sleeping_by(retry, hints, std::thread::sleep, operation)
    }

    /// Calls as `call` does, sleeping by a function of yours: in firmware the timer's.
    ///
    /// # Errors
    ///
    /// [`RetryError`], which says why the call was given up.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::throttle::{Hints, Level, PacedRetry, Pacer};
    /// use damper::{ManualClock, Quota};
    ///
    /// let clock = ManualClock::new();
    /// let pacer = Pacer::with_clock(Level::new(Quota::per_hour(4500)), &clock, 7);
    /// let attempts = pacer.call_sleeping_by(
    ///     &PacedRetry::DEFAULT,
    ///     |result: &Result<u32, u16>| if result.is_err() { Hints::REJECTED } else { Hints::ACCEPTED },
    ///     |wait| clock.advance(wait), // the timer's `delay`
    ///     |attempt| if attempt < 3 { Err(429) } else { Ok(attempt) },
    /// );
    /// assert_eq!(attempts, Ok(3));
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "as `run`, which keeps it")]
    pub fn call_sleeping_by<B, R, T, E>(
        &self,
        retry: &PacedRetry<B>,
        hints: R,
        mut sleep: impl FnMut(Duration),
        mut operation: impl FnMut(u32) -> Result<T, E>,
    ) -> Result<T, RetryError<E>>
    where
        B: Budget,
        R: Reads<Result<T, E>, Hints>,
    {
        let mut attempts = self.begin();
        let mut wait = match attempts.before_call(self, retry) {
            Ok(wait) => wait,
            Err(reason) => return Err(attempts.gave_up(self, reason, None)),
        };
        let mut last = None;
        loop {
            while !wait.is_zero() {
                sleep(wait);
                wait = match attempts.after_sleep(self, retry) {
                    Ok(longer) => longer.unwrap_or_default(),
                    Err(reason) => return Err(attempts.gave_up(self, reason, last)),
                };
            }
            let outcome = operation(attempts.begin_attempt(retry));
            let answer = hints.read_from(&outcome);
            wait = match (attempts.answered(self, retry, &answer), outcome) {
                (Ok(Some(wait)), outcome) => {
                    last = outcome.err().or(last);
                    wait
                }
                (_, Ok(value)) => return Ok(value),
                (reason, Err(error)) => return Err(attempts.failed(self, reason.err(), error)),
            };
        }
    }

    /// Calls until the service accepts, or until `retry` gives up, asynchronously.
    ///
    /// With the feature `tokio`, await it directly; on another runtime, set its [sleep](RepeatedCall::sleeping_by).
    ///
    /// The argument of `operation` is the number of the attempt, counted from 1. Only rejections are retried; another error ends
    /// the call.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "tokio")] {
    /// use core::time::Duration;
    /// use damper::throttle::{Hints, PacedRetry, Pacer};
    /// use damper::{Quota, RetryBudget};
    ///
    /// static API: Pacer = Pacer::new(Quota::per_hour(4500));
    /// static BUDGET: RetryBudget = RetryBudget::DEFAULT;
    ///
    /// # async fn fetch(_: &str) -> Result<u16, std::io::Error> { Ok(200) }
    /// # fn hints(result: &Result<u16, std::io::Error>) -> Hints {
    /// #     if matches!(result, Ok(429)) { Hints::REJECTED } else { Hints::ACCEPTED }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// let retry = PacedRetry::new(5).max_time(Duration::from_secs(60)).budget(&BUDGET);
    /// let page = API.run(&retry, hints, |_attempt| fetch("https://example.com/")).await?;
    /// # Ok(())
    /// # }
    /// # run().unwrap(); }
    /// ```
    pub fn run<'a, B, R, O, F, T, E>(
        &'a self,
        retry: &'a PacedRetry<B>,
        hints: R,
        operation: O,
    ) -> RepeatedCall<(&'a Self, &'a PacedRetry<B>, R), O>
    where
        B: Budget,
        R: Reads<Result<T, E>, Hints>,
        O: FnMut(u32) -> F,
        F: Future<Output = Result<T, E>>,
    {
        RepeatedCall { policy: (self, retry, hints), operation }
    }

    /// Returns the strategy.
    #[must_use]
    pub const fn strategy(&self) -> &S {
        &self.strategy
    }

    /// Returns the least time that a call would sleep now, for dashboards.
    ///
    /// Jitter and a place in a [schedule](Strategy::schedule) may add to it. Changes nothing.
    #[must_use]
    pub fn peek(&self) -> Duration {
        let micros = self.micros.read(&self.clock).micros;
        let learned = self.learned.load(Ordering::Relaxed);
        self.strategy.before_call(learned, Moment::new(micros, 0)).max(self.pause_left(micros).unwrap_or_default())
    }

    /// Returns the time from `began` until now, both on this clock.
    pub(super) fn since(&self, began: u64) -> Duration {
        let elapsed = self.micros.read(&self.clock).micros.wrapping_sub(began);
        // If the clock stepped back, no time has passed.
        Duration::from_micros(if elapsed > i64::MAX as u64 { 0 } else { elapsed })
    }

    fn moment(&self) -> Moment {
        Moment::new(self.micros.read(&self.clock).micros, self.draw())
    }

    /// Takes a place for a call that is to sleep for `sleep`, after the pause is over.
    ///
    /// A place that is `longest` ahead or further is not taken.
    fn place(&self, sleep: Duration, learned: u64, moment: Moment, longest: impl FnOnce() -> Duration) -> Duration {
        let sleep = self.after_pause(learned, moment.micros).map_or(sleep, |wait| wait.max(sleep));
        let spin_wait = SpinWait::new();
        // ORDERING: Relaxed: a place is taken by a swap of the whole word, so two calls do not get the same one. loom-tests:
        // pacer::calls_get_places_of_their_own.
        let mut word = self.schedule.load(Ordering::Relaxed);
        let mut schedule = word;
        let mut place = self.strategy.schedule(&mut schedule, learned, sleep, moment);
        if schedule == word {
            return place;
        }
        let longest = longest();
        loop {
            if schedule == word || place >= longest {
                return place;
            }
            match self.schedule.compare_exchange_weak(word, schedule, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return place,
                Err(present) => word = present,
            }
            spin_wait.spin();
            schedule = word;
            place = self.strategy.schedule(&mut schedule, learned, sleep, moment);
        }
    }

    /// Returns how long a call sleeps for the pause alone; `None` if there is none.
    pub(super) fn rest_of_pause(&self) -> Option<Duration> {
        self.after_pause(self.learned.load(Ordering::Relaxed), self.micros.read(&self.clock).micros)
    }

    /// Returns the word of the pause, which another pause replaces.
    pub(super) fn paused_until(&self) -> u64 {
        self.paused_until.load(Ordering::Relaxed)
    }

    /// Returns the rest of the pause, with a random part of the spread after it.
    fn after_pause(&self, learned: u64, now: u64) -> Option<Duration> {
        let left = self.pause_left(now)?;
        let spread = self.strategy.spread(learned, left).as_nanos();
        let late = random::below(u64::try_from(spread).unwrap_or(u64::MAX >> 1), self.draw());
        Some(left + Duration::from_nanos(late))
    }

    /// Stops all calls for `wait`, unless they are stopped for longer.
    fn pause(&self, wait: Duration, now: u64) {
        let wait = Micros::of_duration(wait).min(self.max_hint);
        if wait == 0 {
            return;
        }
        let until = now.wrapping_add(wait).max(1);
        let mut word = self.paused_until.load(Ordering::Relaxed);
        // ORDERING: Relaxed: the latest end stays. loom-tests: pacer::longest_pause_stays.
        while self.left_until(word, now).is_none_or(|left| left < wait) {
            match self.paused_until.compare_exchange_weak(word, until, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(present) => word = present,
            }
        }
    }

    /// Returns the rest of the pause.
    fn pause_left(&self, now: u64) -> Option<Duration> {
        self.left_until(self.paused_until(), now).map(Duration::from_micros)
    }

    /// Returns the microseconds until the time in the word, `None` if it has passed.
    fn left_until(&self, word: u64, now: u64) -> Option<u64> {
        let left = word.wrapping_sub(now);
        // A thread that was stopped after its reading, or whose clock stepped back a little, sees a pause that began since
        // from too far away. A time that lies still further ahead has passed, or the clock has stepped back.
        let is_ahead = word != 0 && left != 0 && left <= self.max_hint.saturating_add(MOST_LAG);
        is_ahead.then_some(left.min(self.max_hint))
    }

    fn draw(&self) -> u64 {
        #[cfg(feature = "std")]
        if self.random.load(Ordering::Relaxed) == 0 {
            let seed = random::draw() | 1;
            _ = self.random.compare_exchange(0, seed, Ordering::Relaxed, Ordering::Relaxed);
        }
        random::shared_next(&self.random)
    }
}

/// Shows only what does not change, without reading the clock.
impl<S: fmt::Debug, C> fmt::Debug for Pacer<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pacer").field("strategy", &self.strategy).finish_non_exhaustive()
    }
}

/// The pause of a pacer that a call knew of when it began to sleep.
///
/// Another pause may begin meanwhile. The call then sleeps for longer.
#[derive(Clone, Copy, Debug)]
pub struct SeenPause(u64);

impl SeenPause {
    /// Returns the pause in force. Read it before the sleep, so that no later pause is missed.
    #[must_use]
    pub fn of<S: Strategy, C: Clock>(pacer: &Pacer<S, C>) -> Self {
        Self(pacer.paused_until())
    }

    /// Returns how much longer a call sleeps after its sleep.
    ///
    /// `None` unless another pause has begun and is not over.
    ///
    /// Each pause lengthens a sleep once, so that the sleep ends even if the timer's clock is not the pacer's.
    pub fn extension<S: Strategy, C: Clock>(&mut self, pacer: &Pacer<S, C>) -> Option<Duration> {
        let present = pacer.paused_until();
        if present == core::mem::replace(&mut self.0, present) { None } else { pacer.rest_of_pause() }
    }
}
