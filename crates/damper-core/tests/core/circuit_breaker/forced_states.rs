//! Forced states, resets, the listener and the status.

use crate::circuit_breaker::{COOLDOWN, build, by_rate, make, trip};
use damper::breaker::{Cause, State, StateChange};
use damper::{BreakerConfig, CircuitBreaker, ManualClock};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

fn once() -> BreakerConfig {
    build(|config| config.failure_threshold(1))
}

#[test]
fn forced_open_refuses_until_reset() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(once(), &clock);
    let late = breaker.try_acquire().unwrap();
    breaker.force_open();
    for _ in 0..3 {
        let open = breaker.try_acquire().unwrap_err();
        assert_eq!((open.retry_after(), open.to_string()), (None, "circuit forced open".to_owned()));
        clock.advance(COOLDOWN * 10);
    }
    late.success();
    assert_eq!((breaker.state(), breaker.status().next_probe_in()), (State::ForcedOpen, None));
    breaker.reset();
    assert_eq!(breaker.state(), State::Closed);
    make(&breaker, 1, |_| false);
}

#[test]
fn forced_closed_admits_all_and_counts_none() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(by_rate(|config| config.failure_rate(1).minimum_calls(1)), &clock);
    trip(&breaker);
    assert_eq!(breaker.status().calls(), 1, "of the last closed state");
    breaker.force_closed();
    make(&breaker, 100, |_| true);
    assert_eq!((breaker.state(), breaker.status().consecutive_failures()), (State::ForcedClosed, 0));
    assert_eq!(breaker.status().calls(), 0);
    breaker.reset();
    assert_eq!(breaker.status().calls(), 0);
    make(&breaker, 1, |_| true);
    assert_eq!(breaker.state(), State::Open);
}

/// The last closed state had no calls. The calls of the one before are not shown as its own.
#[test]
fn forced_open_hides_counts_of_an_earlier_closed_state() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(by_rate(|config| config.failure_rate(50)), &clock);
    make(&breaker, 4, |_| true);
    breaker.reset();
    breaker.force_open();
    assert_eq!((breaker.status().calls(), breaker.status().failures()), (0, 0));
}

#[test]
fn disabled_counts_and_never_refuses() {
    let clock = ManualClock::new();
    let config = build(|config| config.failure_threshold(2).failure_rate(50).minimum_calls(1));
    let breaker = CircuitBreaker::with_clock(config, &clock);
    breaker.disable();
    make(&breaker, 9, |call| call > 2);
    let status = breaker.status();
    assert_eq!((status.state(), status.consecutive_failures()), (State::Disabled, 6));
    assert_eq!((status.calls(), status.failures()), (9, 6));
    make(&breaker, 1, |_| false);
    assert_eq!(breaker.status().consecutive_failures(), 0);
    breaker.reset();
    assert_eq!((breaker.status().calls(), breaker.state()), (0, State::Closed), "with nothing counted");
}

#[test]
fn metrics_only_reports_changes_and_admits_all() {
    let clock = ManualClock::new();
    let changes = RefCell::new(Vec::new());
    let breaker = CircuitBreaker::with_clock(once(), &clock)
        .on_state_change(|change: StateChange| changes.borrow_mut().push((change.to(), change.cause())));
    breaker.metrics_only();
    assert!(breaker.status().is_metrics_only());
    make(&breaker, 10, |_| true);
    assert_eq!(breaker.state(), State::Open, "after the first; the others were not counted");
    clock.advance(COOLDOWN);
    let probe = breaker.try_acquire().unwrap();
    make(&breaker, 10, |_| true);
    assert_eq!(breaker.state(), State::HalfOpen, "those that passed beside the probe were not counted");
    assert_eq!(breaker.status().probes_in_flight(), 1);
    probe.success();
    assert_eq!(breaker.state(), State::Closed);
    assert_eq!(
        changes.take(),
        [
            (State::Open, Cause::ConsecutiveFailures),
            (State::HalfOpen, Cause::CooldownOver),
            (State::Closed, Cause::ProbesSucceeded)
        ]
    );
    breaker.reset();
    assert!(!breaker.status().is_metrics_only());
    trip(&breaker);
}

#[test]
fn forcing_ends_metrics_only() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(once(), &clock);
    breaker.metrics_only();
    breaker.force_open();
    assert!(breaker.try_acquire().is_err());
    breaker.metrics_only();
    assert!(breaker.try_acquire().is_ok(), "would be refused, and passes");
    assert_eq!(breaker.state(), State::ForcedOpen);
}

#[test]
fn reset_discards_probes_in_flight() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(once(), &clock);
    trip(&breaker);
    clock.advance(COOLDOWN);
    let probe = breaker.try_acquire().unwrap();
    breaker.reset();
    probe.failure();
    assert_eq!((breaker.state(), breaker.status().consecutive_failures()), (State::Closed, 0));
}

#[test]
fn reset_restarts_the_cooldown() {
    let clock = ManualClock::new();
    let config = build(|config| config.failure_threshold(1).cooldown_factor(2.0));
    let breaker = CircuitBreaker::with_clock(config, &clock);
    trip(&breaker);
    clock.advance(COOLDOWN);
    breaker.try_acquire().unwrap().failure();
    assert_eq!(breaker.status().next_probe_in(), Some(COOLDOWN * 2));
    breaker.reset();
    trip(&breaker);
    assert_eq!(breaker.status().next_probe_in(), Some(COOLDOWN));
}

#[test]
fn every_change_is_reported_once_in_full() {
    let clock = ManualClock::new();
    let changes = Mutex::new(Vec::new());
    let config = build(|config| config.failure_threshold(1).max_half_open(COOLDOWN));
    let breaker =
        CircuitBreaker::with_clock(config, &clock).on_state_change(|change| changes.lock().unwrap().push(change));
    trip(&breaker);
    _ = breaker.state();
    clock.advance(COOLDOWN);
    _ = breaker.state();
    assert_eq!(changes.lock().unwrap().len(), 1, "looking at it changes nothing");
    breaker.try_acquire().unwrap().failure();
    clock.advance(COOLDOWN);
    let lost = breaker.try_acquire().unwrap();
    clock.advance(COOLDOWN * 2);
    trip(&breaker);
    clock.advance(COOLDOWN);
    breaker.try_acquire().unwrap().success();
    lost.success();
    breaker.force_open();
    breaker.force_closed();
    breaker.disable();
    breaker.metrics_only();
    breaker.reset();
    let reported: Vec<_> = changes.lock().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(
        reported,
        [
            "circuit closed -> open: consecutive failures",
            "circuit open -> half-open: cooldown over",
            "circuit half-open -> open: probe failed",
            "circuit open -> half-open: cooldown over",
            "circuit half-open -> open: half-open for too long",
            "circuit open -> half-open: cooldown over",
            "circuit half-open -> closed: probes succeeded",
            "circuit closed -> forced open: asked for",
            "circuit forced open -> forced closed: asked for",
            "circuit forced closed -> disabled: asked for",
            "circuit disabled -> closed: asked for",
        ]
    );
    let numbers: Vec<_> = changes.lock().unwrap().iter().map(StateChange::generation).collect();
    assert_eq!(numbers, (1..=11).collect::<Vec<_>>());
    assert_eq!(breaker.status().generation(), 11);
}

/// A control is reported even if the state stays the same, because its counts start over.
#[test]
fn reset_of_a_closed_breaker_is_reported() {
    let clock = ManualClock::new();
    let changes = RefCell::new(Vec::new());
    let breaker = CircuitBreaker::with_clock(BreakerConfig::default(), &clock)
        .on_state_change(|change| changes.borrow_mut().push(change));
    make(&breaker, 4, |_| true);
    let late = breaker.try_acquire().unwrap();
    breaker.reset();
    late.failure();
    assert_eq!((breaker.state(), breaker.status().consecutive_failures()), (State::Closed, 0));
    breaker.force_open();
    breaker.force_open();
    let reported: Vec<_> = changes.take().iter().map(|change| (change.generation(), change.to_string())).collect();
    let expected = [
        (1, "circuit closed -> closed: asked for"),
        (2, "circuit closed -> forced open: asked for"),
        (3, "circuit forced open -> forced open: asked for"),
    ];
    assert_eq!(reported, expected.map(|(generation, change)| (generation, change.to_owned())));
}

#[test]
fn status_displays_as_a_log_line() {
    let clock = ManualClock::new();
    let config = by_rate(|config| config.failure_rate(50).slow_rate(90, COOLDOWN).minimum_calls(6).max_probes(3));
    let breaker = CircuitBreaker::with_clock(config, &clock);
    let says = |line: &str| assert_eq!(breaker.status().to_string(), line);
    says("circuit closed");
    make(&breaker, 3, |call| call == 2);
    says("circuit closed, 1 consecutive failure, 1 of 3 calls failed");
    let slow = breaker.try_acquire().unwrap();
    clock.advance(COOLDOWN);
    slow.failure();
    says("circuit closed, 2 consecutive failures, 2 of 4 calls failed, 1 slow");
    make(&breaker, 2, |_| true);
    says("circuit open, next probe in 30 s, 4 of 6 calls failed, 1 slow");
    clock.advance(COOLDOWN);
    let _probe = breaker.try_acquire().unwrap();
    says("circuit half-open, probes: 1 in flight, 0 succeeded, 0 failed, 4 of 6 calls failed, 1 slow");
    breaker.reset();
    breaker.metrics_only();
    says("circuit closed, metrics only");
}

#[test]
fn rates_are_reported_as_the_cause() {
    assert_eq!(Cause::FailureRate.to_string(), "failure rate");
    assert_eq!(Cause::SlowRate.to_string(), "slow calls");
}

/// The listener is called without a lock, so it may call any method of the breaker.
#[test]
fn listener_may_use_the_breaker() {
    static TOLD: AtomicU32 = AtomicU32::new(0);
    static CLOCK: ManualClock = ManualClock::new();
    type HostListener = CircuitBreaker<&'static ManualClock, fn(StateChange)>;
    static BREAKER: OnceLock<HostListener> = OnceLock::new();
    fn undo(change: StateChange) {
        TOLD.fetch_add(1, Ordering::SeqCst);
        let breaker = BREAKER.get().unwrap();
        assert_eq!(breaker.status().generation(), change.generation());
        if change.to() == State::Open {
            breaker.reset();
        }
    }
    let breaker =
        BREAKER.get_or_init(|| CircuitBreaker::with_clock(once(), &CLOCK).on_state_change(undo as fn(StateChange)));
    make(breaker, 10, |_| true);
    assert_eq!((breaker.state(), TOLD.load(Ordering::SeqCst)), (State::Closed, 20));
}
