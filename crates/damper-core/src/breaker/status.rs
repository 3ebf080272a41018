//! What can be read of a breaker.

use super::window::Tally;
use super::word::{Phase, Probes, Snapshot};
use super::{CircuitBreaker, OnStateChange, State};
use crate::time::{Clock, Human};
use core::fmt;
use core::time::Duration;

impl<C: Clock, L: OnStateChange> CircuitBreaker<C, L> {
    /// Returns the state that a call would find now.
    ///
    /// An open breaker whose cooldown is over is half-open, though no probe has passed yet. A breaker that was
    /// half-open for longer than [`max_half_open`](super::BreakerConfigBuilder::max_half_open) is open, though no call
    /// has found it so yet.
    pub fn state(&self) -> State {
        self.shown(self.word.load()).0
    }

    /// The state that a call would find now, and for how long it would be refused.
    fn shown(&self, current: Snapshot) -> (State, Option<u64>) {
        self.policy.state(current, || self.now(), self.open_for(Duration::ZERO))
    }

    /// What the breaker knows now: its state, what it has counted, and when the next probe may pass.
    pub fn status(&self) -> BreakerStatus {
        let current = self.word.load();
        let (state, left) = self.shown(current);
        let (tally, generation) = if self.policy.has_rates() {
            self.window.tally(if self.window.is_timed() { self.now().micros } else { 0 })
        } else {
            (Tally::default(), current.generation)
        };
        let tally = match current.phase {
            // What tripped it was counted in the last closed state.
            Phase::Open { .. } | Phase::HalfOpen(_) => tally,
            // What was counted in an earlier state is no longer looked at.
            _ if generation != current.generation => Tally::default(),
            _ => tally,
        };
        let consecutive_failures = match current.phase {
            Phase::Closed { failures } | Phase::Disabled { failures } => failures,
            _ => 0,
        };
        let (probes_in_flight, probes_succeeded, probes_failed) = match current.phase {
            // After its longest time half-open the next call finds it open, without probes.
            Phase::HalfOpen(Probes { out, succeeded, failed, .. }) if state == State::HalfOpen => {
                (out, succeeded, failed)
            }
            _ => (0, 0, 0),
        };
        BreakerStatus {
            state,
            generation: current.generation.to_bits() as u32,
            is_metrics_only: self.is_metrics_only(),
            consecutive_failures,
            calls: tally.calls,
            failed: tally.failed,
            slow: tally.slow,
            probes_in_flight,
            probes_succeeded,
            probes_failed,
            next_probe_in: left.map(Duration::from_micros),
        }
    }
}

/// What a breaker knows at one moment, read without a lock. State and generation belong together; the counts of the
/// window may be of a moment later. Where time alone has changed the state (a cooldown or the longest time half-open is
/// over), the generation counts that change when a call finds it.
///
/// Displayed as a line for a log: `circuit closed, 2 failures in a row, 3 of 48 calls failed, 5 slow`, `circuit open,
/// next probe in 28 s, 24 of 48 calls failed`, `circuit half-open, probes: 1 out, 2 succeeded, 0 failed`. What there is
/// none of is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use]
pub struct BreakerStatus {
    pub(super) state: State,
    pub(super) generation: u32,
    pub(super) is_metrics_only: bool,
    pub(super) consecutive_failures: u64,
    pub(super) calls: u32,
    pub(super) failed: u32,
    pub(super) slow: u32,
    pub(super) probes_in_flight: u32,
    pub(super) probes_succeeded: u32,
    pub(super) probes_failed: u32,
    pub(super) next_probe_in: Option<Duration>,
}

impl BreakerStatus {
    /// The state that a call would have found, as [`CircuitBreaker::state`](super::CircuitBreaker::state) tells it.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// The number of the state's turn, which counts changes; wraps after 8,192.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Whether it refuses nothing, as [`metrics_only`](super::CircuitBreaker::metrics_only) asks.
    #[must_use]
    pub fn is_metrics_only(&self) -> bool {
        self.is_metrics_only
    }

    /// Failures since the last success while closed or disabled; else 0.
    #[must_use]
    pub fn consecutive_failures(&self) -> u64 {
        self.consecutive_failures
    }

    /// The calls in the window, where there is a rate to be taken: those of the closed state; while it is open
    /// or half-open those of the last one, and while it is forced open or closed none. In a bucket of time with so many
    /// that they do not fit they are halved, with their failures.
    #[must_use]
    pub fn calls(&self) -> u32 {
        self.calls
    }

    /// The failures among them.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failed
    }

    /// The slow ones among them.
    #[must_use]
    pub fn slow_calls(&self) -> u32 {
        self.slow
    }

    /// The failures in percent of the calls; `None` without calls.
    #[must_use]
    pub fn failure_rate(&self) -> Option<f64> {
        self.percent(self.failed)
    }

    /// The slow calls in percent of the calls; `None` without calls.
    #[must_use]
    pub fn slow_rate(&self) -> Option<f64> {
        self.percent(self.slow)
    }

    fn percent(&self, of: u32) -> Option<f64> {
        if self.calls == 0 { None } else { Some(f64::from(of) * 100.0 / f64::from(self.calls)) }
    }

    /// The probes in flight.
    #[must_use]
    pub fn probes_in_flight(&self) -> u32 {
        self.probes_in_flight
    }

    /// The probes that succeeded while half-open.
    #[must_use]
    pub fn probes_succeeded(&self) -> u32 {
        self.probes_succeeded
    }

    /// The probes that failed while half-open, where a rate of them decides.
    #[must_use]
    pub fn probes_failed(&self) -> u32 {
        self.probes_failed
    }

    /// The time until a probe may pass, while it is open. After the longest time half-open it is the cooldown that the
    /// next call begins.
    #[must_use]
    pub fn next_probe_in(&self) -> Option<Duration> {
        self.next_probe_in
    }
}

impl fmt::Display for BreakerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "circuit {}", self.state)?;
        if self.is_metrics_only {
            f.write_str(", metrics only")?;
        }
        if let Some(wait) = self.next_probe_in {
            write!(f, ", next probe in {}", Human(wait))?;
        }
        if self.state == State::HalfOpen {
            let Self { probes_in_flight, probes_succeeded, probes_failed, .. } = self;
            write!(f, ", probes: {probes_in_flight} out, {probes_succeeded} succeeded, {probes_failed} failed")?;
        }
        match self.consecutive_failures {
            0 => {}
            1 => f.write_str(", 1 failure in a row")?,
            failures => write!(f, ", {failures} failures in a row")?,
        }
        if self.calls > 0 {
            write!(f, ", {} of {} calls failed", self.failed, self.calls)?;
        }
        if self.slow > 0 {
            write!(f, ", {} slow", self.slow)?;
        }
        Ok(())
    }
}
