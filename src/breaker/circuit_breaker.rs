//! One breaker: its word, its policy, its window and a clock.

use super::change::{Cause, OnStateChange, StateChange};
use super::policy::{Admission, Now, OpenFor, Policy};
use super::window::{Outcome, Outcomes, Span, Window};
use super::word::{Generation, Packed, Phase, Probes, Snapshot, StateWord};
use super::{BreakerConfig, BreakerStatus, CallError, CircuitOpen, Permit, Run, State, Verdict};
use crate::atomic::{AtomicU64, Backoff, Ordering, const_unless_loom};
use crate::clock::{Clock, DefaultClock, LazyMicros};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

/// Stops calling what keeps failing, and finds out when it has recovered.
///
/// Closed, it lets calls pass and looks at their outcomes; when too many fail (in a row, or as a rate of those in a [`Window`]) or are slow, it
/// opens and refuses at once. When the cooldown is over the next call passes as a probe: half-open, at most `max_probes` calls are in flight, enough
/// successes close it and any failure opens it again. [`BreakerConfig`] says how many, and how long. Put a timeout on calls: a probe that never
/// ends keeps its place, and so keeps others out.
///
/// Share it by reference, in a `static` or an `Arc`. Nothing blocks or allocates; in the closed state a success with no
/// failure before it writes nothing, and no clock is read, unless there is a rate to be taken.
///
/// # Memory ordering
///
/// A breaker orders nothing else: it neither publishes nor acquires the memory of other threads.
///
/// # Examples
///
#[cfg_attr(feature = "std", doc = "```")]
#[cfg_attr(not(feature = "std"), doc = "```text")]
/// use damper::{CallError, CircuitBreaker};
///
/// let breaker = CircuitBreaker::default(); // 5 failures, 30 s, 1 probe
/// match breaker.call(|| "42".parse::<u32>()) {
///     Ok(number) => assert_eq!(number, 42),
///     Err(CallError::Open(open)) => println!("{open}"), // circuit open, next probe in 28 s
///     Err(CallError::Failed(error)) => println!("{error}"),
/// }
/// ```
pub struct CircuitBreaker<C = DefaultClock, L = ()> {
    word: StateWord,
    policy: Policy,
    window: Outcomes,
    /// Whether calls are timed, for slow ones or for the window.
    is_timed: bool,
    /// 1 if nothing is refused.
    metrics_only: AtomicU64,
    micros: LazyMicros,
    clock: C,
    listener: L,
}

#[cfg(feature = "std")]
impl CircuitBreaker {
    const_unless_loom! {
        /// A closed breaker on the [default clock](DefaultClock).
        ///
        /// # Examples
        ///
        /// ```
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
            Self::with_clock(config, crate::clock::Monotonic)
        }
    }
}

#[cfg(feature = "std")]
impl Default for CircuitBreaker {
    /// A breaker with the default settings on the default clock.
    fn default() -> Self {
        Self::new(BreakerConfig::DEFAULT)
    }
}

impl<C: Clock> CircuitBreaker<C> {
    const_unless_loom! {
        /// A closed breaker on a clock of your own. A reference to a clock is a clock too.
        #[must_use]
        pub const fn with_clock(config: BreakerConfig, clock: C) -> Self {
            let policy = Policy::new(&config);
            Self {
                word: StateWord::closed(),
                window: Outcomes::few(policy.tells_slow_calls()),
                is_timed: policy.tells_slow_calls(),
                policy,
                metrics_only: AtomicU64::new(0),
                micros: LazyMicros::new(),
                clock,
                listener: (),
            }
        }
    }

    /// The same breaker, before its first use, with a function that is told of every change of its state: exactly once, by the thread that made it, after the
    /// change. If it unwinds, it does so out of the call that made the change; where that is unwinding already, the process aborts.
    ///
    /// A breaker that has one is `CircuitBreaker<C, F>`: to name it, give a `fn(StateChange)`, or a `Box<dyn Fn(StateChange) + Send + Sync>`, or
    /// a type of your own [that listens](Self::listened_to_by). In a `static` it is made in a `LazyLock`.
    ///
    /// # Examples
    ///
    /// ```
    /// use damper::{BreakerConfig, CircuitBreaker, ManualClock};
    /// use std::sync::mpsc::channel;
    ///
    /// let (sender, changes) = channel();
    /// let config = BreakerConfig::builder().failure_threshold(1).build()?;
    /// let breaker = CircuitBreaker::with_clock(config, ManualClock::new())
    ///     .on_state_change(move |change| _ = sender.send(change)); // whether somebody listens yet or not
    /// breaker.try_acquire()?.failure();
    /// assert_eq!(changes.try_recv()?.to_string(), "circuit closed -> open: failures in a row");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_state_change<F: Fn(StateChange)>(self, listener: F) -> CircuitBreaker<C, F> {
        self.listened_to_by(listener)
    }

    /// As [`on_state_change`](Self::on_state_change), with a type of your own.
    pub fn listened_to_by<L: OnStateChange>(self, listener: L) -> CircuitBreaker<C, L> {
        let Self { word, policy, window, is_timed, metrics_only, micros, clock, listener: () } = self;
        CircuitBreaker { word, policy, window, is_timed, metrics_only, micros, clock, listener }
    }
}

impl<C: Clock, L: OnStateChange> CircuitBreaker<C, L> {
    /// The same breaker, before its first use, with a window of your own for its rates; without a rate it means nothing. What a larger window takes is allocated here.
    #[must_use]
    pub fn with_window(self, window: Window) -> Self {
        let window = Outcomes::of(window, self.policy.tells_slow_calls());
        let is_timed = self.policy.has_rates() && (self.policy.tells_slow_calls() || window.is_timed());
        Self { window, is_timed, ..self }
    }

    /// Asks to make one call.
    ///
    /// # Errors
    ///
    /// [`CircuitOpen`] while the breaker is open, or half-open with its probes out.
    ///
    /// # Examples
    ///
    /// ```
    /// use core::time::Duration;
    /// use damper::{BreakerConfig, CircuitBreaker, ManualClock, State};
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
        let admitted = self.admit()?;
        Ok(Permit::new(self, admitted))
    }

    /// As [`try_acquire`](Self::try_acquire), with a permit that owns a reference to the breaker: for what outlives the
    /// borrow, like the body of an answer or a spawned task.
    ///
    /// # Errors
    ///
    /// [`CircuitOpen`] while the breaker is open, or half-open with its probes out.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    #[inline]
    pub fn try_acquire_owned(self: &Arc<Self>) -> Result<Permit<Arc<Self>>, CircuitOpen> {
        let admitted = self.admit()?;
        Ok(Permit::new(Arc::clone(self), admitted))
    }

    /// Lets a call pass.
    #[inline]
    fn admit(&self) -> Result<Admitted, CircuitOpen> {
        match self.word.closed_generation() {
            Ok(generation) => Ok(Admitted { generation, began: self.timed() }),
            Err(current) => self.admit_slow(current),
        }
    }

    #[cold]
    fn admit_slow(&self, current: Packed) -> Result<Admitted, CircuitOpen> {
        match self.admit_or_refuse(current.unpack()) {
            Ok(generation) => Ok(Admitted { generation, began: self.timed() }),
            // ORDERING: Relaxed: a flag that publishes nothing.
            Err(_) if self.metrics_only.load(Ordering::Relaxed) != 0 => {
                Ok(Admitted { generation: Generation::NONE, began: 0 })
            }
            Err(open) => Err(open),
        }
    }

    fn admit_or_refuse(&self, mut current: Snapshot) -> Result<Generation, CircuitOpen> {
        let backoff = Backoff::new();
        loop {
            match self.policy.admit(current, || self.now()) {
                Admission::Pass => return Ok(current.generation),
                Admission::Probe(next) => {
                    if self.replace(current, next, None) {
                        return Ok(next.generation);
                    }
                }
                Admission::Open(left) => return Err(CircuitOpen::for_micros(left)),
                Admission::Probing => return Err(CircuitOpen::PROBING),
                Admission::Forced => return Err(CircuitOpen::FORCED),
                Admission::HalfOpenTooLong(now) => {
                    let next = self.policy.reopened(current, now, self.open_for(Duration::ZERO));
                    // Open from here on, whoever was first.
                    _ = self.replace(current, next, Some(Cause::HalfOpenTooLong));
                }
            }
            backoff.spin();
            current = self.word.load();
        }
    }

    /// Makes one call if the breaker lets it pass; `Err` is a failure, and so is unwinding out of it.
    ///
    /// # Errors
    ///
    /// [`CallError::Open`] if the call was not made, [`CallError::Failed`] with its error if it was.
    #[inline]
    pub fn call<T, E>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E>> {
        self.call_with(call, Verdict::of)
    }

    /// As [`call`](Self::call), with a verdict of your own on what the call returned.
    ///
    /// # Errors
    ///
    /// [`CallError::Open`] if the call was not made, [`CallError::Failed`] with its error if it was, whatever the verdict.
    ///
    /// # Examples
    ///
    /// What is not found is not the callee's failure:
    ///
    #[cfg_attr(feature = "std", doc = "```")]
    #[cfg_attr(not(feature = "std"), doc = "```text")]
    /// use damper::{CircuitBreaker, Verdict};
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
    /// assert_eq!(breaker.state(), damper::State::Closed);
    /// ```
    #[inline]
    pub fn call_with<T, E>(
        &self,
        call: impl FnOnce() -> Result<T, E>,
        classify: impl FnOnce(&Result<T, E>) -> Verdict,
    ) -> Result<T, CallError<E>> {
        let admitted = self.admit()?;
        let guard = FailureOnUnwind { breaker: self, admitted };
        let result = call();
        let verdict = classify(&result);
        core::mem::forget(guard);
        self.tell(admitted, verdict);
        result.map_err(CallError::Failed)
    }

    /// Awaits a future if the breaker lets it pass, which is asked when it is first polled; `Err` is a failure, and so is unwinding out of it.
    /// Dropped before it ended, it tells no verdict: put a timeout *into* the future, and make it an error there. A future that works before it is
    /// polled, such as a spawned task, is not held back; give an `async` block. To spawn it, move an `Arc` of the breaker into an `async` block.
    ///
    /// # Errors
    ///
    /// [`CallError::Open`] if the future was not polled, [`CallError::Failed`] with its error if it was.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "std", doc = "```")]
    #[cfg_attr(not(feature = "std"), doc = "```text")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let breaker = damper::CircuitBreaker::default();
    /// let answer = breaker.run(async { "42".parse::<u32>() }).await;
    /// assert_eq!(answer, Ok(42));
    /// # }
    /// ```
    pub fn run<T, E, F: Future<Output = Result<T, E>>>(
        &self,
        future: F,
    ) -> Run<&Self, F, impl FnOnce(&Result<T, E>) -> Verdict> {
        self.run_with(future, Verdict::of)
    }

    /// As [`run`](Self::run), with a verdict of your own on what the future returned.
    pub fn run_with<T, E, F: Future<Output = Result<T, E>>, V: FnOnce(&Result<T, E>) -> Verdict>(
        &self,
        future: F,
        classify: V,
    ) -> Run<&Self, F, V> {
        Run::new(self, future, classify)
    }

    /// The state now. An open breaker whose cooldown is over is half-open, though no probe has passed yet.
    pub fn state(&self) -> State {
        self.policy.state(self.word.load(), || self.now()).0
    }

    /// What the breaker knows now: its state, what it has counted, and when the next probe may pass.
    pub fn status(&self) -> BreakerStatus {
        let current = self.word.load();
        let (state, left) = self.policy.state(current, || self.now());
        let (tally, generation) = if self.policy.has_rates() {
            self.window.tally(if self.window.is_timed() { self.now().micros } else { 0 })
        } else {
            (super::window::Tally::default(), current.generation)
        };
        // What was counted in an earlier closed state is no longer looked at.
        let is_of_before = generation != current.generation;
        let tally = match current.phase {
            Phase::Closed { .. } | Phase::Disabled { .. } if is_of_before => super::window::Tally::default(),
            _ => tally,
        };
        let failures_in_a_row = match current.phase {
            Phase::Closed { failures } | Phase::Disabled { failures } => failures,
            _ => 0,
        };
        let (probes_out, probes_succeeded, probes_failed) = match current.phase {
            Phase::HalfOpen(Probes { out, succeeded, failed, .. }) => (out, succeeded, failed),
            _ => (0, 0, 0),
        };
        BreakerStatus {
            state,
            generation: current.generation.to_bits() as u32,
            is_metrics_only: self.metrics_only.load(Ordering::Relaxed) != 0,
            failures_in_a_row,
            calls: tally.calls,
            failed: tally.failed,
            slow: tally.slow,
            probes_out,
            probes_succeeded,
            probes_failed,
            next_probe_in: left.map(Duration::from_micros),
        }
    }

    /// Opens the breaker until somebody [resets](Self::reset) it: every call is refused, and none is a probe.
    pub fn force_open(&self) {
        self.metrics_only.store(0, Ordering::Relaxed);
        self.force(Phase::ForcedOpen);
    }

    /// Closes the breaker until somebody [resets](Self::reset) it: every call passes, and none is counted.
    pub fn force_closed(&self) {
        self.metrics_only.store(0, Ordering::Relaxed);
        self.force(Phase::ForcedClosed);
    }

    /// Stops the breaker from tripping until somebody [resets](Self::reset) it: every call passes, and all are counted, as
    /// [`status`](Self::status) tells.
    pub fn disable(&self) {
        self.metrics_only.store(0, Ordering::Relaxed);
        self.force(Phase::Disabled { failures: 0 });
    }

    /// Lets the breaker work as ever, except that calls which it would refuse pass uncounted: to see what it would do before it does. Until
    /// somebody [resets](Self::reset) it.
    pub fn metrics_only(&self) {
        self.metrics_only.store(1, Ordering::Relaxed);
    }

    /// Closes the breaker, with nothing counted, and ends whatever it was forced to, and [`metrics_only`](Self::metrics_only) as the other controls do. Calls that are under way tell it nothing any more.
    pub fn reset(&self) {
        self.metrics_only.store(0, Ordering::Relaxed);
        self.force(Phase::Closed { failures: 0 });
    }

    /// Brings the breaker to a state, whatever the one before.
    fn force(&self, phase: Phase) {
        let backoff = Backoff::new();
        loop {
            let current = self.word.load();
            if self.replace(current, current.start_over(phase), Some(Cause::Control)) {
                return;
            }
            backoff.spin();
        }
    }

    #[inline]
    pub(super) fn tell(&self, admitted: Admitted, verdict: Verdict) {
        match verdict {
            Verdict::Success => self.succeeded(admitted),
            Verdict::Failure => self.failed(admitted, Duration::ZERO),
            Verdict::RetryAfter(wait) => self.failed(admitted, wait),
            Verdict::Ignored => self.released(admitted),
        }
    }

    #[inline]
    fn succeeded(&self, Admitted { generation, began }: Admitted) {
        if self.policy.has_rates() {
            self.record(generation, false, began, Duration::ZERO);
        }
        if !self.word.is_closed_without_failure(generation) {
            self.succeeded_slow(generation);
        }
    }

    #[cold]
    fn succeeded_slow(&self, generation: Generation) {
        self.settle(generation, None, |current| self.policy.after_success(current));
    }

    #[cold]
    fn failed(&self, Admitted { generation, began }: Admitted, retry_after: Duration) {
        if self.policy.has_rates() {
            self.record(generation, true, began, retry_after);
        }
        self.settle(generation, None, |current| {
            self.policy.after_failure(current, || self.now(), self.open_for(retry_after))
        });
    }

    #[cold]
    fn released(&self, Admitted { generation, .. }: Admitted) {
        self.settle(generation, None, Policy::after_no_verdict);
    }

    /// The permit was dropped without a verdict.
    #[cold]
    pub(super) fn abandoned(&self, admitted: Admitted) {
        let is_probe = matches!(self.word.load().phase, Phase::HalfOpen(_));
        if self.policy.do_abandoned_probes_fail() && is_probe {
            self.failed(admitted, Duration::ZERO);
        } else {
            self.released(admitted);
        }
    }

    /// Records an outcome in the window, if it is that of a call in the closed state, and trips if that is too many.
    #[inline]
    fn record(&self, generation: Generation, failed: bool, began: u64, retry_after: Duration) {
        if self.word.closed_generation() != Ok(generation) && !self.is_disabled(generation) {
            return;
        }
        let is_current = || self.word.load().generation == generation;
        let call = || {
            let ended = self.timed();
            let slow = self.policy.is_slow(ended.saturating_sub(began));
            (Outcome { failed, slow }, Span { began, ended })
        };
        let Some(tally) = self.window.record(generation, is_current, call) else {
            return;
        };
        if let Some(cause) = self.policy.judge(tally, self.window.capacity()) {
            self.trip(generation, cause, retry_after);
        }
    }

    #[cold]
    fn is_disabled(&self, generation: Generation) -> bool {
        let current = self.word.load();
        current.generation == generation && matches!(current.phase, Phase::Disabled { .. })
    }

    #[cold]
    fn trip(&self, generation: Generation, cause: Cause, retry_after: Duration) {
        self.settle(generation, Some(cause), |current| match current.phase {
            Phase::Closed { .. } => self.policy.tripped(current, self.now(), self.open_for(retry_after)),
            _ => current,
        });
    }

    /// Brings the word from this turn of the state to the next; a result of an earlier turn is dropped.
    #[inline]
    fn settle(&self, generation: Generation, cause: Option<Cause>, next: impl Fn(Snapshot) -> Snapshot) {
        let backoff = Backoff::new();
        loop {
            let current = self.word.load();
            if current.generation != generation {
                return;
            }
            let next = next(current);
            if next == current || self.replace(current, next, cause) {
                return;
            }
            backoff.spin();
        }
    }

    /// Puts `new` in the place of `old`, if that is still there, and tells of it if it is another turn: with a cause
    /// of its own, or that which follows from the states.
    #[inline]
    fn replace(&self, old: Snapshot, new: Snapshot, cause: Option<Cause>) -> bool {
        if !self.word.replace(old, new) {
            return false;
        }
        if old.generation != new.generation {
            let (from, to) = (old.phase.state(), new.phase.state());
            self.listener.on_state_change(StateChange {
                from,
                to,
                cause: cause.unwrap_or_else(|| Cause::of(from, to)),
                generation: new.generation.to_bits() as u32,
            });
        }
        true
    }

    /// When a call begins or ends, if anybody asks.
    #[inline]
    fn timed(&self) -> u64 {
        if self.is_timed { self.micros() } else { 0 }
    }

    /// Out of line, so that who does not ask is not slowed.
    #[inline(never)]
    fn micros(&self) -> u64 {
        self.now().micros
    }

    /// The moment, and how far it may lie before one that was read earlier.
    ///
    /// Read after the word, so that only the clock's own skew can put it before the reading that the word holds.
    fn now(&self) -> Now {
        let micros = self.micros.of(&self.clock);
        let skew = micros.of_ticks(self.clock.max_step_back()).saturating_add(1);
        Now { micros: micros.of_ticks(self.clock.now()), skew }
    }

    /// How long to stay open, as far as the breaker and the callee say.
    fn open_for(&self, retry_after: Duration) -> OpenFor {
        OpenFor { retry_after, place: core::ptr::from_ref(self).addr() as u64 }
    }
}

/// The state that it is in, without a look at the clock; whoever listens.
impl<C, L> fmt::Debug for CircuitBreaker<C, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreaker").field("phase", &self.word.load().phase).finish_non_exhaustive()
    }
}

/// What a permit knows of the call that passes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted {
    /// The turn of the state that it belongs to.
    generation: Generation,
    /// In microseconds; 0 if nobody asks.
    began: u64,
}

/// Tells a failure when a call unwinds; else it is forgotten.
struct FailureOnUnwind<'a, C: Clock, L: OnStateChange> {
    breaker: &'a CircuitBreaker<C, L>,
    admitted: Admitted,
}

impl<C: Clock, L: OnStateChange> Drop for FailureOnUnwind<'_, C, L> {
    fn drop(&mut self) {
        self.breaker.failed(self.admitted, Duration::ZERO);
    }
}
