//! The windows of calls from which rates are taken.

use crate::circuit_breaker::{COOLDOWN, by_rate, make, trip};
#[cfg(feature = "alloc")]
use crate::circuit_breaker::{micros, millis, secs};
use damper::breaker::{State, Verdict, Window};
use damper::{BreakerConfig, CircuitBreaker, ManualClock};
#[cfg(feature = "alloc")]
use std::time::Duration;

/// Returns a configuration that trips only at 100 %, which a single success prevents.
fn never(window: Window) -> BreakerConfig {
    by_rate(|config| config.failure_rate(100).window(window))
}

fn sizes() -> Vec<u32> {
    if cfg!(feature = "alloc") {
        vec![1, 2, 23, 24, 25, 47, 48, 49, 96, 97, 100, 1_000, 4_096]
    } else {
        vec![1, 2, 23, 24]
    }
}

/// Old outcomes leave the window one by one, at the right time.
///
/// The failures are followed by as many successes as the window has calls.
#[test]
fn window_of_calls_slides_one_by_one() {
    for calls in sizes() {
        for slow in [false, true] {
            let clock = ManualClock::new();
            let config = by_rate(|config| {
                let config = config.failure_rate(100).minimum_calls(u32::MAX).window(Window::last_calls(calls));
                if slow { config.slow_rate(100, COOLDOWN) } else { config }
            });
            let breaker = CircuitBreaker::with_clock(config, &clock);
            breaker.disable();
            let failures = || (breaker.status().calls(), breaker.status().failures());
            make(&breaker, calls as usize, |_| false);
            assert_eq!(failures(), (calls, 0));
            for failed in 1..=calls {
                make(&breaker, 1, |_| true);
                assert_eq!(failures(), (calls, failed));
            }
            make(&breaker, calls as usize, |_| true);
            assert_eq!(failures(), (calls, calls));
            for gone in 1..=calls {
                make(&breaker, 1, |_| false);
                assert_eq!(failures(), (calls, calls - gone));
            }
        }
    }
}

/// Ten thousand old successes do not outweigh the latest failures.
#[test]
fn old_outcomes_leave_the_window() {
    for calls in sizes() {
        let clock = ManualClock::new();
        let breaker = CircuitBreaker::with_clock(never(Window::last_calls(calls)), &clock);
        make(&breaker, 10_000, |_| false);
        make(&breaker, calls as usize - 1, |_| true);
        assert_eq!(breaker.state(), State::Closed, "one success is left of {calls}");
        make(&breaker, 1, |_| true);
        assert_eq!(breaker.state(), State::Open);
    }
}

#[test]
fn default_window_has_48_calls_or_24() {
    let capacity = |config: BreakerConfig| {
        let clock = ManualClock::new();
        let breaker = CircuitBreaker::with_clock(config, &clock);
        make(&breaker, 200, |_| false);
        breaker.status().calls()
    };
    assert_eq!(capacity(by_rate(|config| config.failure_rate(100))), 48);
    assert_eq!(capacity(by_rate(|config| config.slow_rate(100, COOLDOWN))), 24);
}

/// Slow calls and failures leave the window independently.
#[test]
fn slow_calls_slide_too() {
    let most = if cfg!(feature = "alloc") { 100 } else { 24 };
    for calls in [5, 24, 25, 100] {
        let calls = calls.min(most);
        let clock = ManualClock::new();
        let config = by_rate(|config| {
            config.failure_rate(100).slow_rate(100, COOLDOWN).minimum_calls(u32::MAX).window(Window::last_calls(calls))
        });
        let breaker = CircuitBreaker::with_clock(config, &clock);
        let mut all = Vec::new();
        for call in 0..3 * calls {
            let (failed, slow) = (call % 3 == 0, call % 5 < 2);
            let permit = breaker.try_acquire().unwrap();
            if slow {
                clock.advance(COOLDOWN);
            }
            permit.record(Verdict::failure_if(failed));
            all.push((failed, slow));
            let last = &all[all.len().saturating_sub(calls as usize)..];
            let count = |is: fn(&(bool, bool)) -> bool| last.iter().filter(|call| is(call)).count() as u32;
            let status = breaker.status();
            assert_eq!(status.calls(), last.len() as u32);
            assert_eq!((status.failures(), status.slow_calls()), (count(|call| call.0), count(|call| call.1)));
        }
    }
}

/// A window still works after thousands of state changes without a call.
///
/// An outage with a short cooldown has so many changes.
#[test]
fn window_survives_thousands_of_probes() {
    let windows = [
        Window::last_calls(20),
        #[cfg(feature = "alloc")]
        Window::last_calls(100),
        #[cfg(feature = "alloc")]
        Window::last(Duration::from_hours(24)),
        #[cfg(feature = "alloc")]
        Window::interval(Duration::from_hours(24 * 100)),
    ];
    for window in windows {
        for probes in [1, 1_000, 2_047, 2_048, 2_500, 3_000, 4_000, 4_096, 5_000, 6_500] {
            let clock = ManualClock::new();
            let config =
                by_rate(|config| config.failure_rate(50).minimum_calls(10).cooldown(super::millis(1)).window(window));
            let breaker = CircuitBreaker::with_clock(config, &clock);
            trip(&breaker);
            for _ in 0..probes {
                clock.advance(super::millis(1));
                breaker.try_acquire().unwrap().failure();
            }
            clock.advance(super::millis(1));
            breaker.try_acquire().unwrap().success();
            make(&breaker, 9, |_| true);
            assert_eq!((breaker.state(), breaker.status().calls()), (State::Closed, 9), "after {probes} probes");
            make(&breaker, 1, |_| true);
            assert_eq!(breaker.state(), State::Open, "after {probes} probes");
        }
    }
}

/// Most closed states are short and use only the first word of the ring.
///
/// The other words were written many laps ago.
#[cfg(feature = "alloc")]
#[test]
fn ring_stays_exact_after_a_thousand_sparse_laps() {
    let clock = ManualClock::new();
    let config = by_rate(|config| config.failure_rate(100).minimum_calls(100).window(Window::last_calls(100)));
    let breaker = CircuitBreaker::with_clock(config, &clock);
    for resets in 1_015..1_030 {
        make(&breaker, 99, |_| true);
        for _ in 0..resets {
            breaker.reset();
            make(&breaker, 1, |_| true);
        }
        make(&breaker, 299, |_| false);
        assert_eq!((breaker.status().calls(), breaker.status().failures()), (100, 0), "after {resets} laps");
        breaker.reset();
    }
}

#[cfg(feature = "alloc")]
#[test]
fn window_of_time_slides_by_buckets() {
    let clock = ManualClock::new();
    let config = by_rate(|config| config.failure_rate(100).minimum_calls(u32::MAX).window(Window::last(secs(10))));
    let breaker = CircuitBreaker::with_clock(config, &clock);
    let counts = || (breaker.status().calls(), breaker.status().failures());
    // Each second has as many calls as its number, and the even ones fail.
    for second in 0..10u32 {
        make(&breaker, second as usize, |_| second % 2 == 0);
        clock.advance(millis(999));
        assert_eq!(counts(), ((0..=second).sum(), (0..=second).filter(|second| second % 2 == 0).sum()));
        clock.advance(millis(1));
    }
    assert_eq!(counts().0, 45, "that of no calls went");
    for second in 1..10u32 {
        clock.advance(millis(999));
        assert_eq!(counts().0, (second..10).sum::<u32>());
        clock.advance(millis(1));
        assert_eq!(counts().0, (second + 1..10).sum::<u32>());
    }
    assert_eq!(counts(), (0, 0));
}

#[cfg(feature = "alloc")]
#[test]
fn window_below_a_second_works() {
    let clock = ManualClock::new();
    let config = by_rate(|config| config.failure_rate(50).minimum_calls(10).window(Window::last(millis(900))));
    let breaker = CircuitBreaker::with_clock(config, &clock);
    // With one call every 50 ms, eighteen are in the window, and half of them fail.
    for call in 0..9 {
        make(&breaker, 1, |_| call % 2 == 0);
        clock.advance(millis(50));
    }
    assert_eq!((breaker.status().calls(), breaker.status().failures()), (9, 5));
    make(&breaker, 1, |_| false);
    assert_eq!(breaker.state(), State::Open);
}

#[cfg(feature = "alloc")]
#[test]
fn interval_clears_as_a_whole() {
    let clock = ManualClock::new();
    clock.advance(secs(57));
    let breaker = CircuitBreaker::with_clock(never(Window::interval(secs(60))), &clock);
    make(&breaker, 7, |call| call > 0);
    clock.advance(micros(2_999_999));
    assert_eq!((breaker.status().calls(), breaker.status().failures()), (7, 6));
    clock.advance(micros(1));
    assert_eq!((breaker.status().calls(), breaker.status().failures()), (0, 0));
}

/// A call is counted at its start, and not at all if that has left the window.
#[cfg(feature = "alloc")]
#[test]
fn long_call_counts_when_it_began() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(never(Window::last(secs(10))), &clock);
    let (long, longer) = (breaker.try_acquire().unwrap(), breaker.try_acquire().unwrap());
    clock.advance(secs(9));
    make(&breaker, 1, |_| false);
    long.failure();
    assert_eq!(breaker.status().calls(), 2);
    clock.advance(secs(1));
    assert_eq!(breaker.status().calls(), 1, "as it began a whole window ago");
    longer.failure();
    assert_eq!(breaker.status().calls(), 1);
}

/// If a bucket's counts no longer fit 15 bits, all of them are halved, and the rates stay the same.
#[cfg(feature = "alloc")]
#[test]
fn overflowing_counts_are_halved_together() {
    let clock = ManualClock::new();
    let config = by_rate(|config| {
        config
            .failure_rate(100)
            .slow_rate(100, micros(1))
            .minimum_calls(u32::MAX)
            .window(Window::interval(Duration::from_hours(1)))
    });
    let breaker = CircuitBreaker::with_clock(config, &clock);
    let call = |number: u32| {
        let permit = breaker.try_acquire().unwrap();
        // Every second call is slow, and every fourth fails.
        if number.is_multiple_of(2) {
            clock.advance(micros(1));
        }
        permit.record(Verdict::failure_if(number.is_multiple_of(4)));
    };
    (0..32_767).for_each(call);
    let status = breaker.status();
    assert_eq!((status.calls(), status.failures(), status.slow_calls()), (32_767, 8_192, 16_384));
    call(32_767);
    let status = breaker.status();
    assert_eq!((status.calls(), status.failures(), status.slow_calls()), (16_384, 4_096, 8_192));
    (0..200_000).for_each(call);
    let (failures, slow) = (breaker.status().failure_rate().unwrap(), breaker.status().slow_rate().unwrap());
    assert!((failures - 25.0).abs() < 0.01 && (slow - 50.0).abs() < 0.01, "{failures} and {slow} %");
}

/// A minimum beyond the maximum count of a bucket does not prevent a trip.
#[cfg(feature = "alloc")]
#[test]
fn minimum_is_capped_at_what_a_bucket_counts() {
    for window in [Window::interval(secs(1)), Window::last(secs(1))] {
        let clock = ManualClock::new();
        let config =
            by_rate(|config| config.failure_rate(100).slow_rate(100, secs(1)).minimum_calls(1_000_000).window(window));
        let breaker = CircuitBreaker::with_clock(config, &clock);
        make(&breaker, 10_000, |_| true);
        assert_eq!(breaker.state(), State::Closed);
        let more =
            (0..).take_while(|_| breaker.try_acquire().map(damper::breaker::Permit::failure).is_ok()).take(1_000_000);
        assert_eq!(10_000 + more.count(), 16_384);
    }
}

/// After the clock steps back, no call is counted twice, and later calls are counted.
#[cfg(feature = "alloc")]
#[test]
fn window_of_time_survives_a_step_back() {
    let clock = ManualClock::new();
    clock.advance(secs(1_000_000));
    let breaker = CircuitBreaker::with_clock(never(Window::last(secs(10))), &clock);
    make(&breaker, 10, |call| call > 0);
    clock.step_back(secs(3_600));
    assert_eq!(breaker.status().calls(), 0);
    make(&breaker, 8, |call| call > 0);
    assert_eq!((breaker.status().calls(), breaker.status().failures()), (8, 7));
}

/// The size of the breaker and of its allocation.
///
/// The words of its ring hold 48 outcomes each, or 24 where slow calls count.
#[cfg(feature = "alloc")]
#[test]
fn breaker_with_a_window_of_100_calls_fits_in_320_bytes() {
    let ring = |in_a_word: usize| 100usize.div_ceil(in_a_word) * size_of::<u64>();
    // The clock is a reference, or holds a number and a frequency.
    let breaker = size_of::<CircuitBreaker<ManualClock>>();
    assert!(breaker + ring(48) <= 320 && breaker + ring(24) <= 320, "{breaker} + {} bytes", ring(24));
}

/// A window of any size is a part of the settings, so a breaker with one can be a `static`.
///
/// Its memory is allocated at the first outcome, and reading the counts before that allocates nothing.
#[cfg(feature = "std")]
#[test]
fn static_breaker_has_any_window() {
    const fn with(window: Window) -> BreakerConfig {
        match BreakerConfig::builder().failure_threshold(u32::MAX).failure_rate(50).window(window).build() {
            Ok(config) => config,
            Err(_) => panic!("out of range"),
        }
    }
    static OF_CALLS: CircuitBreaker = CircuitBreaker::new(with(Window::last_calls(100)));
    static OF_TIME: CircuitBreaker = CircuitBreaker::new(with(Window::last(Duration::from_hours(24))));
    for breaker in [&OF_CALLS, &OF_TIME] {
        assert_eq!(breaker.status().calls(), 0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..4).for_each(|_| breaker.try_acquire().unwrap().success()));
            }
        });
        assert_eq!(breaker.status().calls(), 16);
        for _ in 0..16 {
            breaker.try_acquire().unwrap().failure();
        }
        assert_eq!(breaker.state(), State::Open);
    }
}

#[cfg(feature = "alloc")]
#[test]
fn windows_are_displayed_as_texts() {
    let texts =
        [Window::last_calls(100), Window::last(secs(10)), Window::interval(secs(60))].map(|window| window.to_string());
    assert_eq!(texts, ["last 100 calls", "last 10 s", "intervals of 60 s"]);
}
