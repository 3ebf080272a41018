//! The last changes, read afterwards and without a listener.

use crate::circuit_breaker::{build, millis, secs};
use damper::breaker::{Cause, State};
use damper::{CircuitBreaker, ManualClock};

/// The changes as texts, the oldest first.
fn texts(breaker: &CircuitBreaker<&ManualClock>) -> Vec<String> {
    breaker.recent_changes().to_string().lines().map(str::to_owned).collect()
}

#[test]
fn each_change_is_there_with_its_time_and_its_cause() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(build(|config| config.failure_threshold(1).cooldown(millis(2))), &clock);
    assert_eq!(texts(&breaker), [""; 0]);
    breaker.try_acquire().unwrap().failure();
    clock.advance(millis(3));
    // Looking is no change, although a probe is due.
    assert_eq!(breaker.state(), State::HalfOpen);
    assert_eq!(texts(&breaker), ["circuit closed -> open: consecutive failures, 3 ms ago"]);
    let probe = breaker.try_acquire().unwrap();
    clock.advance(secs(1));
    probe.success();
    clock.advance(secs(60));
    assert_eq!(
        texts(&breaker),
        [
            "circuit closed -> open: consecutive failures, 62 s ago",
            "circuit open -> half-open: cooldown over, 61 s ago",
            "circuit half-open -> closed: probes succeeded, 60 s ago",
        ]
    );
    assert_eq!(breaker.recent_changes().openings(), 1);
}

/// The last four changes, and the one that began it all, whichever that was.
#[test]
fn beginning_of_the_trouble_is_kept() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(build(|config| config.failure_threshold(1).cooldown(secs(1))), &clock);
    for round in 1..=9_000 {
        if round == 8_500 {
            // It recovers once.
            clock.advance(secs(100));
            breaker.try_acquire().unwrap().success();
        }
        clock.advance(secs(100));
        breaker.try_acquire().unwrap().failure();
        let found = breaker.recent_changes();
        let (opened, ago) = found.iter().rfind(|(change, _)| change.from() == State::Closed).unwrap();
        assert_eq!(opened.cause(), Cause::ConsecutiveFailures);
        let began = if round < 8_500 { 1 } else { 8_500 };
        assert_eq!(ago, secs(100 * (round - began)), "{round}");
        let generations: Vec<u32> = found.iter().skip(1).map(|(change, _)| change.generation()).collect();
        let last = breaker.status().generation();
        let expected: Vec<u32> = (0..4.min(last)).rev().map(|ago| last.wrapping_sub(ago) % 8_192).collect();
        if (4..8_100).contains(&last) && round > began + 2 {
            assert_eq!(generations, expected);
            assert_eq!(u64::from(found.openings()), round);
        }
    }
}

#[test]
fn controls_are_changes_and_forced_openings_count() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(build(|config| config), &clock);
    breaker.force_open();
    breaker.reset();
    breaker.disable();
    breaker.trip();
    let found = breaker.recent_changes();
    let states: Vec<State> = found.iter().map(|(change, _)| change.to()).collect();
    assert_eq!(states, [State::ForcedOpen, State::Closed, State::Disabled, State::Open]);
    assert!(found.iter().all(|(change, _)| change.cause() == Cause::Control));
    assert_eq!(found.openings(), 2);
}

/// The listener is called after the change is recorded.
#[test]
fn listener_finds_its_change() {
    use std::sync::OnceLock;
    static BREAKER: OnceLock<CircuitBreaker<ManualClock, fn(damper::breaker::StateChange)>> = OnceLock::new();
    static FOUND: OnceLock<Option<damper::breaker::StateChange>> = OnceLock::new();
    let listener: fn(_) = |_| {
        let last = BREAKER.get().unwrap().recent_changes().iter().next_back().map(|(change, _)| change);
        FOUND.set(last).unwrap();
    };
    let breaker = CircuitBreaker::with_clock(build(|config| config), ManualClock::new()).with_listener(listener);
    BREAKER.get_or_init(|| breaker).trip();
    assert_eq!(FOUND.get().unwrap().unwrap().to(), State::Open);
}
