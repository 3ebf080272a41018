//! The status of a breaker.

use super::State;
use super::state_word::{Phase, Probes, Snapshot};
use super::window::OutcomeCounts;
use crate::ramp::share_of;
use crate::time::Human;
use core::fmt;
use core::time::Duration;

/// The state and the counts of a breaker, read without a lock.
///
/// State and generation belong together; the counts of the window may be newer. Where time alone has changed the state (a
/// cooldown or the longest time half-open is over), the generation includes that change only after a call finds it.
///
/// Displayed as a line for a log: `circuit closed, 2 consecutive failures, 3 of 48 calls failed, 5 slow`, `circuit open,
/// next probe in 28 s, 24 of 48 calls failed`, `circuit half-open, probes: 1 in flight, 2 succeeded, 0 failed`, `circuit returning,
/// 25.0 % of the calls pass`. Zero counts are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use]
pub struct BreakerStatus {
    state: State,
    generation: u32,
    is_metrics_only: bool,
    consecutive_failures: u32,
    calls: u32,
    failed: u32,
    slow: u32,
    probes_in_flight: u32,
    probes_succeeded: u32,
    probes_failed: u32,
    next_probe_in: Option<Duration>,
    /// The share of the calls that pass while returning, in parts of a [`Ramp`](crate::Ramp).
    parts: Option<u32>,
}

impl BreakerStatus {
    /// Creates the status of a breaker whose word was loaded as `snapshot`.
    ///
    /// It has the state that a call would find, for how many microseconds the call would be refused, the counts of the window, and
    /// the parts of the calls that pass while returning.
    pub(super) fn new(
        snapshot: Snapshot<u64>,
        state: State,
        left: Option<u64>,
        counts: OutcomeCounts,
        is_metrics_only: bool,
        parts: Option<u32>,
    ) -> Self {
        let consecutive_failures = match snapshot.phase() {
            Phase::Closed { failures } | Phase::Disabled { failures } => failures,
            // After the ramp the next call finds the breaker closed, without failures.
            Phase::Returning { failures } if state == State::Returning => failures,
            _ => 0,
        };
        let (probes_in_flight, probes_succeeded, probes_failed) = match snapshot.phase() {
            // After `max_half_open` the next call finds the breaker open, without probes.
            Phase::HalfOpen(Probes { in_flight, succeeded, failed, .. }) if state == State::HalfOpen => {
                (in_flight, succeeded, failed)
            }
            _ => (0, 0, 0),
        };
        Self {
            state,
            generation: snapshot.generation().to_bits(),
            is_metrics_only,
            consecutive_failures,
            calls: counts.calls,
            failed: counts.failed,
            slow: counts.slow,
            probes_in_flight,
            probes_succeeded,
            probes_failed,
            next_probe_in: left.map(Duration::from_micros),
            parts: parts.filter(|_| state == State::Returning),
        }
    }

    /// The state that a call would have found, as [`CircuitBreaker::state`](super::CircuitBreaker::state) returns it.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// The generation, incremented on every transition; wraps after 8,192.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Whether calls pass that the breaker would refuse, as set by [`metrics_only`](super::CircuitBreaker::metrics_only).
    #[must_use]
    pub fn is_metrics_only(&self) -> bool {
        self.is_metrics_only
    }

    /// Failures since the last success while closed, returning or disabled; else 0.
    #[must_use]
    pub fn consecutive_failures(&self) -> u32 {
        self.consecutive_failures
    }

    /// The calls in the window, if the breaker has a rate: those of the closed or returning state.
    ///
    /// While the breaker is open or half-open they are those of the last closed state; while it is forced open or closed there
    /// are none. If a bucket of time has too many calls for its counters, they are halved, with their failures.
    #[must_use]
    pub fn calls(&self) -> u32 {
        self.calls
    }

    /// The failures among the [calls](Self::calls) in the window.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failed
    }

    /// The slow ones among the [calls](Self::calls) in the window.
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

    /// The time until a probe may pass, while the breaker is open.
    ///
    /// After the longest time half-open it is the cooldown that the next call begins.
    #[must_use]
    pub fn next_probe_in(&self) -> Option<Duration> {
        self.next_probe_in
    }

    /// The share of the calls that pass, from 0.001 to 1.0, while the breaker is [returning](State::Returning); else `None`.
    #[must_use]
    pub fn returning_share(&self) -> Option<f64> {
        self.parts.map(share_of)
    }

    /// Returns whether the breaker is in a state that a new breaker in its place would not be in.
    ///
    /// The failures that a closed breaker has counted so far do not matter. Use it for [`BoundedStore::keep_if`](crate::BoundedStore::keep_if) of a store of breakers.
    #[must_use]
    pub fn is_worth_keeping(&self) -> bool {
        match self.state() {
            State::Open | State::Returning | State::ForcedOpen | State::ForcedClosed | State::Disabled => true,
            State::HalfOpen => self.probes_in_flight() + self.probes_succeeded() + self.probes_failed() > 0,
            State::Closed => self.is_metrics_only(),
        }
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
            write!(f, ", probes: {probes_in_flight} in flight, {probes_succeeded} succeeded, {probes_failed} failed")?;
        }
        if let Some(share) = self.returning_share() {
            write!(f, ", {:.1} % of the calls pass", share * 100.0)?;
        }
        match self.consecutive_failures {
            0 => {}
            1 => f.write_str(", 1 consecutive failure")?,
            failures => write!(f, ", {failures} consecutive failures")?,
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
