//! The gradual return of a breaker.
//!
//! In brackets: the weakenings of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::breaker::{OnStateChange, State, StateChange};
use damper_core::sync::killed_after;
use damper_core::{BreakerConfig, CircuitBreaker, Clock, Ramp};
use damper_loom_tests::{Flaw, check_flawed, check_preemptions};
use loom::thread;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// The length of the ramp.
const LENGTH: Duration = Duration::from_secs(2);

/// A clock that the model moves, without an interleaving of its own.
#[derive(Clone, Debug, Default)]
struct Hand(Arc<AtomicU64>);

impl Hand {
    fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}

/// Records the reported changes, without an interleaving of its own.
#[derive(Clone, Debug, Default)]
struct RecordingListener(Arc<Mutex<Vec<StateChange>>>);

impl OnStateChange for RecordingListener {
    fn on_state_change(&self, change: StateChange) {
        self.0.lock().unwrap().push(change);
    }
}

#[derive(Clone, Debug)]
struct Model {
    breaker: Arc<CircuitBreaker<Hand, RecordingListener>>,
    clock: Hand,
    reported: RecordingListener,
}

impl Model {
    /// Creates a closed breaker that one failure trips for a second, and that returns in two.
    fn new() -> Self {
        let config = BreakerConfig::builder().failure_threshold(1).cooldown(SECOND).ramp(Ramp::linear(LENGTH)).build();
        let (clock, reported) = (Hand::default(), RecordingListener::default());
        let breaker = CircuitBreaker::with_clock(config.unwrap(), clock.clone()).with_listener(reported.clone());
        // Computes what the clock's ticks are worth, once.
        breaker.force_open();
        breaker.reset();
        reported.0.lock().unwrap().clear();
        Self { breaker: Arc::new(breaker), clock, reported }
    }

    /// Ends the cooldown of a breaker that is tripped now.
    fn cooled(self) -> Self {
        self.breaker.trip();
        self.clock.advance(SECOND);
        self
    }

    /// Creates a breaker in the middle of its return: half of the calls pass.
    fn half_way() -> Self {
        let model = Self::new().cooled();
        model.breaker.try_acquire().unwrap().success();
        model.clock.advance(SECOND);
        assert_eq!(model.breaker.status().returning_share(), Some(0.5));
        model
    }

    /// Makes so many calls, and returns how many passed.
    fn passed(&self, calls: u32) -> u32 {
        (0..calls).map(|_| self.breaker.try_acquire().map(|permit| permit.ignore()).is_ok()).map(u32::from).sum()
    }

    /// Returns the reported states. Every change is reported once.
    fn states(&self) -> Vec<State> {
        let mut reported = self.reported.0.lock().unwrap().clone();
        reported.sort_by_key(StateChange::generation);
        let is_chain = reported.windows(2).all(|two| two[0].generation() + 1 == two[1].generation());
        assert!(is_chain, "reported once each: {reported:?}");
        reported.iter().map(StateChange::to).collect()
    }
}

/// Two threads make calls, and as many of them pass as if one thread had made them all.
///
/// [`Turns::take` that loads and stores instead of adding.]
fn share_is_not_exceeded_model() {
    let alone = Model::half_way().passed(4);
    let model = Model::half_way();
    let rival = {
        let model = model.clone();
        thread::spawn(move || model.passed(2))
    };
    let passed = model.passed(2) + rival.join().unwrap();
    assert_eq!(passed, alone, "each call takes a turn of its own");
}

// CLAIM: CircuitBreaker
#[test]
fn share_is_not_exceeded() {
    check_preemptions(3, share_is_not_exceeded_model);
}

/// The result of a call from before the outage races the return, and does not open the breaker again.
///
/// [`settle` without the test of the generation.]
fn late_results_are_discarded_model() {
    let model = Model::new();
    let from_before = model.breaker.try_acquire_owned().unwrap();
    let model = model.cooled();
    let rival = thread::spawn(move || from_before.failure());
    let mut probe = model.breaker.try_acquire_owned().unwrap();
    probe.probe_answered();
    rival.join().unwrap();
    assert_eq!(model.breaker.state(), State::Returning, "a late failure does not open it");
    // The rest of the probe's call is one of the share.
    probe.failure();
    assert_eq!(model.states(), [State::Open, State::HalfOpen, State::Returning, State::Open]);
}

// CLAIM: CircuitBreaker
#[test]
fn late_results_are_discarded() {
    check_preemptions(3, late_results_are_discarded_model);
}

/// Two threads find the ramp over: both pass, and the breaker closes once.
///
/// [A store in place of the swap of the word; `replace` that notifies after a failed swap.]
fn ramp_ends_once_model() {
    let model = Model::half_way();
    model.clock.advance(SECOND);
    let rival = {
        let model = model.clone();
        thread::spawn(move || model.passed(1))
    };
    assert_eq!(model.passed(1) + rival.join().unwrap(), 2, "both pass");
    assert_eq!(model.states(), [State::Open, State::HalfOpen, State::Returning, State::Closed]);
}

#[test]
fn ramp_ends_once() {
    check_preemptions(3, ramp_ends_once_model);
}

#[test]
#[should_panic(expected = "reported once each")]
fn ramp_ends_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, ramp_ends_once_model);
}

/// A failure of the share races the end of the ramp: the breaker opens or closes, once.
///
/// [A store in place of the swap of the word; `replace` that notifies after a failed swap; `settle` without the test of the generation.]
fn failure_races_the_end_model() {
    let model = Model::new().cooled();
    let mut probe = model.breaker.try_acquire_owned().unwrap();
    probe.probe_answered();
    model.clock.advance(LENGTH);
    let rival = thread::spawn(move || probe.failure());
    let passed = model.passed(1);
    rival.join().unwrap();
    let states = model.states();
    let is_closed = states[3..] == [State::Closed];
    assert!(is_closed || states[3..] == [State::Open], "one of the two: {states:?}");
    // A call that passed found the ramp over. A call that was refused found the breaker open.
    assert_eq!(passed, u32::from(is_closed), "{states:?}");
}

#[test]
fn failure_races_the_end() {
    check_preemptions(3, failure_races_the_end_model);
}

/// The thread that began the return is stopped anywhere in it: the ramp ends by time all the same.
///
/// [`takes_turn` that does not record the start.]
#[test]
fn stopped_prober_does_not_hold_the_ramp() {
    for steps in 0..16 {
        check_preemptions(2, move || {
            let model = Model::new().cooled();
            let mut probe = model.breaker.try_acquire_owned().unwrap();
            let stopped = thread::spawn(move || {
                _ = killed_after(steps, || probe.probe_answered());
                // A process that was killed drops nothing.
                std::mem::forget(probe);
            });
            stopped.join().unwrap();
            if model.breaker.state() == State::Returning {
                _ = model.passed(1);
                model.clock.advance(LENGTH);
                assert_eq!(model.passed(1), 1, "the ramp ends by time");
                assert_eq!(model.breaker.state(), State::Closed);
            }
        });
    }
}
