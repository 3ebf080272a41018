//! One breaker: its word, its policy, its window and a clock.

use super::policy::{Now, OpenFor, Policy};
use super::window::{Outcomes, Window};
use super::word::StateWord;
use super::{BreakerConfig, OnStateChange, StateChange};
use crate::sync::{AtomicU64, const_unless_loom};
use crate::time::{Clock, DefaultClock, LazyMicros};
use core::fmt;
use core::time::Duration;

/// Stops calling what keeps failing, and finds out when it has recovered.
///
/// Closed, it lets calls pass and looks at their outcomes; when too many fail (in a row, or as a rate of those in a
/// [`Window`]) or are slow, it opens and refuses at once. When the cooldown is over the next call passes as a
/// probe: half-open, at most `max_probes` calls are in flight, enough successes close it and any failure opens it
/// again. [`BreakerConfig`] says how many, and how long. Put a timeout on calls: a probe that never ends keeps its
/// place, and so keeps others out.
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
/// # extern crate damper_core as damper;
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
    pub(super) word: StateWord,
    pub(super) policy: Policy,
    pub(super) window: Outcomes,
    /// Whether calls are timed, for slow ones or for the window.
    is_timed: bool,
    /// 1 if nothing is refused.
    pub(super) metrics_only: AtomicU64,
    micros: LazyMicros,
    clock: C,
    pub(super) listener: L,
}

#[cfg(feature = "std")]
impl CircuitBreaker {
    const_unless_loom! {
        /// A closed breaker on the [default clock](DefaultClock).
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

    /// The same breaker, before its first use, with a function that is told of every change of its state: exactly
    /// once, by the thread that made it, after the change. If it unwinds, it does so out of the call that made the
    /// change; where that is unwinding already, the process aborts.
    ///
    /// A breaker that has one is `CircuitBreaker<C, F>`: to name it, give a `fn(StateChange)`, or a
    /// `Box<dyn Fn(StateChange) + Send + Sync>`, or a type of your own [that listens](Self::with_listener). In a
    /// `static` it is made in a `LazyLock`.
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
    ///     .on_state_change(move |change| _ = sender.send(change)); // whether somebody listens yet or not
    /// breaker.try_acquire()?.failure();
    /// assert_eq!(changes.try_recv()?.to_string(), "circuit closed -> open: failures in a row");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_state_change<F: Fn(StateChange)>(self, listener: F) -> CircuitBreaker<C, F> {
        self.with_listener(listener)
    }

    /// As [`on_state_change`](Self::on_state_change), with a type of your own.
    pub fn with_listener<L: OnStateChange>(self, listener: L) -> CircuitBreaker<C, L> {
        let Self { word, policy, window, is_timed, metrics_only, micros, clock, listener: () } = self;
        CircuitBreaker { word, policy, window, is_timed, metrics_only, micros, clock, listener }
    }
}

impl<C: Clock, L: OnStateChange> CircuitBreaker<C, L> {
    /// The same breaker, before its first use, with a window of your own for its rates; without a rate it means
    /// nothing. What a larger window takes is allocated here.
    #[must_use]
    pub fn with_window(self, window: Window) -> Self {
        let window = Outcomes::of(window, self.policy.tells_slow_calls());
        let is_timed = self.policy.has_rates() && (self.policy.tells_slow_calls() || window.is_timed());
        Self { window, is_timed, ..self }
    }

    /// When a call begins or ends, if anybody asks.
    #[inline]
    pub(super) fn timed(&self) -> u64 {
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
    pub(super) fn now(&self) -> Now {
        let micros = self.micros.of(&self.clock);
        let skew = micros.of_ticks(self.clock.max_step_back()).saturating_add(1);
        Now { micros: micros.at_tick(self.clock.now()), skew }
    }

    /// How long to stay open, as far as the breaker and the callee say.
    pub(super) fn open_for(&self, retry_after: Duration) -> OpenFor {
        OpenFor { retry_after, place: core::ptr::from_ref(self).addr() as u64 }
    }
}

/// The state that it is in, without a look at the clock.
impl<C, L> fmt::Debug for CircuitBreaker<C, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreaker").field("phase", &self.word.load().phase).finish_non_exhaustive()
    }
}
