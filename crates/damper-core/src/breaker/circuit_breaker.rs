//! The circuit breaker: its constructors, calls and permits, controls and state.

use super::circuit::{Circuit, Ticket};
use super::permit::sealed::{Breaker, Recorder};
use super::run::{ClassifyFn, Run};
use super::state_word::Phase;
use super::{
    BreakerConfig, BreakerStatus, CallError, CircuitOpen, OnStateChange, Permit, RecentChanges, SetConfigError, State,
    StateChange, Verdict,
};
use crate::sync::const_unless_loom;
use crate::time::{Clock, DefaultClock};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

/// Stops calls to a service that keeps failing, and detects when it has recovered.
///
/// A closed breaker lets calls pass and counts their outcomes. When too many fail (consecutive ones, or a rate of those in a
/// [`Window`](super::Window)) or are slow, it opens and refuses calls at once. When the cooldown is over, the next call passes as
/// a probe. While the breaker is half-open, at most `max_probes` calls are in flight, enough successes close it and any failure
/// opens it again. [`BreakerConfig`] sets the thresholds and times. Put a timeout on calls: a probe that never ends keeps its
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
    circuit: Circuit<C, L>,
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
            Self { circuit: Circuit::closed(&config, clock) }
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
        CircuitBreaker { circuit: self.circuit.with_listener(listener) }
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
        self.guarded(call, classify)
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
    /// [`CircuitOpen`] while the breaker is open, or half-open with all its probes in flight.
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
        self.circuit.refusal()
    }

    /// Returns the state that a call would find now.
    ///
    /// An open breaker whose cooldown is over is half-open, even before the first probe. A breaker that was half-open for longer
    /// than [`max_half_open`](super::BreakerConfigBuilder::max_half_open) is open, even before a call finds it so.
    pub fn state(&self) -> State {
        self.circuit.state()
    }

    /// Returns the state, the counts, and when the next probe may pass.
    pub fn status(&self) -> BreakerStatus {
        self.circuit.status()
    }

    /// Returns the last changes of the state, and how often the breaker has opened.
    ///
    /// They are recorded without a listener, by the thread that makes a change. Nothing is recorded of a call that changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{BreakerConfig, CircuitBreaker, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let config = BreakerConfig::builder().failure_threshold(1).build()?;
    /// let breaker = CircuitBreaker::with_clock(config, &clock);
    /// breaker.try_acquire()?.failure();
    /// clock.advance(Duration::from_secs(12));
    /// let changes = breaker.recent_changes();
    /// assert_eq!(changes.openings(), 1);
    /// let last = changes.iter().next_back().unwrap();
    /// assert_eq!(last.to_string(), "circuit closed -> open: consecutive failures, 12 s ago");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recent_changes(&self) -> RecentChanges {
        self.circuit.recent_changes()
    }

    /// Changes the configuration while the breaker is in use.
    ///
    /// No call waits for it. Each decision uses one configuration, the old or the new one; a concurrent call may still use the
    /// old one. These carry over:
    ///
    /// - The state, its generation and the permits of calls in flight. Their outcomes are recorded by the new configuration. A
    ///   call that began while calls were not timed counts as not slow.
    /// - Consecutive failures. If they have already reached the new threshold, the next failure trips the breaker.
    /// - A running cooldown, including one that the server's `Retry-After` or [`trip_for`](Self::trip_for) has set: its end does
    ///   not change. The next one uses the new configuration. To end a running one, call `trip_for` with the time that it may
    ///   still take, or [`reset`](Self::reset).
    /// - The probes of a half-open breaker. The next probe that ends decides by the new configuration, or the next call if no
    ///   probe is in flight. [`max_half_open`](super::BreakerConfigBuilder::max_half_open) counts from the start of the state,
    ///   even if it was not set before.
    /// - The outcomes in the window, if that stays the same, or if both windows are of at most 48 calls (24, where slow calls
    ///   count). The breaker keeps the newest 48 (24) of those, whatever the window, and the new window counts as many as it has.
    ///   Any other window starts empty: a larger one keeps its outcomes elsewhere, one of time counts them by other spans of
    ///   time, and calls that were recorded before slow ones counted carry no durations.
    ///
    /// Nothing is allocated here. A larger window allocates its memory at the next outcome, and the memory of the smaller one is
    /// kept.
    ///
    /// # Errors
    ///
    /// [`SetConfigError::Busy`] if another thread is changing the configuration.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{BreakerConfig, CircuitBreaker, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let config = BreakerConfig::builder().failure_threshold(1);
    /// let breaker = CircuitBreaker::with_clock(config.build()?, &clock);
    /// breaker.try_acquire()?.failure();
    /// assert_eq!(breaker.status().next_probe_in(), Some(Duration::from_secs(30)));
    ///
    /// breaker.set_config(&config.cooldown(Duration::from_secs(5)).build()?)?;
    /// assert_eq!(breaker.status().next_probe_in(), Some(Duration::from_secs(30))); // it runs on
    /// breaker.trip();
    /// assert_eq!(breaker.status().next_probe_in(), Some(Duration::from_secs(5)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_config(&self, config: &BreakerConfig) -> Result<(), SetConfigError> {
        self.circuit.set_config(config)
    }

    /// Opens the breaker for its cooldown, as too many failures would, whatever its state.
    ///
    /// After the cooldown the breaker is probed.
    ///
    /// Ends [`metrics_only`](Self::metrics_only) and every forced state. Results of in-flight calls are discarded.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{BreakerConfig, CircuitBreaker, ManualClock};
    ///
    /// let breaker = CircuitBreaker::with_clock(BreakerConfig::DEFAULT, ManualClock::new());
    /// breaker.trip();
    /// assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), Some(Duration::from_secs(30)));
    ///
    /// breaker.trip_for(Duration::from_secs(3_600)); // until the maintenance is over
    /// assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), Some(Duration::from_secs(3_600)));
    /// ```
    pub fn trip(&self) {
        self.circuit.trip();
    }

    /// Opens the breaker for `cooldown`, rounded up to microseconds and at most 100 days.
    ///
    /// Otherwise it acts as [`trip`](Self::trip).
    ///
    /// Neither [`max_cooldown`](super::BreakerConfigBuilder::max_cooldown), nor jitter, nor [`set_config`](Self::set_config)
    /// changes it.
    ///
    /// Times wrap after 203 days. If the breaker was ever tripped for 100 days, or ever had a configuration that allows it, and
    /// it opens later and gets no call for 103 days, it stays open for up to 100 days more.
    pub fn trip_for(&self, cooldown: Duration) {
        self.circuit.trip_for(cooldown);
    }

    /// Opens the breaker until it is [reset](Self::reset): every call is refused, and none is a probe.
    pub fn force_open(&self) {
        self.circuit.force(Phase::ForcedOpen);
    }

    /// Closes the breaker until it is [reset](Self::reset): every call passes, and none is counted.
    pub fn force_closed(&self) {
        self.circuit.force(Phase::ForcedClosed);
    }

    /// Stops the breaker from tripping until it is [reset](Self::reset).
    ///
    /// Every call passes, and all are counted, as [`status`](Self::status) shows.
    pub fn disable(&self) {
        self.circuit.force(Phase::Disabled { failures: 0 });
    }

    /// Lets calls pass uncounted that the breaker would refuse, until it is [reset](Self::reset).
    ///
    /// Otherwise the breaker works as usual, so you can observe its decisions before you enforce them.
    pub fn metrics_only(&self) {
        self.circuit.set_metrics_only(true);
    }

    /// Closes the breaker, clears its counts, and ends [`metrics_only`](Self::metrics_only) and forced states.
    ///
    /// Results of in-flight calls are discarded. The [listener](super::OnStateChange) is called even if the breaker was
    /// closed.
    pub fn reset(&self) {
        self.circuit.force(Phase::Closed { failures: 0 });
    }
}

impl<C: Clock, L: OnStateChange> Breaker for CircuitBreaker<C, L> {
    #[inline]
    fn admit(&self) -> Result<Ticket, CircuitOpen> {
        self.circuit.admit()
    }
}

impl<C: Clock, L: OnStateChange> Recorder for CircuitBreaker<C, L> {
    type Ticket = Ticket;

    #[inline]
    fn record(&self, ticket: Ticket, verdict: Verdict) {
        self.circuit.record(ticket, verdict);
    }

    #[inline]
    fn abandoned(&self, ticket: Ticket) {
        self.circuit.abandoned(ticket);
    }

    #[inline]
    fn probe_answered(&self, ticket: Ticket) -> Ticket {
        self.circuit.probe_answered(ticket)
    }
}

/// Shows the stored state, without reading the clock.
impl<C, L> fmt::Debug for CircuitBreaker<C, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreaker").field("phase", &self.circuit.phase()).finish_non_exhaustive()
    }
}
