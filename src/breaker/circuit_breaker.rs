//! One breaker: its word, its policy and a clock.

use super::policy::{Admission, Policy};
use super::word::{Generation, Instant, Snapshot, StateWord};
use super::{BreakerConfig, BreakerRef, CallError, CircuitOpen, Permit, State};
use crate::atomic::{Backoff, const_unless_loom};
use crate::clock::{Clock, DefaultClock, LazyMicros};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;
use core::time::Duration;

/// Stops calling what keeps failing, and finds out when it has recovered.
///
/// Closed, it lets calls pass and counts failures in a row; at the threshold it opens and refuses at once. When the cooldown is
/// over the next call passes as a probe: half-open, at most `max_probes` calls are in flight, enough successes close it and
/// any failure opens it again. Put a timeout on calls: a probe that never ends keeps its place, and so keeps others out.
///
/// Share it by reference, in a `static` or an `Arc`. Nothing blocks or allocates; in the closed state a success with no
/// failure before it writes nothing, and no clock is read.
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
#[derive(Debug)]
pub struct CircuitBreaker<C = DefaultClock> {
    word: StateWord,
    policy: Policy,
    micros: LazyMicros,
    clock: C,
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
            Self { word: StateWord::closed(), policy: Policy::new(&config), micros: LazyMicros::new(), clock }
        }
    }
}

impl<C: Clock> CircuitBreaker<C> {
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
        self.admit().map(|generation| Permit::new(self, generation))
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
        self.admit().map(|generation| Permit::new(Arc::clone(self), generation))
    }

    /// Lets a call pass in the generation that is returned.
    #[inline]
    fn admit(&self) -> Result<Generation, CircuitOpen> {
        let backoff = Backoff::new();
        loop {
            let current = self.word.load();
            match self.policy.admit(current, || self.now()) {
                Admission::Pass => return Ok(current.generation),
                Admission::Probe(next) => {
                    if self.word.replace(current, next) {
                        return Ok(next.generation);
                    }
                }
                Admission::Open(left) => {
                    return Err(CircuitOpen { retry_after: Some(Duration::from_micros(left)) });
                }
                Admission::Probing => return Err(CircuitOpen { retry_after: None }),
            }
            backoff.spin();
        }
    }

    /// Makes one call if the breaker lets it pass; `Err` is a failure, and so is unwinding out of it.
    ///
    /// # Errors
    ///
    /// [`CallError::Open`] if the call was not made, [`CallError::Failed`] with its error if it was.
    #[inline]
    pub fn call<T, E>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E>> {
        let mut guard = FailureOnUnwind(Some(self.try_acquire()?));
        let result = call();
        if let Some(permit) = guard.0.take() {
            permit.record(&result);
        }
        result.map_err(CallError::Failed)
    }

    /// The state now. An open breaker whose cooldown is over is half-open, though no probe has passed yet.
    pub fn state(&self) -> State {
        self.policy.state(self.word.load(), || self.now())
    }

    #[inline]
    pub(super) fn succeeded(&self, generation: Generation) {
        self.settle(generation, |current| self.policy.after_success(current));
    }

    #[inline]
    pub(super) fn failed(&self, generation: Generation) {
        self.settle(generation, |current| self.policy.after_failure(current, || self.now().0));
    }

    #[inline]
    pub(super) fn released(&self, generation: Generation) {
        self.settle(generation, Policy::after_no_verdict);
    }

    /// Brings the word from this turn of the state to the `next`; a result of an earlier turn is dropped.
    #[inline]
    fn settle(&self, generation: Generation, next: impl Fn(Snapshot) -> Snapshot) {
        let backoff = Backoff::new();
        loop {
            let current = self.word.load();
            if current.generation != generation {
                return;
            }
            let next = next(current);
            if next == current || self.word.replace(current, next) {
                return;
            }
            backoff.spin();
        }
    }

    /// The moment, and how far it may lie before one that was read earlier.
    ///
    /// Read after the word, so that only the clock's own skew can put it before the reading that the word holds.
    fn now(&self) -> (Instant, u64) {
        let micros = self.micros.of(&self.clock);
        let skew = micros.of_ticks(self.clock.max_step_back()).saturating_add(1);
        (Instant::from_micros(micros.of_ticks(self.clock.now())), skew)
    }
}

/// Tells a failure if it is dropped with its permit, which happens only when the call unwinds.
struct FailureOnUnwind<B: BreakerRef>(Option<Permit<B>>);

impl<B: BreakerRef> Drop for FailureOnUnwind<B> {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.failure();
        }
    }
}
