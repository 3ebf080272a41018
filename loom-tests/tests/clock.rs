//! Clocks: wrapping timers, the coarse clock, the conversion to microseconds.
//!
//! In brackets above a model: the weakening of the code under which it was seen to fail.
//!
//! The extended timer is checked against every interleaving of readers, the timer and its interrupt. Seen to fail: with nothing ordered, where a half goes with a count from before it (`11` was read at 3); without the
//! fence, where the second look at the half comes before the count (`4` at 12); with a swap that does not compare,
//! which restores a half that is long over (`4` at 12, for good). At most five preemptions; without a
//! bound it passes too, in a minute.
#![cfg(loom)]

use damper_core::time::{ExtendedTimer, Timer};
use damper_core::{BreakerConfig, CircuitBreaker, Clock, CoarseClock, Quota, RateLimiter};
use damper_loom_tests::{Flaw, Stopped, check, check_flawed, check_preemptions};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use std::sync::Arc as StdArc;
use std::time::Duration;

/// Three bits of the true time: it wraps at 8, and a half begins at every 4.
#[derive(Debug)]
struct Narrow(Arc<AtomicU32>);

impl Timer for Narrow {
    const HERTZ: u64 = 1_000;
    const BITS: u32 = 3;

    fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

const COOLDOWN: Duration = Duration::from_secs(30);

/// One in every half, as the clock requires.
///
/// At 8 the timer wraps, and a count of 12 looks like one of 4.
const TIMES: [u32; 4] = [3, 6, 8, 12];

/// Time passes, with an interrupt that reads the clock in every half; another reads it meanwhile.
fn read_while_time_passes() {
    let time = Arc::new(AtomicU32::new(TIMES[0]));
    let clock = Arc::new(ExtendedTimer::new(Narrow(Arc::clone(&time))));
    let reader = {
        let (time, clock) = (Arc::clone(&time), Arc::clone(&clock));
        thread::spawn(move || {
            let at_least = u64::from(time.load(Ordering::Acquire));
            let read = clock.now();
            assert!(TIMES.contains(&(read as u32)), "{read} was never the time");
            assert!(read >= at_least, "{read} at {at_least} or later");
        })
    };
    for next in &TIMES[1..] {
        // Release: the half before was read, and what that left behind is there when the next begins.
        time.store(*next, Ordering::Release);
        let read = clock.now();
        assert_eq!(read, u64::from(*next), "the interrupt knows the time");
    }
    reader.join().unwrap();
    assert_eq!(clock.now(), u64::from(TIMES[3]), "a late reader leaves nothing behind");
}

#[test]
fn every_reading_is_exact() {
    check_preemptions(5, read_while_time_passes);
}

#[test]
#[should_panic]
fn every_reading_is_exact_only_if_it_is_ordered() {
    check_flawed(Flaw::NothingOrdered, read_while_time_passes);
}

#[test]
#[should_panic = "was never"]
fn every_reading_is_exact_only_with_the_fence() {
    check_flawed(Flaw::NoFences, read_while_time_passes);
}

#[test]
#[should_panic = "leaves nothing behind"]
fn every_reading_is_exact_only_if_the_half_is_compared() {
    check_flawed(Flaw::BlindExchange, read_while_time_passes);
}

/// Two threads move a coarse clock forward while it is read.
///
/// It gains what both add, and no reading is smaller than one before it.
///
/// [A plain store in the place of the CAS.]
#[test]
fn coarse_clock_is_monotonic_and_keeps_every_refresh() {
    check(coarse_clock_is_monotonic_and_keeps_every_refresh_model);
}

#[test]
#[should_panic]
fn coarse_clock_is_monotonic_and_keeps_every_refresh_unless_flawed() {
    check_flawed(Flaw::BlindExchange, coarse_clock_is_monotonic_and_keeps_every_refresh_model);
}

fn coarse_clock_is_monotonic_and_keeps_every_refresh_model() {
    let clock = Arc::new(CoarseClock::new());
    let rival = {
        let clock = Arc::clone(&clock);
        thread::spawn(move || {
            clock.advance(Duration::from_nanos(10));
            let first = clock.now();
            assert!(first <= clock.now(), "the clock stepped back");
        })
    };
    clock.advance_to(Duration::from_nanos(5));
    let first = clock.now();
    clock.advance(Duration::from_nanos(100));
    let second = clock.now();
    assert!(first + 100 <= second, "the clock lost a refresh: {first}, then {second}");
    rival.join().unwrap();
    // 110 where the thread that adds 10 came first: the clock was then past 5 already.
    assert!([110, 115].contains(&clock.now()), "the clock lost a refresh: {}", clock.now());
}

/// A thread finds a word that another wrote after a refresh which the first does not see yet.
///
/// The debt in that word is legal and stays, because the clock states that readings may differ by up to an hour. [A
/// stated skew of 0: the debt is cut to the deepest legal one at the old reading, and the next call gets a token too
/// many.]
#[test]
fn coarse_clock_read_late_keeps_the_debt() {
    check(|| {
        let clock = StdArc::new(CoarseClock::new());
        let limiter =
            Arc::new(RateLimiter::with_clock(Quota::per_second(10).burst(2).max_debt(0), StdArc::clone(&clock)));
        _ = limiter.check_n(0);
        let rival = {
            let limiter = Arc::clone(&limiter);
            // Unlike a check it decides by its first look at the word.
            thread::spawn(move || limiter.charge(2))
        };
        // The time of one token.
        clock.advance(Duration::from_millis(100));
        let mine = limiter.check_n(2).is_ok();
        let theirs = rival.join().unwrap();
        // The tokens of the refresh fit only if the other thread took its own before.
        assert!(
            !mine || (theirs == 0 && limiter.check().is_err()),
            "more than the burst at once, {theirs} by the other"
        );
    });
}

/// Two threads are the first to use a breaker, whose clock then shows 7 s.
///
/// The cooldown counts from there.
///
/// [The conversion to microseconds stored in two steps, of which another thread finds the first.]
// WORD: The conversion of a clock's ticks to microseconds
#[test]
fn concurrent_first_uses_agree_on_tick_length() {
    check(|| {
        let config = BreakerConfig::builder().failure_threshold(1).cooldown(COOLDOWN).build().unwrap();
        let breaker = Arc::new(CircuitBreaker::with_clock(config, Stopped(7_000_000_000)));
        let fail = |breaker: &CircuitBreaker<Stopped>| breaker.try_acquire().map(|permit| permit.failure()).is_ok();
        let rival = {
            let breaker = Arc::clone(&breaker);
            thread::spawn(move || fail(&breaker))
        };
        let mine = fail(&breaker);
        assert!(mine | rival.join().unwrap(), "it was closed");
        assert_eq!(breaker.status().next_probe_in(), Some(COOLDOWN), "the cooldown counts from now on");
    });
}
