//! The state of a breaker as an operator sees it, and the controls that change it.

use super::circuit_breaker::CircuitBreaker;
use super::config::MAX_COOLDOWN;
use super::settings::RecordWords;
use super::state_machine::Settings;
use super::state_word::{Phase, Snapshot};
use super::transitions::Transitions;
use super::window::OutcomeCounts;
use super::wrapping_micros::WrappingMicros;
use super::{BreakerConfig, BreakerStatus, OnStateChange, RecentChanges, SetConfigError, State};
use crate::sync::Ordering;
use crate::time::{Clock, Micros};
use core::time::Duration;

impl<C: Clock, L: OnStateChange> CircuitBreaker<C, L> {
    /// Returns the state that a call would find now.
    ///
    /// An open breaker whose cooldown is over is half-open, even before the first probe. A breaker that was half-open for longer
    /// than [`max_half_open`](super::BreakerConfigBuilder::max_half_open) is open, even before a call finds it so.
    pub fn state(&self) -> State {
        self.state_of(self.state.word.load()).0
    }

    /// Returns the state, the counts, and when the next probe may pass.
    pub fn status(&self) -> BreakerStatus {
        let current = self.state.word.load();
        let (state, left) = self.state_of(current);
        let window = self.settings.window(&self.state);
        let (counts, recorded_as) = if window.has_rates() {
            self.window.counts(window.shape(), if window.is_of_time() { self.now().micros } else { 0 })
        } else {
            (OutcomeCounts::default(), window.recorded_as(current.generation()))
        };
        let counts = match current.phase() {
            // The outcomes that tripped the breaker were counted in the last closed state.
            Phase::Open { .. } | Phase::HalfOpen(_) if window.has(recorded_as, current.generation()) => counts,
            // The next call finds the breaker closed, without outcomes.
            Phase::Returning { .. } if state == State::Closed => OutcomeCounts::default(),
            // Outcomes of an earlier state have no effect now.
            _ if recorded_as != window.recorded_as(current.generation()) => OutcomeCounts::default(),
            _ => counts,
        };
        BreakerStatus::new(current, state, left, counts, self.is_metrics_only(), self.parts(current))
    }

    /// Returns the share of calls that pass while the breaker is returning, in parts of a [`Ramp`](crate::Ramp).
    fn parts(&self, current: Snapshot<u64>) -> Option<u32> {
        while let Phase::Returning { .. } = current.phase() {
            let settings = self.settings();
            let share = settings.share(current, self.now());
            if self.are_in_force(&settings) {
                return share.map(|share| share.stage.parts);
            }
        }
        None
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
    /// use damper::breaker::State;
    /// use damper::{BreakerConfig, CircuitBreaker, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let config = BreakerConfig::builder().failure_threshold(1).build()?;
    /// let breaker = CircuitBreaker::with_clock(config, &clock);
    /// breaker.try_acquire()?.failure();
    /// clock.advance(Duration::from_secs(12));
    /// let changes = breaker.recent_changes();
    /// assert_eq!(changes.openings(), 1);
    /// assert_eq!(changes.to_string(), "circuit closed -> open: consecutive failures, 12 s ago");
    /// let (last, ago) = changes.iter().next_back().unwrap();
    /// assert_eq!((last.to(), ago), (State::Open, Duration::from_secs(12)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recent_changes(&self) -> RecentChanges {
        // ORDERING: Relaxed: a count, through which nothing is published.
        let openings = self.openings.load(Ordering::Relaxed);
        self.changes.read(openings, || self.state.word.load().generation(), || self.now().micros)
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
        // It does not touch the word, so it cannot undo a state change made by a call.
        let claim = self.settings.claim().ok_or(SetConfigError::Busy)?;
        let words = RecordWords::new(config);
        self.state.make_room_for(words.longest_cooldown());
        self.settings.publish(&claim, words, self.now().micros);
        Ok(())
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
        self.set_metrics_only(false);
        Transitions::trip(self);
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
        let micros = Micros::of_duration(cooldown.min(MAX_COOLDOWN)).max(1);
        self.state.make_room_for(micros);
        self.enforce(Phase::Open { until: WrappingMicros::from_micros(self.now().micros).after(micros).to_bits() });
    }

    /// Opens the breaker until it is [reset](Self::reset): every call is refused, and none is a probe.
    pub fn force_open(&self) {
        self.enforce(Phase::ForcedOpen);
    }

    /// Closes the breaker until it is [reset](Self::reset): every call passes, and none is counted.
    pub fn force_closed(&self) {
        self.enforce(Phase::ForcedClosed);
    }

    /// Stops the breaker from tripping until it is [reset](Self::reset).
    ///
    /// Every call passes, and all are counted, as [`status`](Self::status) shows.
    pub fn disable(&self) {
        self.enforce(Phase::Disabled { failures: 0 });
    }

    /// Lets calls pass uncounted that the breaker would refuse, until it is [reset](Self::reset).
    ///
    /// Otherwise the breaker works as usual, so you can observe its decisions before you enforce them.
    pub fn metrics_only(&self) {
        self.set_metrics_only(true);
    }

    /// Closes the breaker, clears its counts, and ends [`metrics_only`](Self::metrics_only) and forced states.
    ///
    /// Results of in-flight calls are discarded. The [listener](super::OnStateChange) is called even if the breaker was
    /// closed.
    pub fn reset(&self) {
        self.enforce(Phase::Closed { failures: 0 });
    }

    /// Puts the breaker into a state, whatever the present one, and ends metrics only.
    fn enforce(&self, phase: Phase) {
        self.set_metrics_only(false);
        self.force(phase);
    }

    /// Returns whether calls pass even where the breaker would refuse them.
    pub(super) fn is_metrics_only(&self) -> bool {
        // ORDERING: Relaxed, as in `set_metrics_only`.
        self.is_metrics_only.load(Ordering::Relaxed)
    }

    fn set_metrics_only(&self, is_on: bool) {
        // ORDERING: Relaxed: the flag publishes nothing, and nothing is published with it.
        self.is_metrics_only.store(is_on, Ordering::Relaxed);
    }
}
