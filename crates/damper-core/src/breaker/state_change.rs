//! A change of the state, and its listeners.

use super::State;
use core::fmt;

/// A change of a breaker's state.
///
/// A control that asks for the present state makes a change too: the state starts over, and its counts are cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct StateChange {
    pub(super) from: State,
    pub(super) to: State,
    pub(super) cause: Cause,
    pub(super) generation: u32,
}

impl StateChange {
    /// The state before the change.
    #[must_use]
    pub fn from(&self) -> State {
        self.from
    }

    /// The state after the change.
    #[must_use]
    pub fn to(&self) -> State {
        self.to
    }

    /// The cause of the change.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// The generation, incremented on every transition; wraps after 8,192.
    ///
    /// It orders notifications that arrive late.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }
}

impl fmt::Display for StateChange {
    /// Writes a sentence: `circuit closed -> open: consecutive failures`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "circuit {} -> {}: {}", self.from, self.to, self.cause)
    }
}

/// Why the state of a breaker changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Cause {
    /// Too many consecutive calls failed.
    ConsecutiveFailures,
    /// Too many of the calls in the window failed.
    FailureRate,
    /// Too many of the calls in the window were slow.
    SlowRate,
    /// The cooldown is over, and a probe passes.
    CooldownOver,
    /// Enough probes succeeded.
    ProbesSucceeded,
    /// The ramp after the probes is over.
    ReturnOver,
    /// A probe failed, or too many of them did; a slow probe counts as failed where slow calls do.
    ProbeFailed,
    /// The probes took too long.
    HalfOpenTooLong,
    /// A control such as `trip` or `reset` was called.
    Control,
}

impl Cause {
    /// Returns the cause of a transition that calls, probes or the cooldown make.
    pub(super) fn of(from: State, to: State) -> Self {
        match (from, to) {
            (State::Closed | State::Returning, State::Open) => Self::ConsecutiveFailures,
            (State::Open, State::HalfOpen) => Self::CooldownOver,
            (State::HalfOpen, State::Closed | State::Returning) => Self::ProbesSucceeded,
            (State::Returning, State::Closed) => Self::ReturnOver,
            (State::HalfOpen, State::Open) => Self::ProbeFailed,
            _ => Self::Control,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConsecutiveFailures => "consecutive failures",
            Self::FailureRate => "failure rate",
            Self::SlowRate => "slow calls",
            Self::CooldownOver => "cooldown over",
            Self::ProbesSucceeded => "probes succeeded",
            Self::ReturnOver => "return over",
            Self::ProbeFailed => "probe failed",
            Self::HalfOpenTooLong => "half-open for too long",
            Self::Control => "asked for",
        })
    }
}

/// A listener for state changes: called exactly once for every change, by the thread that made it.
///
/// The call comes after the change. So other threads may already have seen the change, and the listener may already have been
/// called for a later one. The listener may use the breaker.
///
/// A control that asks for the present state is reported too: the [reset](super::CircuitBreaker::reset) of a closed breaker as
/// `closed -> closed`, because it clears the counts. So the reported [generations](StateChange::generation) have no gaps.
///
/// Every function from a [`StateChange`] is a listener; `()` does nothing.
pub trait OnStateChange {
    /// Handles a change of the state, after it was made.
    fn on_state_change(&self, change: StateChange);
}

impl OnStateChange for () {
    #[inline]
    fn on_state_change(&self, _: StateChange) {}
}

impl<F: Fn(StateChange)> OnStateChange for F {
    fn on_state_change(&self, change: StateChange) {
        self(change);
    }
}
