//! The circuit breaker. In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper::{BreakerConfig, CircuitBreaker, State};
use damper_loom_tests::{Flaw, Stopped, check, check_flawed, check_preemptions};
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

/// Shows a later second at every reading, so that a cooldown of a millisecond is over as soon as it is looked at.
#[derive(Debug, Default)]
struct Jump(std::sync::atomic::AtomicU64);

impl damper::Clock for Jump {
    fn now(&self) -> u64 {
        self.0.fetch_add(1_000_000_000, std::sync::atomic::Ordering::Relaxed)
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}

fn config(failures: u32, probes: u32, successes: u32) -> BreakerConfig {
    BreakerConfig::builder()
        .failure_threshold(failures)
        .cooldown(Duration::from_millis(1))
        .max_probes(probes)
        .successes_to_close(successes)
        .build()
        .unwrap()
}

/// A breaker that has just tripped.
fn tripped(config: BreakerConfig) -> Arc<CircuitBreaker<Jump>> {
    let breaker = Arc::new(CircuitBreaker::with_clock(config, Jump::default()));
    for _ in 0..config.failure_threshold() {
        breaker.try_acquire().unwrap().failure();
    }
    breaker
}

/// Three threads ask a breaker whose cooldown is over: one probe is out at a time, and the place of a dropped one is free
/// again. [`admit` without the test of `max_probes`; a store in the place of the exchange.]
#[test]
fn probes_are_limited() {
    check_preemptions(3, probes_are_limited_model);
}

#[test]
#[should_panic]
fn probes_are_limited_unless_flawed() {
    check_flawed(Flaw::BlindExchange, probes_are_limited_model);
}

fn probes_are_limited_model() {
    // Two successes are needed, so that only `max_probes` keeps a second one from going out.
    let breaker = tripped(config(1, 1, 2));
    let out = Arc::new(AtomicU32::new(0));
    let ask = |breaker: &CircuitBreaker<Jump>, out: &AtomicU32| {
        if let Ok(probe) = breaker.try_acquire() {
            assert_eq!(out.fetch_add(1, Ordering::Relaxed), 0, "one probe at a time");
            out.fetch_sub(1, Ordering::Relaxed);
            drop(probe);
        }
    };
    let rivals: Vec<_> = (0..2)
        .map(|_| {
            let (breaker, out) = (Arc::clone(&breaker), Arc::clone(&out));
            thread::spawn(move || ask(&breaker, &out))
        })
        .collect();
    ask(&breaker, &out);
    for rival in rivals {
        rival.join().unwrap();
    }
    assert_eq!(breaker.state(), State::HalfOpen);
    assert!(breaker.try_acquire().is_ok(), "every place was given back");
}

/// Results of calls that were permitted while closed race a probe: the probe alone decides. [`settle` without the test of
/// the generation.]
#[test]
fn a_late_result_changes_nothing() {
    check(|| {
        let breaker = Arc::new(CircuitBreaker::with_clock(config(1, 1, 1), Jump::default()));
        let late = [breaker.try_acquire_owned().unwrap(), breaker.try_acquire_owned().unwrap()];
        breaker.try_acquire().unwrap().failure();
        let rival = thread::spawn(move || {
            let [failure, dropped] = late;
            failure.failure();
            drop(dropped);
        });
        let probe = breaker.try_acquire().unwrap();
        assert!(breaker.try_acquire().is_err(), "a late drop gives no probe back");
        probe.success();
        rival.join().unwrap();
        assert_eq!(breaker.state(), State::Closed, "a late failure does not open it");
    });
}

/// Failures race at the threshold: none is lost, and the third finds it open. [A store in the place of the exchange of the word.]
#[test]
fn no_failure_is_lost() {
    check(no_failure_is_lost_model);
}

#[test]
#[should_panic]
fn no_failure_is_lost_unless_flawed() {
    check_flawed(Flaw::BlindExchange, no_failure_is_lost_model);
}

fn no_failure_is_lost_model() {
    let breaker = Arc::new(CircuitBreaker::with_clock(config(3, 1, 1), Stopped(0)));
    let rivals: Vec<_> = (0..2)
        .map(|_| {
            let permit = breaker.try_acquire_owned().unwrap();
            thread::spawn(move || permit.failure())
        })
        .collect();
    breaker.try_acquire().unwrap().failure();
    for rival in rivals {
        rival.join().unwrap();
    }
    assert_eq!(breaker.state(), State::Open);
}

/// A success and a failure of two probes race: the first decides, and the other is of an older generation by then.
/// [A transition that keeps its generation.]
#[test]
fn the_first_verdict_decides() {
    check(|| {
        let breaker = tripped(config(2, 2, 1));
        let [success, failure] = [breaker.try_acquire_owned().unwrap(), breaker.try_acquire_owned().unwrap()];
        let rival = thread::spawn(move || success.success());
        failure.failure();
        rival.join().unwrap();
        match breaker.state() {
            State::Closed => {
                breaker.try_acquire().unwrap().failure();
                assert_eq!(breaker.state(), State::Closed, "the late failure was not counted");
            }
            State::Open | State::HalfOpen => {
                assert!(breaker.try_acquire().is_ok() && breaker.try_acquire().is_ok(), "the late success was not");
            }
        }
    });
}
