//! The conditions for a trip.

use crate::circuit_breaker::{by_rate, make, millis, trip};
use damper::breaker::{Cause, State, StateChange, Verdict, Window};
use damper::{BreakerConfig, CircuitBreaker, ManualClock};
use std::cell::RefCell;
use std::time::Duration;

#[test]
fn consecutive_failures_trip_and_a_success_resets_them() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(BreakerConfig::default(), &clock);
    make(&breaker, 4, |_| true);
    make(&breaker, 1, |_| false);
    make(&breaker, 4, |_| true);
    assert_eq!((breaker.state(), breaker.status().consecutive_failures()), (State::Closed, 4));
    make(&breaker, 1, |_| true);
    assert_eq!(breaker.state(), State::Open);
}

#[test]
fn failure_rate_trips_exactly_at_its_percentage() {
    let clock = ManualClock::new();
    let config = by_rate(|config| config.failure_rate(30).minimum_calls(20).window(Window::last_calls(20)));
    let breaker = CircuitBreaker::with_clock(config, &clock);
    // Every fourth of 100 calls fails, which is 25 %.
    make(&breaker, 100, |call| call % 4 == 0);
    assert_eq!((breaker.status().failures(), breaker.status().failure_rate()), (5, Some(25.0)));
    make(&breaker, 1, |_| true);
    assert_eq!(breaker.status().failures(), 5, "for one went");
    assert_eq!(breaker.state(), State::Closed);
    make(&breaker, 1, |_| true);
    assert_eq!(breaker.state(), State::Open, "six of twenty are 30 %");
    assert_eq!(breaker.status().failure_rate(), Some(30.0), "which stays readable");
}

#[test]
fn success_can_reach_the_minimum_and_trip() {
    let clock = ManualClock::new();
    let config = by_rate(|config| config.failure_rate(50).minimum_calls(10));
    let breaker = CircuitBreaker::with_clock(config, &clock);
    make(&breaker, 9, |call| call < 5);
    assert_eq!(breaker.state(), State::Closed, "five of nine, but ten are needed");
    make(&breaker, 1, |_| false);
    assert_eq!(breaker.state(), State::Open);
}

#[test]
fn minimum_above_the_window_is_capped() {
    let clock = ManualClock::new();
    let config = by_rate(|config| config.failure_rate(100).minimum_calls(1_000).window(Window::last_calls(3)));
    let breaker = CircuitBreaker::with_clock(config, &clock);
    make(&breaker, 2, |_| true);
    assert_eq!(breaker.state(), State::Closed);
    make(&breaker, 1, |_| true);
    assert_eq!(breaker.state(), State::Open);
}

#[test]
fn slow_rate_trips_on_successful_calls() {
    let clock = ManualClock::new();
    let config = by_rate(|config| config.slow_rate(50, millis(100)).minimum_calls(4));
    let breaker = CircuitBreaker::with_clock(config, &clock);
    let take = |took: Duration| {
        let permit = breaker.try_acquire().unwrap();
        clock.advance(took);
        permit.success();
    };
    for took in [99, 100, 0] {
        take(millis(took));
        assert_eq!(breaker.state(), State::Closed);
    }
    assert_eq!((breaker.status().slow_calls(), breaker.status().failures()), (1, 0));
    take(millis(5_000));
    assert_eq!(breaker.state(), State::Open, "two of four");
    assert_eq!(breaker.status().slow_rate(), Some(50.0));
}

#[test]
fn slow_failure_counts_as_both() {
    let clock = ManualClock::new();
    let config = by_rate(|config| config.failure_rate(100).slow_rate(100, millis(1)).minimum_calls(10));
    let breaker = CircuitBreaker::with_clock(config, &clock);
    let permit = breaker.try_acquire().unwrap();
    clock.advance(millis(1));
    permit.failure();
    let status = breaker.status();
    assert_eq!((status.calls(), status.failures(), status.slow_calls()), (1, 1, 1));
}

/// Consecutive failures, a failure rate and a slow rate at once.
///
/// The limit that is reached first is the reported cause.
#[test]
fn whichever_limit_is_reached_first_trips() {
    let config = BreakerConfig::builder()
        .failure_threshold(3)
        .failure_rate(50)
        .slow_rate(50, millis(100))
        .minimum_calls(10)
        .build()
        .unwrap();
    let cause = |pattern: &[(bool, u64)]| {
        let clock = ManualClock::new();
        let causes = RefCell::new(Vec::new());
        let breaker = CircuitBreaker::with_clock(config, &clock)
            .on_state_change(|change: StateChange| causes.borrow_mut().push(change.cause()));
        for &(failed, took) in pattern.iter().cycle().take(10) {
            let Ok(permit) = breaker.try_acquire() else { break };
            clock.advance(millis(took));
            permit.record(Verdict::failure_if(failed));
        }
        causes.take()
    };
    assert_eq!(cause(&[(true, 0)]), [Cause::ConsecutiveFailures]);
    assert_eq!(cause(&[(true, 0), (false, 0)]), [Cause::FailureRate]);
    assert_eq!(cause(&[(false, 100), (false, 0)]), [Cause::SlowRate]);
    assert_eq!(cause(&[(true, 100), (false, 0)]), [Cause::FailureRate], "the first of two");
    assert_eq!(cause(&[(true, 100), (false, 0), (false, 0)]), []);
}

/// Counts from before the trip are not used after it.
#[test]
fn closing_clears_the_counts() {
    let clock = ManualClock::new();
    let config = by_rate(|config| config.failure_rate(50).minimum_calls(4));
    let breaker = CircuitBreaker::with_clock(config, &clock);
    trip(&breaker);
    assert_eq!(breaker.status().calls(), 4);
    clock.advance(super::COOLDOWN);
    breaker.try_acquire().unwrap().success();
    assert_eq!((breaker.state(), breaker.status().calls()), (State::Closed, 0));
    make(&breaker, 3, |_| true);
    assert_eq!((breaker.state(), breaker.status().calls()), (State::Closed, 3));
}

/// A success of a closed breaker does not read the clock if no rate needs it.
#[test]
fn window_stays_empty_without_rates() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(BreakerConfig::default(), &clock);
    make(&breaker, 3, |_| true);
    let status = breaker.status();
    assert_eq!((status.calls(), status.failure_rate(), status.consecutive_failures()), (0, None, 3));
}
