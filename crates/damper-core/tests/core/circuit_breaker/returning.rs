//! The gradual return after the probes.

use super::{COOLDOWN, build, by_rate, micros, millis, secs, trip};
use crate::models::cases::cases;
use damper::breaker::{Cause, Permit, State, StateChange, Verdict};
use damper::{BreakerConfig, CircuitBreaker, Clock, ManualClock, Quota, Ramp};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// A minute, in steps of ten seconds.
const RAMP: Ramp = Ramp::steps(Duration::from_secs(60));

/// A breaker at the beginning of its return, and what it was configured with.
fn returning(config: BreakerConfig, clock: &ManualClock) -> CircuitBreaker<&ManualClock> {
    let breaker = CircuitBreaker::with_clock(config, clock);
    trip(&breaker);
    clock.advance(COOLDOWN);
    breaker.try_acquire().unwrap().success();
    assert_eq!(breaker.state(), State::Returning);
    breaker
}

/// Makes calls with this verdict, and returns how many passed.
fn passed<C: Clock>(breaker: &CircuitBreaker<C>, calls: u32, verdict: Verdict) -> u32 {
    (0..calls).filter(|_| breaker.try_acquire().map(|permit| permit.record(verdict)).is_ok()).count() as u32
}

// CLAIM: CircuitBreaker
#[test]
fn growing_share_of_the_calls_passes() {
    let clock = ManualClock::new();
    let breaker = returning(build(|builder| builder.ramp(RAMP)), &clock);
    for (step, share) in [1, 10, 50, 100, 250, 500].into_iter().enumerate() {
        let passed = passed(&breaker, 10_000, Verdict::Success);
        assert!(passed.abs_diff(share * 10) <= 8, "{passed} of 10,000 in step {step}");
        clock.advance(secs(10));
    }
    assert_eq!(breaker.state(), State::Closed);
    assert_eq!(passed(&breaker, 1_000, Verdict::Success), 1_000);
}

/// A client that calls in bursts gets no more than its share, and the others get no less.
#[test]
fn each_caller_gets_the_share_of_its_calls() {
    let clock = ManualClock::new();
    let breaker = returning(build(|builder| builder.ramp(Ramp::linear(secs(100)))), &clock);
    clock.advance(secs(20));
    let mut passed = [0_u32; 3];
    for round in 0..1_000 {
        // The first client makes bursts of 50 calls, the second one call beside each of them, and the third retries it at once.
        for call in 0..50 {
            let client = usize::from(call == 7) + 2 * usize::from(call == 8);
            passed[client] += u32::from(breaker.try_acquire().is_ok());
        }
        assert!(round > 0 || passed[0] <= 15, "of a burst of 48 calls a fifth passes: {passed:?}");
    }
    for (passed, calls) in passed.into_iter().zip([48_000, 1_000, 1_000]) {
        assert!(passed.abs_diff(calls / 5) <= 8 + calls / 200, "{passed} of {calls}");
    }
}

#[test]
fn failures_of_the_share_open_it_again() {
    let clock = ManualClock::new();
    let config = build(|builder| builder.ramp(RAMP).cooldown_factor(2.0));
    let breaker = returning(config, &clock);
    clock.advance(secs(50));
    // Five consecutive failures of the calls that pass, not of all calls.
    let failed = passed(&breaker, 100, Verdict::Failure);
    assert_eq!((failed, breaker.state()), (5, State::Open));
    // The cooldown has grown, as after a failed probe.
    assert_eq!(breaker.status().next_probe_in(), Some(2 * COOLDOWN));
    let causes: Vec<Cause> = breaker.recent_changes().iter().map(|(change, _)| change.cause()).collect();
    assert_eq!(causes[causes.len() - 2..], [Cause::ProbesSucceeded, Cause::ConsecutiveFailures]);
    // After a whole return it starts over.
    clock.advance(2 * COOLDOWN);
    breaker.try_acquire().unwrap().success();
    clock.advance(secs(60));
    breaker.try_acquire().unwrap().success();
    trip(&breaker);
    assert_eq!(breaker.status().next_probe_in(), Some(COOLDOWN));
}

#[test]
fn successes_between_failures_keep_it_returning() {
    let clock = ManualClock::new();
    let breaker = returning(build(|builder| builder.ramp(RAMP)), &clock);
    clock.advance(secs(50));
    let mut calls = 0;
    while calls < 40 {
        if let Ok(permit) = breaker.try_acquire() {
            calls += 1;
            permit.record(Verdict::failure_if(calls % 5 > 0));
            assert_eq!(breaker.status().consecutive_failures(), calls % 5);
        }
    }
    assert_eq!(breaker.state(), State::Returning);
}

#[test]
fn rate_of_the_share_opens_it_again() {
    let clock = ManualClock::new();
    let config = by_rate(|builder| builder.failure_rate(50).minimum_calls(10).ramp(RAMP).cooldown_factor(3.0));
    let breaker = CircuitBreaker::with_clock(config, &clock);
    trip(&breaker);
    clock.advance(COOLDOWN);
    breaker.try_acquire().unwrap().success();
    // The outcomes from before the outage do not count.
    assert_eq!(breaker.status().calls(), 0);
    clock.advance(secs(50));
    assert_eq!(passed(&breaker, 1_000, Verdict::Failure), 10);
    assert_eq!(breaker.status().next_probe_in(), Some(3 * COOLDOWN));
}

/// Results of probes, of calls from before the outage and of the share after the ramp are discarded.
#[test]
fn late_results_do_not_count() {
    let clock = ManualClock::new();
    let config = build(|builder| builder.failure_threshold(1).max_probes(2).ramp(RAMP));
    let breaker = CircuitBreaker::with_clock(config, &clock);
    let from_before = breaker.try_acquire().unwrap();
    trip(&breaker);
    clock.advance(COOLDOWN);
    let (probe, late_probe) = (breaker.try_acquire().unwrap(), breaker.try_acquire().unwrap());
    probe.success();
    assert_eq!(breaker.state(), State::Returning);
    from_before.failure();
    late_probe.failure();
    assert_eq!(breaker.state(), State::Returning);
    clock.advance(secs(50));
    let of_the_share = (0..9).find_map(|_| breaker.try_acquire().ok()).unwrap();
    clock.advance(secs(10));
    breaker.try_acquire().unwrap().success();
    of_the_share.failure();
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn results_after_the_ramp_do_not_count_even_if_no_call_came_since() {
    let rates = by_rate(|builder| builder.failure_rate(50).minimum_calls(2).ramp(RAMP));
    for config in [build(|builder| builder.failure_threshold(1).ramp(RAMP)), rates] {
        let clock = ManualClock::new();
        let changes = RefCell::new(Vec::new());
        let breaker = CircuitBreaker::with_clock(config, &clock)
            .on_state_change(|change: StateChange| changes.borrow_mut().push(change.to()));
        trip(&breaker);
        clock.advance(COOLDOWN);
        breaker.try_acquire().unwrap().success();
        clock.advance(secs(50));
        let of_the_share: Vec<_> = (0..20).filter_map(|_| breaker.try_acquire().ok()).collect();
        assert!(of_the_share.len() >= 9);
        clock.advance(secs(10));
        of_the_share.into_iter().for_each(Permit::failure);
        assert_eq!(breaker.state(), State::Closed);
        assert!(!changes.borrow()[3..].contains(&State::Open), "{:?}", changes.borrow());
    }
}

#[test]
fn ramp_without_calls_ends_by_time() {
    let clock = ManualClock::new();
    let changes = RefCell::new(Vec::new());
    let breaker = CircuitBreaker::with_clock(build(|builder| builder.ramp(RAMP)), &clock)
        .on_state_change(|change: StateChange| changes.borrow_mut().push(change.to_string()));
    trip(&breaker);
    clock.advance(COOLDOWN);
    breaker.try_acquire().unwrap().success();
    clock.advance(micros(60_000_000 - 1));
    assert_eq!(breaker.status().to_string(), "circuit returning, 50.0 % of the calls pass");
    clock.advance(micros(1));
    assert_eq!((breaker.state(), breaker.status().returning_share()), (State::Closed, None));
    assert_eq!(breaker.refusal(), None);
    assert!(breaker.try_acquire().is_ok());
    let changes = changes.borrow();
    let texts = ["circuit half-open -> returning: probes succeeded", "circuit returning -> closed: return over"];
    assert_eq!(changes[2..], texts);
}

#[test]
fn refusal_says_when_the_share_grows() {
    let clock = ManualClock::new();
    let breaker = returning(build(|builder| builder.ramp(RAMP)), &clock);
    clock.advance(secs(17));
    let refused = (0..200).find_map(|_| breaker.try_acquire().err()).unwrap();
    assert_eq!(refused.retry_after(), Some(secs(3)));
    assert_eq!(refused.to_string(), "circuit returning, twice as many calls pass in 3 s");
}

#[test]
fn ramp_changes_while_it_is_used() {
    let clock = ManualClock::new();
    let breaker = returning(build(|builder| builder.ramp(RAMP)), &clock);
    clock.advance(secs(30));
    // A linear one counts from the same start.
    breaker.set_config(&build(|builder| builder.ramp(Ramp::linear(secs(40))))).unwrap();
    assert_eq!(breaker.status().returning_share(), Some(0.75));
    breaker.set_config(&BreakerConfig::DEFAULT).unwrap();
    assert_eq!(breaker.state(), State::Closed);
    assert_eq!(passed(&breaker, 100, Verdict::Success), 100);
}

#[test]
fn controls_act_while_it_returns() {
    let clock = ManualClock::new();
    let config = build(|builder| builder.ramp(RAMP));
    let breaker = returning(config, &clock);
    breaker.metrics_only();
    // All pass, and the failures of the share count.
    assert!((0..5_000).all(|_| breaker.try_acquire().map(Permit::success).is_ok()));
    assert_eq!(breaker.state(), State::Returning);
    breaker.reset();
    assert_eq!(breaker.state(), State::Closed);
    for control in [CircuitBreaker::force_open, CircuitBreaker::force_closed, CircuitBreaker::trip] {
        let breaker = returning(config, &clock);
        control(&breaker);
        assert_ne!(breaker.state(), State::Returning);
    }
}

/// The rest of a stream whose first message was a probe counts as a call of the share.
#[test]
fn rest_of_a_probe_counts() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(build(|builder| builder.failure_threshold(1).ramp(RAMP)), &clock);
    trip(&breaker);
    clock.advance(COOLDOWN);
    let mut stream = breaker.try_acquire().unwrap();
    stream.probe_answered();
    assert_eq!(breaker.state(), State::Returning);
    stream.failure();
    assert_eq!(breaker.state(), State::Open);
}

#[test]
fn unlimited_quota_needs_no_ramp() {
    assert_eq!(RAMP.quota_at(Quota::UNLIMITED, Duration::ZERO), Quota::UNLIMITED);
    let nothing = RAMP.quota_at(Quota::per_second(0).burst(1_000), secs(15));
    assert_eq!((nothing.limit(), nothing.burst_size()), (0, 10));
}

#[test]
fn ramps_out_of_range_are_refused() {
    for (ramp, value) in [(Ramp::steps(Duration::ZERO), "0 ns"), (Ramp::linear(secs(86_401)), "86401 s")] {
        let error = BreakerConfig::builder().ramp(ramp).build().unwrap_err().to_string();
        assert!(error.starts_with(&format!("ramp is {value}, it must be 1 ns to 1 day")), "{error}");
    }
}

/// Advances at every reading.
#[derive(Debug)]
struct Advancing {
    nanos: Cell<u64>,
    by: u64,
}

impl Clock for Advancing {
    fn now(&self) -> u64 {
        let now = self.nanos.get();
        self.nanos.set(now + self.by);
        now
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..cases(50) })]

    /// The calls that pass are between the shares at both ends of each decision.
    #[test]
    fn share_holds_on_a_clock_that_advances(by in 1..50_000_u64, is_linear: bool, length in 1..20_u64) {
        let ramp = if is_linear { Ramp::linear(millis(length)) } else { Ramp::steps(millis(length)) };
        let clock = Advancing { nanos: Cell::new(0), by };
        let breaker = CircuitBreaker::with_clock(build(|builder| builder.cooldown(micros(1)).ramp(ramp)), &clock);
        breaker.trip();
        clock.nanos.set(clock.nanos.get() + 10_000);
        // The return begins between these two.
        let probe = breaker.try_acquire().unwrap();
        let earliest = clock.nanos.get();
        probe.success();
        let latest = clock.nanos.get();
        let (mut least, mut most, mut passed) = (0.0, 0.0, 0);
        loop {
            let before = clock.nanos.get();
            let is_admitted = breaker.try_acquire().is_ok();
            let after = clock.nanos.get();
            // The breaker counts whole microseconds.
            let share = |from: u64, until: u64| ramp.share_at(Duration::from_nanos(until.saturating_sub(from)));
            if breaker.recent_changes().iter().next_back().unwrap().0.to() == State::Closed {
                prop_assert!(is_admitted && after + 1_000 >= earliest + length * 1_000_000);
                break;
            }
            prop_assert!(before < latest + length * 1_000_000 + 1_000);
            least += share(latest + 1_000, before);
            most += share(earliest, after + 1_000);
            passed += u32::from(is_admitted);
            clock.nanos.set(clock.nanos.get() + 1_000);
        }
        let passed = f64::from(passed);
        prop_assert!(least - 16.0 <= passed && passed <= most + 16.0, "{passed} of {least} to {most}");
    }
}
