//! The outcomes of calls in the window, and the rates at which they trip the breaker.

use super::OnStateChange;
use super::circuit_breaker::{CircuitBreaker, Ticket, UNTIMED};
use super::settings::WindowSettings;
use super::state_machine::Settings;
use super::state_word::{Generation, Phase};
use super::transitions::Transitions;
use super::window::{CallTimes, Outcome, OutcomeCounts};
use crate::sync::SpinWait;
use crate::time::Clock;
use core::time::Duration;

impl<C: Clock, L: OnStateChange> CircuitBreaker<C, L> {
    /// Records the outcome of a call in the window, and trips if a rate is reached.
    ///
    /// The outcomes of calls in other states than closed, returning or disabled are discarded.
    #[inline]
    pub(super) fn record_in_window(&self, Ticket { generation, began }: Ticket, failed: bool, retry_after: Duration) {
        if self.closed_generation() != Ok(generation) && !self.is_counted(generation) {
            return;
        }
        let settings = self.settings.window(&self.state);
        if settings.is_timed() {
            return self.record_timed(Ticket { generation, began }, settings, failed, retry_after);
        }
        let is_current = || self.is_recorded_in(generation, settings);
        let call = || (Outcome { failed, slow: false }, CallTimes::default());
        let recorded_as = settings.recorded_as(generation);
        let counts = self.window.record(settings.untimed_shape(), recorded_as, is_current, call);
        self.judge(generation, settings, counts, retry_after);
    }

    /// Records a timed outcome in the window, and trips if a rate is reached.
    #[inline]
    fn record_timed(
        &self,
        Ticket { generation, began }: Ticket,
        settings: WindowSettings,
        failed: bool,
        retry_after: Duration,
    ) {
        let is_current = || self.is_recorded_in(generation, settings);
        let call = || {
            let ended = self.read_clock();
            let began = if began == UNTIMED { ended } else { began };
            (Outcome { failed, slow: settings.is_slow(ended.saturating_sub(began)) }, CallTimes { began, ended })
        };
        let recorded_as = settings.recorded_as(generation);
        let counts = self.window.record(settings.shape(), recorded_as, is_current, call);
        self.judge(generation, settings, counts, retry_after);
    }

    /// Returns whether this generation's outcomes are recorded in the window of these settings.
    ///
    /// Other settings with the same window count too.
    #[cold]
    fn is_recorded_in(&self, generation: Generation, settings: WindowSettings) -> bool {
        self.state.word.load().generation() == generation && self.settings.window(&self.state).has_window_of(&settings)
    }

    /// Trips the breaker if the counts of its window require it.
    #[inline]
    fn judge(
        &self,
        generation: Generation,
        settings: WindowSettings,
        counts: Option<OutcomeCounts>,
        retry_after: Duration,
    ) {
        if let Some(counts) = counts
            && settings.trip_cause(counts).is_some()
        {
            self.trip_by(generation, settings, counts, retry_after);
        }
    }

    /// Returns whether the breaker is disabled or returning in this generation.
    #[cold]
    fn is_counted(&self, generation: Generation) -> bool {
        let current = self.state.word.load();
        current.generation() == generation
            && matches!(current.phase(), Phase::Disabled { .. } | Phase::Returning { .. })
    }

    /// Opens the breaker if its window requires it under the settings then in force.
    ///
    /// If these settings count another number of calls than `window` did, the calls in the window are counted again.
    #[cold]
    fn trip_by(&self, generation: Generation, window: WindowSettings, counts: OutcomeCounts, retry_after: Duration) {
        let spin_wait = SpinWait::new();
        loop {
            let settings = self.settings();
            let current = self.state.word.load();
            let (rates, now) = (settings.record.window(), self.now());
            let reopens = match current.phase() {
                Phase::Closed { .. } => Some(0),
                // Results that arrive after the ramp do not count.
                Phase::Returning { .. } if settings.share(current, now).is_some() => Some(current.reopens() + 1),
                _ => None,
            };
            let next = settings.opened(current, reopens.unwrap_or(0), now, self.cooldown(retry_after));
            if self.are_in_force(&settings) {
                if !rates.has_window_of(&window) || current.generation() != generation || reopens.is_none() {
                    return;
                }
                let is_counted = rates.shape() == window.shape();
                let counts = if is_counted { counts } else { self.window.counts(rates.shape(), now.micros).0 };
                let cause = rates.trip_cause(counts);
                if cause.is_none() || self.replace(current, next, cause) {
                    return;
                }
            }
            spin_wait.spin();
        }
    }
}
