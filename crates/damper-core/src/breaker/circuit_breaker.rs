//! The circuit breaker: its constructors, and the way of a call through it.
//!
//! A call leaves this file only for the loads of the word (`transitions`, `state_word`) and of the settings (`live_settings`),
//! until the state changes: failures trip a breaker in `state_machine`, rates in `rates`.

use super::breaker_state::BreakerState;
use super::live_settings::LiveSettings;
use super::permit::Breaker;
use super::recent_changes::ChangeRecord;
use super::run::{ClassifyFn, Run};
use super::settings::{BreakerSettings, CooldownRequest, RecordWords};
use super::state_machine::{CallDecision, Settings, Share};
use super::state_word::{Generation, Phase, StateWord};
use super::transitions::Transitions;
use super::window::{OutcomeWindow, WindowShape};
use super::{BreakerConfig, CallError, Cause, CircuitOpen, OnStateChange, Permit, State, StateChange, Verdict};
use crate::ramp::Turns;
use crate::sync::{AtomicBool, AtomicU32, Ordering, const_unless_loom};
use crate::time::{Clock, DefaultClock, LazyMicros, MicrosReading};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

type Snapshot = super::state_word::Snapshot<u64>;

/// Stops calls to a service that keeps failing, and detects when it has recovered.
///
/// A closed breaker lets calls pass and counts their outcomes. When too many fail (consecutive ones, or a rate of those in a
/// [`Window`](super::Window)) or are slow, it opens and refuses calls at once. When the cooldown is over, the next call passes as
/// a probe. While the breaker is half-open, at most `max_probes` calls are in flight, enough successes close it and any failure
/// opens it again. With a [`ramp`](super::BreakerConfigBuilder::ramp) it returns gradually after that: a growing share of the calls
/// passes. [`BreakerConfig`] sets the thresholds and times. Put a timeout on calls: a probe that never ends keeps its
/// place and blocks other probes.
///
/// Share it by reference, in a `static` or an `Arc`. Nothing blocks or allocates. In the closed state a success with no
/// failure before it writes nothing and reads no clock. That holds for rates too, once a window of calls is full of successes; windows
/// of time and slow calls need the clock, and windows of time count each call.
///
/// # Memory ordering
///
/// A breaker orders nothing else: it neither publishes nor acquires the memory of other threads.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::{CallError, CircuitBreaker};
///
/// let breaker = CircuitBreaker::default(); // 5 failures, 30 s, 1 probe
/// match breaker.call(|| "42".parse::<u32>()) {
///     Ok(number) => assert_eq!(number, 42),
///     Err(CallError::Refused(open)) => println!("{open}"), // circuit open, next probe in 28 s
///     Err(CallError::Failed(error)) => println!("{error}"),
/// }
/// # }
/// ```
pub struct CircuitBreaker<C = DefaultClock, L = ()> {
    pub(super) state: BreakerState,
    pub(super) settings: LiveSettings,
    pub(super) window: OutcomeWindow,
    pub(super) changes: ChangeRecord,
    /// Counts how often the breaker became open or forced open.
    ///
    /// It stands here, where it takes no room of its own.
    pub(super) openings: AtomicU32,
    /// Chooses the calls that pass while the breaker returns. It takes no room of its own either.
    turns: Turns,
    /// Whether calls pass even where the breaker would refuse them.
    pub(super) is_metrics_only: AtomicBool,
    micros: LazyMicros,
    clock: C,
    listener: L,
}

#[cfg(feature = "std")]
impl CircuitBreaker {
    const_unless_loom! {
        /// Creates a closed breaker on the [default clock](DefaultClock).
        ///
        /// # Examples
        ///
        /// ```
        /// # extern crate damper_core as damper;
        /// use damper::{BreakerConfig, CircuitBreaker};
        ///
        /// static DATABASE: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT);
        /// assert!(DATABASE.try_acquire().is_ok());
        ///
        /// // Settings of your own, refused at compile time if they are out of range.
        /// const PATIENT: BreakerConfig = match BreakerConfig::builder().failure_threshold(20).build() {
        ///     Ok(config) => config,
        ///     Err(_) => panic!("out of range"),
        /// };
        /// static SEARCH: CircuitBreaker = CircuitBreaker::new(PATIENT);
        /// # assert!(SEARCH.try_acquire().is_ok());
        /// ```
        #[must_use]
        pub const fn new(config: BreakerConfig) -> Self {
            Self::with_clock(config, crate::time::Monotonic)
        }
    }
}

#[cfg(feature = "std")]
impl Default for CircuitBreaker {
    /// Creates a breaker with the default settings on the default clock.
    fn default() -> Self {
        Self::new(BreakerConfig::DEFAULT)
    }
}

impl<C: Clock> CircuitBreaker<C> {
    const_unless_loom! {
        /// Creates a closed breaker on a clock of your own. A reference to a clock is a clock too.
        #[must_use]
        pub const fn with_clock(config: BreakerConfig, clock: C) -> Self {
            let shape = WindowShape::new(config.window(), config.slow_rate().is_some());
            Self {
                state: BreakerState::closed(RecordWords::new(&config).longest_cooldown()),
                settings: LiveSettings::new(&config),
                window: OutcomeWindow::new(shape),
                changes: ChangeRecord::new(),
                openings: AtomicU32::new(0),
                turns: Turns::new(),
                is_metrics_only: AtomicBool::new(false),
                micros: LazyMicros::new(),
                clock,
                listener: (),
            }
        }
    }

    /// Registers a callback for state changes. Call it before the first use.
    ///
    /// The thread that made a change calls the callback after it, exactly once for every change. If the callback unwinds, so does
    /// the call that made the change; if that call is already unwinding, the process aborts.
    ///
    /// A breaker with a callback is a `CircuitBreaker<C, F>`: to name it, give a `fn(StateChange)`, a
    /// `Box<dyn Fn(StateChange) + Send + Sync>` or a [listener of your own type](Self::with_listener). In a `static` it
    /// takes a `LazyLock`.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::{BreakerConfig, CircuitBreaker, ManualClock};
    /// use std::sync::mpsc::channel;
    ///
    /// let (sender, changes) = channel();
    /// let config = BreakerConfig::builder().failure_threshold(1).build()?;
    /// let breaker = CircuitBreaker::with_clock(config, ManualClock::new())
    ///     .on_state_change(move |change| _ = sender.send(change)); // also before anything receives
    /// breaker.try_acquire()?.failure();
    /// assert_eq!(changes.try_recv()?.to_string(), "circuit closed -> open: consecutive failures");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_state_change<F: Fn(StateChange)>(self, listener: F) -> CircuitBreaker<C, F> {
        self.with_listener(listener)
    }

    /// Registers a listener of your own type for state changes; see [`on_state_change`](Self::on_state_change).
    pub fn with_listener<L: OnStateChange>(self, listener: L) -> CircuitBreaker<C, L> {
        let Self { state, settings, window, changes, openings, turns, is_metrics_only, micros, clock, listener: () } =
            self;
        CircuitBreaker { state, settings, window, changes, openings, turns, is_metrics_only, micros, clock, listener }
    }
}

impl<C: Clock, L: OnStateChange> CircuitBreaker<C, L> {
    /// Makes one call if the breaker lets it pass. `Err` is a failure, and so is a panic.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the call was not made, [`CallError::Failed`] with its error if it was.
    #[inline]
    pub fn call<T, E>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E>> {
        self.call_with(call, Verdict::of)
    }

    /// Makes one call as [`call`](Self::call) does; `classify` gives the verdict on what it returned.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the call was not made, [`CallError::Failed`] with its error if it was, whatever the
    /// verdict.
    ///
    /// # Examples
    ///
    /// A file that is not found is not the server's failure:
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::CircuitBreaker;
    /// use damper::breaker::Verdict;
    /// use std::io::ErrorKind;
    ///
    /// let breaker = CircuitBreaker::default();
    /// for _ in 0..10 {
    ///     let missing = breaker.call_with(
    ///         || std::fs::read_to_string("/no/such/file"),
    ///         |result| match result {
    ///             Err(error) if error.kind() == ErrorKind::NotFound => Verdict::Ignored,
    ///             result => Verdict::of(result),
    ///         },
    ///     );
    ///     assert!(missing.is_err());
    /// }
    /// assert_eq!(breaker.state(), damper::breaker::State::Closed);
    /// # }
    /// ```
    #[inline]
    pub fn call_with<T, E>(
        &self,
        call: impl FnOnce() -> Result<T, E>,
        classify: impl FnOnce(&Result<T, E>) -> Verdict,
    ) -> Result<T, CallError<E>> {
        guarded_call(self, call, classify)
    }

    /// Awaits a future if the breaker lets it pass. `Err` is a failure, and so is a panic.
    ///
    /// The future asks the breaker when it is first polled. A future that is dropped before it ended records no verdict: put a
    /// timeout *into* the future, and make it an error there. A future that works before it is polled, such as a spawned task, is
    /// not held back; give an `async` block. To spawn it, move an `Arc` of the breaker into an `async` block.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the future was not polled, [`CallError::Failed`] with its error if it was.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn run() {
    /// let breaker = damper::CircuitBreaker::default();
    /// let answer = breaker.run(async { "42".parse::<u32>() }).await;
    /// assert_eq!(answer, Ok(42));
    /// # }
    /// # run(); }
    /// ```
    pub fn run<T, E, F: Future<Output = Result<T, E>>>(&self, future: F) -> Run<&Self, F, ClassifyFn<T, E>> {
        Run::of_result(self, future)
    }

    /// Awaits a future as [`run`](Self::run) does; `classify` gives the verdict on what it returned.
    pub fn run_with<T, E, F: Future<Output = Result<T, E>>, V: FnOnce(&Result<T, E>) -> Verdict>(
        &self,
        future: F,
        classify: V,
    ) -> Run<&Self, F, V> {
        Run::new(self, future, classify)
    }

    /// Returns a permit for one call.
    ///
    /// # Errors
    ///
    /// [`CircuitOpen`] while the breaker is open, half-open with all its probes in flight, or returning and the call is not one of the
    /// share that passes.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::breaker::State;
    /// use damper::{BreakerConfig, CircuitBreaker, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let config = BreakerConfig::builder().failure_threshold(1).build()?;
    /// let breaker = CircuitBreaker::with_clock(config, &clock);
    /// breaker.try_acquire()?.failure();
    /// assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), Some(Duration::from_secs(30)));
    ///
    /// clock.advance(Duration::from_secs(30));
    /// let probe = breaker.try_acquire()?;
    /// assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), None); // probe in progress
    /// probe.success();
    /// assert_eq!(breaker.state(), State::Closed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit<&Self>, CircuitOpen> {
        Permit::admitted_by(self)
    }

    /// Returns a permit as [`try_acquire`](Self::try_acquire) does, with its own reference to the breaker.
    ///
    /// Use it where the permit outlives the borrow, as in a response body or a spawned task.
    ///
    /// # Errors
    ///
    /// [`CircuitOpen`] while the breaker is open, or half-open with all its probes in flight.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    #[inline]
    pub fn try_acquire_owned(self: &Arc<Self>) -> Result<Permit<Arc<Self>>, CircuitOpen> {
        Permit::admitted_by(Arc::clone(self))
    }

    /// Returns the refusal that a call would get now, or `None` if it would pass.
    ///
    /// Takes no permit and changes nothing. The outcome may differ for a later call, so make each call with a permit.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::{BreakerConfig, CircuitBreaker, ManualClock};
    ///
    /// let breaker = CircuitBreaker::with_clock(BreakerConfig::DEFAULT, ManualClock::new());
    /// assert_eq!(breaker.refusal(), None);
    /// breaker.force_open();
    /// assert_eq!(breaker.refusal(), breaker.try_acquire().err());
    /// ```
    #[inline]
    pub fn refusal(&self) -> Option<CircuitOpen> {
        match self.closed_generation() {
            Ok(_) => None,
            Err(current) => self.refusal_slow(current, RefusalOf::NextCall),
        }
    }

    /// Returns the refusal that every call would get now, until time passes or another call ends.
    ///
    /// A caller that asks this before each call need not make the calls that it refuses. `None` where only a call that asks
    /// for admission takes a turn of a ramp, or ends a half-open state that has lasted too long.
    #[inline]
    pub(crate) fn refusal_of_every_call(&self) -> Option<CircuitOpen> {
        match self.closed_generation() {
            Ok(_) => None,
            Err(current) => self.refusal_slow(current, RefusalOf::EveryCall),
        }
    }
}

/// Which calls a refusal is about that is returned without a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RefusalOf {
    NextCall,
    EveryCall,
}

/// Makes one call if `breaker` lets it pass, and records the verdict of `classify` on it.
///
/// A panic of either is a failure.
#[inline]
pub(crate) fn guarded_call<B: Breaker, T, E>(
    breaker: &B,
    call: impl FnOnce() -> Result<T, E>,
    classify: impl FnOnce(&Result<T, E>) -> Verdict,
) -> Result<T, CallError<E>> {
    let ticket = breaker.admit()?;
    let guard = OnUnwind(|| breaker.record(ticket, Verdict::Failure));
    let result = call();
    let verdict = classify(&result);
    core::mem::forget(guard);
    // Each arm records the verdict, so that the variant of the result is not checked twice.
    match result {
        Ok(value) => {
            breaker.record(ticket, verdict);
            Ok(value)
        }
        Err(error) => {
            breaker.record(ticket, verdict);
            Err(CallError::Failed(error))
        }
    }
}

/// Calls its function if a panic unwinds through its scope. Code that returns forgets it.
pub(crate) struct OnUnwind<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnUnwind<F> {
    #[inline]
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Identifies an admitted call until its outcome is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub(super) generation: Generation,
    /// The start of the call in microseconds; [`UNTIMED`] if calls were not timed then.
    pub(super) began: u64,
}

/// The start of a call that is not timed. It counts at the moment at which it ends.
pub(super) const UNTIMED: u64 = u64::MAX;

impl Ticket {
    /// A ticket whose outcome is discarded.
    const VOID: Self = Self { generation: Generation::NONE, began: UNTIMED };
}

impl<C: Clock, L: OnStateChange> Breaker for CircuitBreaker<C, L> {
    type Ticket = Ticket;

    #[inline]
    fn admit(&self) -> Result<Ticket, CircuitOpen> {
        match self.closed_generation() {
            Ok(generation) => Ok(Ticket { generation, began: self.timestamp() }),
            Err(current) => self.admit_slow(current),
        }
    }

    #[inline]
    fn record(&self, ticket: Ticket, verdict: Verdict) {
        match verdict {
            Verdict::Success => self.succeeded(ticket),
            Verdict::Failure | Verdict::DeadlineExceeded => self.failed(ticket, Duration::ZERO),
            Verdict::RetryAfter(wait) => self.failed(ticket, wait),
            Verdict::Ignored => self.released(ticket.generation),
        }
    }

    #[cold]
    fn abandoned(&self, ticket: Ticket) {
        self.settle(ticket.generation, None, |settings, current| match current.phase() {
            Phase::HalfOpen(_) if settings.abandoned_probes_fail() => {
                settings.after_failure(current, || self.now(), self.cooldown(Duration::ZERO))
            }
            _ => settings.after_no_verdict(current),
        });
    }

    #[inline]
    fn probe_answered(&self, ticket: &mut Ticket) {
        if self.closed_generation().is_err() {
            self.probe_answered_slow(ticket);
        }
    }
}

impl<C: Clock, L: OnStateChange> CircuitBreaker<C, L> {
    #[cold]
    fn refusal_slow(&self, mut current: Snapshot, of: RefusalOf) -> Option<CircuitOpen> {
        while !self.is_metrics_only() {
            let settings = self.settings();
            let decision = settings.admit(current, || self.now(), || self.cooldown(Duration::ZERO));
            if self.are_in_force(&settings) {
                match decision {
                    CallDecision::Pass | CallDecision::Probe(_) => return None,
                    CallDecision::Refuse(open) => return Some(open),
                    _ if of == RefusalOf::EveryCall => return None,
                    CallDecision::Share(Share { stage, seed }) => {
                        let passes = self.turns.peek(stage.parts, seed);
                        return (!passes).then(|| CircuitOpen::returning(stage.grows_in));
                    }
                    // The next call would open the breaker again, or close it.
                    CallDecision::HalfOpenTooLong(next) | CallDecision::Returned(next) => current = next,
                }
            }
        }
        None
    }

    #[cold]
    fn admit_slow(&self, current: Snapshot) -> Result<Ticket, CircuitOpen> {
        match self.admit_or_refuse(current) {
            Ok(generation) => Ok(Ticket { generation, began: self.timestamp() }),
            Err(_) if self.is_metrics_only() => Ok(Ticket::VOID),
            Err(open) => Err(open),
        }
    }

    /// Records a success. One that changes nothing writes nothing.
    #[inline]
    fn succeeded(&self, ticket: Ticket) {
        let changes_nothing = self.state.word.load().is_closed_without_failure(ticket.generation)
            && self.settings.is_healthy(&self.state, &self.window, ticket.generation);
        if !changes_nothing {
            self.ended(ticket, false, Duration::ZERO);
        }
    }

    #[cold]
    fn failed(&self, ticket: Ticket, retry_after: Duration) {
        if self.settings.has_rates() {
            self.ended(ticket, true, retry_after);
        } else if !self.counts_failure(ticket.generation) {
            self.failed_slow(ticket.generation, retry_after);
        }
    }

    /// Records a success or a failure in the window and in the state.
    #[inline(never)]
    fn ended(&self, ticket: Ticket, failed: bool, retry_after: Duration) {
        if self.settings.has_rates() {
            self.record_in_window(ticket, failed, retry_after);
        }
        if failed {
            if !self.counts_failure(ticket.generation) {
                self.failed_slow(ticket.generation, retry_after);
            }
        } else if !self.state.word.load().is_closed_without_failure(ticket.generation) {
            self.settle_success(ticket);
        }
    }

    /// Records a success in the state and returns the snapshot after it; `None` if the result is late.
    #[cold]
    fn settle_success(&self, Ticket { generation, began }: Ticket) -> Option<Snapshot> {
        self.settle(generation, None, |settings, current| match current.phase() {
            // Reads the clock only for probes: the window has already timed a call of the closed state.
            Phase::HalfOpen(_)
                if settings.counts_slow_calls() && settings.is_slow(self.read_clock().saturating_sub(began)) =>
            {
                settings.after_failure(current, || self.now(), self.cooldown(Duration::ZERO))
            }
            _ => settings.after_success(current, || self.now(), || self.cooldown(Duration::ZERO)),
        })
    }

    /// Counts a failure that leaves the breaker closed; returns whether it did.
    ///
    /// Returns `false` if the failure would change the state, or if another thread intervened.
    ///
    /// A failure is counted here before [`failed_slow`](Self::failed_slow) is tried, which needs more registers and a loop.
    #[inline]
    fn counts_failure(&self, generation: Generation) -> bool {
        let settings = self.settings();
        let current = self.state.word.load();
        current.generation() == generation
            && settings
                .counted_failure(current)
                .is_some_and(|next| self.are_in_force(&settings) && self.state.word.replace(current, next))
    }

    #[inline(never)]
    fn failed_slow(&self, generation: Generation, retry_after: Duration) {
        self.after_failure(generation, retry_after);
    }

    #[cold]
    fn probe_answered_slow(&self, ticket: &mut Ticket) {
        if self.is_probe(ticket.generation) {
            *ticket = match self.settle_success(*ticket) {
                Some(next) if next.generation() != ticket.generation && !matches!(next.phase(), Phase::Open { .. }) => {
                    Ticket { generation: next.generation(), began: self.timestamp() }
                }
                _ => Ticket::VOID,
            };
        }
    }

    /// Records when a state began, if the thread that began it was stopped before doing so.
    fn record_start_if_missing(&self, generation: Generation) {
        if self.state.since(generation).is_none() {
            self.state.record_start(generation, self.now().micros);
        }
    }

    /// Returns the time at which a call begins or ends, if calls are timed.
    #[inline]
    fn timestamp(&self) -> u64 {
        if self.settings.is_timed() { self.read_clock() } else { UNTIMED }
    }

    /// Reads the clock. Out of line, so that it does not slow a breaker that times no calls.
    #[inline(never)]
    pub(super) fn read_clock(&self) -> u64 {
        self.now().micros
    }
}

impl<C: Clock, L: OnStateChange> Transitions for CircuitBreaker<C, L> {
    type Word = u64;
    type Now = MicrosReading;
    type Request = CooldownRequest;
    type Settings<'a>
        = BreakerSettings<'a>
    where
        Self: 'a;

    #[inline]
    fn word(&self) -> &StateWord<u64> {
        &self.state.word
    }

    #[inline]
    fn settings(&self) -> BreakerSettings<'_> {
        self.settings.read(&self.state)
    }

    #[inline]
    fn are_in_force(&self, settings: &BreakerSettings<'_>) -> bool {
        self.settings.is_current(settings)
    }

    fn now(&self) -> MicrosReading {
        self.micros.read(&self.clock)
    }

    #[inline]
    fn cooldown(&self, retry_after: Duration) -> CooldownRequest {
        CooldownRequest { retry_after, address: core::ptr::from_ref(self).addr() as u64 }
    }

    #[cold]
    fn probe_refused(&self, current: Snapshot) {
        self.record_start_if_missing(current.generation());
    }

    #[cold]
    fn takes_turn(&self, current: Snapshot, Share { stage, seed }: Share) -> bool {
        self.record_start_if_missing(current.generation());
        self.turns.take(stage.parts, seed)
    }

    #[inline]
    fn changed(&self, old: Snapshot, new: Snapshot, cause: Option<Cause>) {
        let (from, to) = (old.phase().state(), new.phase().state());
        let cause = cause.unwrap_or_else(|| Cause::of(from, to));
        let change = StateChange { from, to, cause, generation: new.generation().to_bits() };
        let now = self.now().micros;
        if matches!(to, State::HalfOpen | State::Returning) {
            self.state.record_start(new.generation(), now);
        }
        // The change is recorded before the listener is called, which may ask for it.
        self.changes.record(change, now);
        if matches!(to, State::Open | State::ForcedOpen) {
            // ORDERING: Relaxed: a count, through which nothing is published.
            self.openings.fetch_add(1, Ordering::Relaxed);
        }
        self.listener.on_state_change(change);
    }
}

/// Shows the stored state, without reading the clock.
impl<C, L> fmt::Debug for CircuitBreaker<C, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreaker").field("phase", &self.state.word.load().phase()).finish_non_exhaustive()
    }
}
