//! The length of the cooldown.

use crate::circuit_breaker::{COOLDOWN, build, by_rate, micros, millis, secs, trip};
use damper::breaker::{State, Verdict};
use damper::{BreakerConfig, CallError, CircuitBreaker, ManualClock};
use std::collections::BTreeSet;
use std::time::Duration;

fn left(breaker: &CircuitBreaker<&ManualClock>) -> Duration {
    breaker.try_acquire().unwrap_err().retry_after().unwrap()
}

#[test]
fn open_refuses_calls_until_the_cooldown_ends() {
    let clock = ManualClock::new();
    clock.advance(millis(1_234));
    let breaker = CircuitBreaker::with_clock(build(|config| config.failure_threshold(1)), &clock);
    trip(&breaker);
    let refused = breaker.call(|| -> Result<(), ()> { panic!("called") }).unwrap_err();
    let CallError::Refused(open) = refused else { panic!("{refused:?}") };
    assert_eq!(open.retry_after(), Some(COOLDOWN));
    assert_eq!(open.to_string(), "circuit open, next probe in 30 s");
    clock.advance(micros(29_999_999));
    assert_eq!((left(&breaker), breaker.state()), (micros(1), State::Open));
    assert_eq!(breaker.status().next_probe_in(), Some(micros(1)));
    clock.advance(micros(1));
    assert_eq!((breaker.state(), breaker.status().next_probe_in()), (State::HalfOpen, None));
    assert_eq!(breaker.call(|| Ok::<_, ()>(7)), Ok(7));
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn failed_probe_reopens_for_a_whole_cooldown() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(BreakerConfig::default(), &clock);
    trip(&breaker);
    for _ in 0..20 {
        clock.advance(COOLDOWN);
        breaker.try_acquire().unwrap().failure();
        assert_eq!(left(&breaker), COOLDOWN);
    }
}

#[test]
fn cooldown_grows_to_a_cap_while_probes_fail_and_resets_on_close() {
    let clock = ManualClock::new();
    let config =
        build(|config| config.failure_threshold(1).cooldown(secs(1)).cooldown_factor(2.5).max_cooldown(secs(20)));
    let breaker = CircuitBreaker::with_clock(config, &clock);
    for _ in 0..3 {
        trip(&breaker);
        for expected in [1_000, 2_500, 6_250, 15_625, 20_000, 20_000] {
            assert_eq!(left(&breaker), millis(expected));
            clock.advance(millis(expected));
            breaker.try_acquire().unwrap().failure();
        }
        clock.advance(secs(20));
        breaker.try_acquire().unwrap().success();
        assert_eq!(breaker.state(), State::Closed);
    }
}

/// The factor is rounded to thousandths, not truncated: 1.001 × 1000 is a little less than 1001.
#[test]
fn cooldown_factor_is_exact() {
    for thousandths in 1_000..=10_000u32 {
        let clock = ManualClock::new();
        let factor = f64::from(thousandths) / 1_000.0;
        let breaker = CircuitBreaker::with_clock(
            build(|config| config.failure_threshold(1).cooldown(secs(1)).cooldown_factor(factor)),
            &clock,
        );
        trip(&breaker);
        clock.advance(secs(1));
        breaker.try_acquire().unwrap().failure();
        assert_eq!(left(&breaker), millis(thousandths.into()));
    }
}

#[test]
fn jitter_shortens_cooldowns_within_bounds_and_varies() {
    let clock = ManualClock::new();
    let config = build(|config| config.failure_threshold(1).cooldown(secs(100)).cooldown_jitter(25));
    let breakers: Vec<_> = (0..64).map(|_| CircuitBreaker::with_clock(config, &clock)).collect();
    let mut all = BTreeSet::new();
    let mut sum = Duration::ZERO;
    for _ in 0..20 {
        let waits: Vec<_> = breakers
            .iter()
            .map(|breaker| {
                trip(breaker);
                left(breaker)
            })
            .collect();
        assert!(waits.iter().all(|wait| (secs(75)..=secs(100)).contains(wait)), "{waits:?}");
        sum += waits.iter().sum::<Duration>();
        all.extend(waits);
        clock.advance(secs(100));
        for breaker in &breakers {
            breaker.try_acquire().unwrap().success();
        }
    }
    assert!(all.len() > 64 * 20 * 9 / 10, "{} different ones", all.len());
    let mean = sum / (64 * 20);
    assert!((secs(86)..secs(89)).contains(&mean), "spread evenly: {mean:?}");
}

#[test]
fn full_jitter_leaves_some_time_and_zero_jitter_is_exact() {
    let clock = ManualClock::new();
    let whole = build(|config| config.failure_threshold(1).cooldown(micros(1)).cooldown_jitter(100));
    for config in [whole, build(|config| config.failure_threshold(1).cooldown(secs(1)).cooldown_jitter(100))] {
        for _ in 0..100 {
            let breaker = CircuitBreaker::with_clock(config, &clock);
            trip(&breaker);
            assert!((micros(1)..=config.cooldown()).contains(&left(&breaker)));
        }
    }
}

#[test]
fn retry_after_extends_the_cooldown_up_to_its_cap() {
    let left_after = |config: BreakerConfig, retry_after: Duration| {
        let clock = ManualClock::new();
        let breaker = CircuitBreaker::with_clock(config, &clock);
        breaker.try_acquire().unwrap().failure_with_retry_after(retry_after);
        left(&breaker)
    };
    let config = build(|config| config.failure_threshold(1).max_retry_after(secs(120)));
    assert_eq!(left_after(config, secs(7)), COOLDOWN, "less than the cooldown changes nothing");
    assert_eq!(left_after(config, secs(77)), secs(77));
    assert_eq!(left_after(config, secs(3_600)), secs(120), "capped");
    assert_eq!(left_after(config, Duration::MAX), secs(120));
    assert_eq!(left_after(config, secs(77) + Duration::from_nanos(1)), secs(77) + micros(1), "rounded up");
    let deaf = build(|config| config.failure_threshold(1).max_retry_after(Duration::ZERO));
    assert_eq!(left_after(deaf, secs(77)), COOLDOWN);
    // `Retry-After` has its own cap, apart from the cooldown's.
    let grown = build(|config| config.failure_threshold(1).max_cooldown(COOLDOWN).max_retry_after(secs(120)));
    assert_eq!(left_after(grown, secs(77)), secs(77));
    let rate = by_rate(|config| config.failure_rate(100).minimum_calls(1));
    assert_eq!(left_after(rate, secs(77)), secs(77), "by a rate too");
}

#[test]
fn retry_after_counts_where_the_call_opens_the_breaker() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(build(|config| config.failure_threshold(2)), &clock);
    breaker.try_acquire().unwrap().failure_with_retry_after(secs(100));
    breaker.try_acquire().unwrap().failure();
    assert_eq!(left(&breaker), COOLDOWN, "the first of two did not open it");
    clock.advance(COOLDOWN);
    breaker.try_acquire().unwrap().record(Verdict::RetryAfter(secs(100)));
    assert_eq!(left(&breaker), secs(100), "the probe did");
}

/// Repeats the longest cooldown until the clock has run for years and its microseconds have wrapped.
#[test]
fn distant_times_are_distinguished() {
    const LONGEST: Duration = Duration::from_hours(24 * 100);
    let clock = ManualClock::new();
    let longest = build(|config| config.failure_threshold(1).cooldown(LONGEST));
    let breaker = CircuitBreaker::with_clock(longest, &clock);
    for _ in 0..50 {
        trip(&breaker);
        clock.advance(LONGEST.saturating_sub(micros(1)));
        assert_eq!(breaker.state(), State::Open);
        clock.advance(micros(1));
        breaker.try_acquire().unwrap().success();
    }
    trip(&breaker);
    clock.advance(Duration::from_hours(24 * 102));
    assert_eq!(breaker.state(), State::HalfOpen);
}

/// An ordinary cooldown stays over, however long no call was made.
#[test]
fn idle_breaker_stays_half_open() {
    for days in (1..2_000).step_by(7) {
        let clock = ManualClock::new();
        let breaker = CircuitBreaker::with_clock(BreakerConfig::default(), &clock);
        trip(&breaker);
        clock.advance(Duration::from_hours(24 * days));
        assert_eq!(breaker.state(), State::HalfOpen, "after {days} days");
    }
}
