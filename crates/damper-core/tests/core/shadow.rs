//! A candidate beside what is in force: each decides as it would alone.

use core::time::Duration;
use damper::breaker::{State, StateChange, Verdict};
use damper::gate::{self, Answer, Ask, Ending, Permit};
use damper::shadow::{ShadowReport, Shadowed};
use damper::{BreakerConfig, CircuitBreaker, FixedWindow, LimitSet, Limiter, ManualClock, Quota, RateLimiter};
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Moves the clock by so many milliseconds, then asks for so many tokens.
fn calls() -> impl Strategy<Value = Vec<(u64, u32)>> {
    prop::collection::vec((0..400u64, 0..5u32), 1..60)
}

fn quota() -> impl Strategy<Value = Quota> {
    (1..20u32, 1..8u32).prop_map(|(limit, burst)| Quota::per_second(limit).burst(burst))
}

/// Counts of what each would have refused alone.
fn expected(answers: &[(bool, bool)]) -> ShadowReport {
    let count = |wanted| answers.iter().filter(|answer| **answer == wanted).count() as u64;
    let mut report = ShadowReport::default();
    report.by_both = count((false, false));
    report.only_by_candidate = count((true, false));
    report.only_in_force = count((false, true));
    report
}

proptest! {
    #[test]
    fn limiter_and_candidate_decide_as_each_does_alone(calls in calls(), quotas in (quota(), quota())) {
        let clock = ManualClock::new();
        let limiter = |quota| RateLimiter::with_clock(quota, &clock);
        let shadowed = Shadowed::new(limiter(quotas.0), limiter(quotas.1));
        let (in_force, candidate) = (limiter(quotas.0), limiter(quotas.1));
        let mut answers = Vec::new();
        for (millis, n) in calls {
            clock.advance(Duration::from_millis(millis));
            let (answer, alone) = (shadowed.check_n(n), in_force.check_n(n));
            prop_assert_eq!(answer, alone);
            answers.push((alone.is_ok(), candidate.check_n(n).is_ok()));
            prop_assert_eq!(shadowed.in_force().peek(), in_force.peek());
            prop_assert_eq!(shadowed.candidate().peek(), candidate.peek());
        }
        prop_assert_eq!(shadowed.report(), expected(&answers));
    }

    #[test]
    fn any_limiter_can_be_the_candidate_of_any_other(calls in calls(), quotas in (quota(), quota())) {
        let clock = ManualClock::new();
        let window = || RateLimiter::with_algorithm(FixedWindow::new(quotas.0), &clock);
        let set = || LimitSet::with_clock([quotas.0, quotas.1], &clock);
        let shadowed: &dyn Limiter = &Shadowed::new(window(), set());
        let alone = window();
        for (millis, n) in calls {
            clock.advance(Duration::from_millis(millis));
            prop_assert_eq!(shadowed.forecast(n), alone.forecast(n));
            prop_assert_eq!(shadowed.try_acquire(n), alone.try_acquire(n));
            prop_assert_eq!(shadowed.usage(), alone.usage());
        }
    }

    /// Calls: how long after the last one, and how it goes.
    #[test]
    fn breaker_in_force_decides_as_it_does_alone(
        calls in prop::collection::vec((0..3_000u64, 0..4u8), 1..80),
        thresholds in (1..4u32, 1..4u32),
    ) {
        let clock = ManualClock::new();
        let breaker = |threshold| {
            let config = BreakerConfig::builder().failure_threshold(threshold).cooldown(Duration::from_secs(1)).build();
            CircuitBreaker::with_clock(config.unwrap(), &clock)
        };
        let shadowed = Shadowed::new(breaker(thresholds.0), breaker(thresholds.1));
        let (in_force, candidate) = (breaker(thresholds.0), breaker(thresholds.1));
        let mut answers = Vec::new();
        for (millis, outcome) in calls {
            clock.advance(Duration::from_millis(millis));
            let (permit, alone, beside) = (shadowed.try_acquire(), in_force.try_acquire(), candidate.try_acquire());
            answers.push((alone.is_ok(), beside.is_ok()));
            prop_assert_eq!(permit.as_ref().err(), alone.as_ref().err());
            let (Ok(permit), Ok(alone)) = (permit, alone) else {
                // The call is not made, of which the candidate learns nothing.
                if let Ok(permit) = beside {
                    permit.ignore();
                }
                continue;
            };
            match outcome {
                0 => drop((permit, alone, beside)),
                outcome => {
                    let verdict = [Verdict::Success, Verdict::Failure, Verdict::Ignored][usize::from(outcome) - 1];
                    permit.record(verdict);
                    alone.record(verdict);
                    if let Ok(permit) = beside {
                        permit.record(verdict);
                    }
                }
            }
            prop_assert_eq!(shadowed.in_force().status(), in_force.status());
            prop_assert_eq!(shadowed.candidate().status(), candidate.status());
        }
        prop_assert_eq!(shadowed.report(), expected(&answers));
    }
}

#[test]
fn check_asks_both_limiters_for_one_token() {
    let clock = ManualClock::new();
    let limiter = |burst| RateLimiter::with_clock(Quota::per_second(1).burst(burst), &clock);
    let (shadowed, alone) = (Shadowed::new(limiter(3), limiter(1)), limiter(3));
    for _ in 0..4 {
        assert_eq!(shadowed.check(), alone.check());
    }
    let report = shadowed.report();
    assert_eq!((report.only_by_candidate, report.by_both, report.only_in_force), (2, 1, 0));
    assert_eq!((report.by_candidate(), report.in_force()), (3, 1));
}

#[test]
fn refused_call_gives_back_the_probe_of_the_candidate() {
    let clock = ManualClock::new();
    let config = |cooldown| BreakerConfig::builder().failure_threshold(1).cooldown(cooldown).build().unwrap();
    let breakers = Shadowed::new(
        CircuitBreaker::with_clock(config(Duration::from_secs(60)), &clock),
        CircuitBreaker::with_clock(config(Duration::from_secs(1)), &clock),
    );
    assert!(breakers.call(|| Err::<(), _>("no connection")).is_err());
    clock.advance(Duration::from_secs(1));
    // The one in force is open, and the candidate would probe.
    for _ in 0..3 {
        assert!(breakers.try_acquire().is_err());
    }
    let report = breakers.report();
    assert_eq!((report.only_in_force, report.by_both), (3, 0), "the place of the probe is free each time");
}

/// Panics at changes of a candidate to this state.
fn panics_at(state: State) -> impl Fn(StateChange) {
    move |change| assert!(change.to() != state, "a bug of the listener")
}

/// The breaker in force has learned from the call, so the permit does not tell it once more.
#[test]
fn listener_of_the_candidate_that_panics_keeps_the_place_of_another_probe() {
    let clock = ManualClock::new();
    let second = Duration::from_secs(1);
    let config = BreakerConfig::builder().failure_threshold(1).cooldown(second).max_probes(2).abandoned_probes_fail();
    let breakers = Shadowed::new(
        CircuitBreaker::with_clock(config.successes_to_close(2).build().unwrap(), &clock),
        CircuitBreaker::with_clock(config.build().unwrap(), &clock).on_state_change(panics_at(State::Closed)),
    );
    breakers.try_acquire().unwrap().failure();
    clock.advance(second);
    let [mut first, other] = [(); 2].map(|()| breakers.try_acquire().unwrap());
    catch_unwind(AssertUnwindSafe(|| first.probe_answered())).unwrap_err();
    drop(first);
    assert_eq!(breakers.in_force().state(), State::HalfOpen, "its probe has succeeded");
    other.success();
    assert_eq!(breakers.in_force().state(), State::Closed);
}

#[test]
fn gate_in_force_learns_although_a_listener_of_the_candidate_panics() {
    let clock = ManualClock::new();
    let second = Duration::from_secs(1);
    let config = BreakerConfig::builder().failure_threshold(1).cooldown(second).build().unwrap();
    for (told, state) in [("the end", State::Open), ("a panic", State::Open), ("the first data", State::Closed)] {
        let in_force = CircuitBreaker::with_clock(config, &clock);
        let candidate = CircuitBreaker::with_clock(config, &clock).on_state_change(panics_at(state));
        if state == State::Closed {
            in_force.trip();
            candidate.trip();
            clock.advance(second);
        }
        let gate = Shadowed::new(&in_force, &candidate);
        let Answer::Pass(mut permit) = gate.ask(&()) else { panic!("the breaker in force lets it pass") };
        let tell = || match told {
            "the end" => permit.end(&gate::Verdict::of(Ending::Failed)),
            "a panic" => permit.panicked(),
            _ => permit.first_data(),
        };
        catch_unwind(AssertUnwindSafe(tell)).unwrap_err();
        assert_eq!(in_force.state(), state, "after {told}");
    }
}

#[cfg(feature = "std")]
mod keyed {
    use super::{Duration, ManualClock, Quota, Shadowed, calls, expected, prop, quota};
    use damper::KeyedLimiter;
    use damper::concurrency::{Admission, AdmissionRequest, LimitRule, WindowPlan, WindowSummary};
    use damper::gate::{Ask, Ending, Permit, Verdict};
    use proptest::prelude::*;
    use std::sync::Arc;

    proptest! {
        #[test]
        fn keyed_limiter_and_candidate_decide_as_each_does_alone(
            calls in calls(), keys in prop::collection::vec(0..4u8, 60), quotas in (quota(), quota()),
        ) {
            let clock = Arc::new(ManualClock::new());
            let limits = |quota| {
                let clock = Arc::clone(&clock);
                KeyedLimiter::<u8>::builder(quota).capacity(64).clock(clock).build().unwrap()
            };
            let shadowed = Shadowed::new(limits(quotas.0), limits(quotas.1));
            let (in_force, candidate) = (limits(quotas.0), limits(quotas.1));
            let mut answers = Vec::new();
            for ((millis, n), key) in calls.into_iter().zip(keys) {
                clock.advance(Duration::from_millis(millis));
                let alone = in_force.check_n(&key, n);
                prop_assert_eq!(shadowed.check_n(&key, n), alone);
                answers.push((alone.is_ok(), candidate.check_n(&key, n).is_ok()));
                prop_assert_eq!(shadowed.in_force().peek(&key), in_force.peek(&key));
                prop_assert_eq!(shadowed.candidate().peek(&key), candidate.peek(&key));
            }
            prop_assert_eq!(shadowed.report(), expected(&answers));
        }
    }

    #[test]
    fn outcomes_of_admitted_calls_reach_both_gates() {
        let (in_force, candidate) = (Admission::fixed(2), Admission::fixed(3));
        let gates = Shadowed::new(&in_force, &candidate);
        let permits: Vec<_> = (0..3).map(|_| gates.ask(&AdmissionRequest::new()).at_once().unwrap()).collect();
        assert_eq!(
            (gates.report().only_in_force, gates.candidate().in_flight()),
            (1, 2),
            "a refused call holds no slot"
        );
        for permit in permits.into_iter().flatten() {
            permit.end(&Verdict::of(Ending::Success));
        }
        assert_eq!((gates.in_force().in_flight(), gates.candidate().in_flight()), (0, 0));
        assert!(gates.in_force().median_service_time().is_some() && gates.candidate().median_service_time().is_some());
    }

    /// Doubles the limit of 10 after a success, and halves it after a sign of overload.
    #[derive(Clone, Copy, Debug)]
    struct AfterOne;

    impl LimitRule for AfterOne {
        fn first(&self) -> WindowPlan {
            WindowPlan { samples: 1, length: Duration::ZERO, ..WindowPlan::new(10) }
        }

        fn next(&mut self, window: &WindowSummary) -> WindowPlan {
            let limit = if window.overloaded > 0 { 5 } else { 20 };
            WindowPlan { samples: 1, length: Duration::ZERO, ..WindowPlan::new(limit) }
        }
    }

    #[test]
    fn both_gates_learn_the_outcome_that_is_recorded() {
        let gate = || Admission::with_rule(AfterOne, ManualClock::new());
        for (ending, limit) in [(Ending::Success, 20), (Ending::Unavailable, 5), (Ending::NotSent, 10)] {
            let (in_force, candidate) = (gate(), gate());
            let gates = Shadowed::new(&in_force, &candidate);
            let call = |ending| {
                let permit = gates.ask(&AdmissionRequest::new()).at_once().unwrap().unwrap();
                permit.end(&Verdict::of(ending));
            };
            // The first call only begins the first window.
            call(Ending::Success);
            call(ending);
            assert_eq!((gates.in_force().limit(), gates.candidate().limit()), (limit, limit), "{ending:?}");
            assert_eq!((gates.in_force().in_flight(), gates.candidate().in_flight()), (0, 0));
        }
    }

    #[test]
    fn change_of_the_candidates_quota_leaves_the_one_in_force() {
        let clock = Arc::new(ManualClock::new());
        let limits = || KeyedLimiter::<u8>::builder(Quota::per_second(9)).clock(Arc::clone(&clock)).build().unwrap();
        let shadowed = Shadowed::new(limits(), limits());
        shadowed.candidate().set_quota(Quota::per_second(1)).unwrap();
        assert!((0..9).all(|_| shadowed.check(&7).is_ok()));
        assert_eq!(shadowed.report().only_by_candidate, 8);
        assert_eq!(shadowed.in_force().quota(), Quota::per_second(9));
    }
}
