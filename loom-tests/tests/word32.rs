//! The limiter and the breaker in 32 bits.
//!
//! In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::breaker::State;
use damper_core::time::FixedFrequency;
use damper_core::{BreakerConfig, CircuitBreaker32, Clock, Quota, RateLimiter32};
use damper_loom_tests::{Flaw, check, check_flawed, check_preemptions};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::time::Duration;

/// A clock that stands still.
#[derive(Clone, Copy, Debug)]
struct At(u64);

impl FixedFrequency for At {
    const HERTZ: u64 = 1_000;
}

impl Clock for At {
    fn now(&self) -> u64 {
        self.0
    }
    fn frequency(&self) -> u64 {
        1_000
    }
}

/// A clock that is set before the threads of a model start, and adds no interleavings.
#[derive(Clone, Copy, Debug)]
struct SetClock(&'static std::sync::atomic::AtomicU64);

impl SetClock {
    fn at(tick: u64) -> Self {
        Self(Box::leak(Box::new(tick.into())))
    }

    fn to(self, tick: u64) {
        self.0.store(tick, Ordering::Relaxed);
    }
}

impl FixedFrequency for SetClock {
    const HERTZ: u64 = 1_000;
}

impl Clock for SetClock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn frequency(&self) -> u64 {
        1_000
    }
}

/// Two threads race for a burst of two, with three calls: two are allowed.
fn burst_model() {
    let limiter = Arc::new(RateLimiter32::new(Quota::per_second(1).burst(2), At(7)).unwrap());
    let rival = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || usize::from(limiter.check().is_ok()) + usize::from(limiter.check().is_ok()))
    };
    let mine = usize::from(limiter.check().is_ok());
    assert_eq!(mine + rival.join().unwrap(), 2, "two tokens, two winners");
}

#[test]
fn burst_is_never_exceeded() {
    check(burst_model);
}

/// [A word that is stored and not swapped.]
#[test]
#[should_panic(expected = "two tokens, two winners")]
fn burst_is_never_exceeded_unless_flawed() {
    check_flawed(Flaw::BlindExchange, burst_model);
}

fn breaker<C: FixedFrequency + Copy>(max_probes: u32, clock: C) -> CircuitBreaker32<C> {
    let config = BreakerConfig::builder()
        .failure_threshold(1)
        .cooldown(Duration::from_secs(1))
        .max_cooldown(Duration::from_secs(1))
        .max_probes(max_probes)
        .successes_to_close(2);
    CircuitBreaker32::new(config.build().unwrap(), clock).unwrap()
}

/// The cooldown is over.
///
/// Of three threads no more than two are probes at a time, and their places come back.
fn probes_model() {
    let clock = SetClock::at(7);
    let breaker = Arc::new(breaker(2, clock));
    breaker.try_acquire().unwrap().failure();
    clock.to(2_000);
    let in_flight = Arc::new(AtomicUsize::new(0));
    let probe = |breaker: &CircuitBreaker32<SetClock>, in_flight: &AtomicUsize| match breaker.try_acquire() {
        Ok(permit) => {
            assert!(in_flight.fetch_add(1, Ordering::Relaxed) < 2, "at most two probes at a time");
            in_flight.fetch_sub(1, Ordering::Relaxed);
            permit.ignore();
            1
        }
        Err(_) => 0,
    };
    let rivals: Vec<_> = (0..2)
        .map(|_| {
            let (breaker, in_flight) = (Arc::clone(&breaker), Arc::clone(&in_flight));
            thread::spawn(move || probe(&breaker, &in_flight))
        })
        .collect();
    let passed = probe(&breaker, &in_flight) + rivals.into_iter().map(|rival| rival.join().unwrap()).sum::<u32>();
    assert!(passed >= 2, "two places, two probes");
    let again = [breaker.try_acquire().is_ok(), breaker.try_acquire().is_ok()];
    assert_eq!(again, [true, true], "places come back");
}

#[test]
fn probes_are_limited() {
    check_preemptions(2, probes_model);
}

/// [A word that is stored and not swapped.]
#[test]
#[should_panic]
fn probes_are_limited_unless_flawed() {
    check_flawed(Flaw::BlindExchange, probes_model);
}

/// A failure of the closed state races two controls: it is counted in its own generation or discarded.
fn late_result_model() {
    let breaker = Arc::new(breaker(1, At(7)));
    let permit = breaker.try_acquire().unwrap();
    let control = {
        let breaker = Arc::clone(&breaker);
        thread::spawn(move || {
            breaker.force_closed();
            breaker.reset();
            breaker.state()
        })
    };
    permit.failure();
    assert_eq!(control.join().unwrap(), State::Closed, "a new generation");
    assert_eq!(breaker.state(), State::Closed, "a new generation");
}

#[test]
fn late_result_is_discarded() {
    check(late_result_model);
}

/// [A word that is stored and not swapped.]
#[test]
#[should_panic(expected = "a new generation")]
fn late_result_is_discarded_unless_flawed() {
    check_flawed(Flaw::BlindExchange, late_result_model);
}

/// A clock that is moved by hand.
#[derive(Clone, Copy, Debug)]
struct Moving(&'static loom::sync::atomic::AtomicU64);

impl FixedFrequency for Moving {
    const HERTZ: u64 = 1_000;
}

impl Clock for Moving {
    fn now(&self) -> u64 {
        self.0.fetch_add(0, Ordering::AcqRel)
    }
    fn frequency(&self) -> u64 {
        1_000
    }
}

#[test]
fn stale_clock_reading_keeps_the_debt() {
    check(|| {
        let clock = Moving(Box::leak(Box::new(loom::sync::atomic::AtomicU64::new(7))));
        let limiter = Arc::new(RateLimiter32::new(Quota::per_second(1).burst(2), clock).unwrap());
        limiter.check_n(2).unwrap();
        let rival = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || usize::from(limiter.check().is_ok()))
        };
        clock.0.fetch_add(2_000, Ordering::AcqRel);
        let mine = if limiter.check_n(2).is_ok() { 2 } else { 0 };
        let taken = mine + rival.join().unwrap();
        assert!(taken <= 2, "no more than the burst: {taken}");
        assert_eq!(limiter.peek().remaining() as usize, 2 - taken, "no more than the burst");
    });
}
