//! Circuit breakers.

use crate::catalogue::{
    BREAKER_CONSECUTIVE_FAILURES, BREAKER_EVICTIONS, BREAKER_KEPT_EVICTIONS, BREAKER_KEYS, BREAKER_KEYS_CAPACITY,
    BREAKER_PROBES_IN_FLIGHT, BREAKER_STATE, BREAKER_WINDOW_CALLS, BREAKER_WINDOW_FAILURES, BREAKER_WINDOW_SLOW_CALLS,
};
use crate::{Readings, Source};
use damper_core::breaker::{BreakerStatus, CircuitBreaker, KeyedCircuitBreaker, OnStateChange, State};
use damper_core::time::{Clock, FixedFrequency};
use damper_core::word32::CircuitBreaker32;
use std::hash::{BuildHasher, Hash};

const STATES: [State; 7] = [
    State::Closed,
    State::HalfOpen,
    State::Returning,
    State::Open,
    State::ForcedOpen,
    State::ForcedClosed,
    State::Disabled,
];

/// Returns the value of a label for a state.
pub(crate) fn state_label(state: State) -> &'static str {
    match state {
        State::Closed => "closed",
        State::HalfOpen => "half_open",
        State::Returning => "returning",
        State::Open => "open",
        State::ForcedOpen => "forced_open",
        State::ForcedClosed => "forced_closed",
        State::Disabled => "disabled",
    }
}

/// The breakers in each state.
#[derive(Default)]
struct StateCounts([u64; STATES.len()]);

impl StateCounts {
    fn count(&mut self, state: State) {
        for (count, _) in self.0.iter_mut().zip(STATES).filter(|(_, of)| *of == state) {
            *count += 1;
        }
    }

    /// Records all of them, so that a state that a breaker has left is 0.
    fn record(&self, readings: &Readings<'_>) {
        for (count, state) in self.0.into_iter().zip(STATES) {
            readings.with("state", state_label(state)).record_number(&BREAKER_STATE, count);
        }
    }
}

/// The statuses of breakers, taken together.
#[derive(Default)]
struct Statuses {
    states: StateCounts,
    consecutive_failures: u32,
    calls: u64,
    failures: u64,
    slow_calls: u64,
    probes_in_flight: u64,
}

impl Statuses {
    fn add(&mut self, status: &BreakerStatus) {
        self.states.count(status.state());
        self.consecutive_failures = self.consecutive_failures.max(status.consecutive_failures());
        self.calls += u64::from(status.calls());
        self.failures += u64::from(status.failures());
        self.slow_calls += u64::from(status.slow_calls());
        self.probes_in_flight += u64::from(status.probes_in_flight());
    }

    fn record(&self, readings: &Readings<'_>) {
        self.states.record(readings);
        readings.record(&BREAKER_CONSECUTIVE_FAILURES, f64::from(self.consecutive_failures));
        readings.record_number(&BREAKER_WINDOW_CALLS, self.calls);
        readings.record_number(&BREAKER_WINDOW_FAILURES, self.failures);
        readings.record_number(&BREAKER_WINDOW_SLOW_CALLS, self.slow_calls);
        readings.record_number(&BREAKER_PROBES_IN_FLIGHT, self.probes_in_flight);
    }
}

impl<C: Clock, L: OnStateChange> Source for CircuitBreaker<C, L> {
    fn read(&self, readings: &Readings<'_>) {
        let mut statuses = Statuses::default();
        statuses.add(&self.status());
        statuses.record(readings);
    }
}

/// The breakers of all keys together, and their store.
impl<K: Hash + Eq, C: Clock + Clone, S: BuildHasher, L: OnStateChange> Source for KeyedCircuitBreaker<K, C, S, L> {
    fn read(&self, readings: &Readings<'_>) {
        let store = self.store();
        let mut statuses = Statuses::default();
        store.for_each(|breaker| statuses.add(&breaker.status()));
        statuses.record(readings);
        readings.record_number(&BREAKER_KEYS, store.len() as u64);
        readings.record_number(&BREAKER_KEYS_CAPACITY, store.capacity() as u64);
        readings.record_number(&BREAKER_EVICTIONS, store.evictions());
        readings.record_number(&BREAKER_KEPT_EVICTIONS, store.kept_evictions());
    }
}

/// Its state.
impl<C: FixedFrequency> Source for CircuitBreaker32<C> {
    fn read(&self, readings: &Readings<'_>) {
        let mut states = StateCounts::default();
        states.count(self.state());
        states.record(readings);
    }
}
