//! Every value that is refused, with its error.

use crate::circuit_breaker::{build, make, secs};
use damper::breaker::{BreakerConfigBuilder, State, Window};
use damper::{BreakerConfig, CircuitBreaker, ManualClock};
use std::time::Duration;

const DAYS: Duration = Duration::from_secs(100 * 24 * 60 * 60);
const NANO: Duration = Duration::from_nanos(1);

#[test]
fn defaults_are_as_documented() {
    let config = BreakerConfig::default();
    assert_eq!((config.failure_threshold(), config.cooldown(), config.max_probes()), (5, secs(30), 1));
    assert_eq!((config.failure_rate(), config.slow_rate(), config.minimum_calls()), (None, None, 20));
    assert_eq!((config.max_cooldown(), config.cooldown_jitter()), (secs(3_600), 0));
    assert_eq!((config.max_retry_after(), config.max_half_open()), (secs(300), None));
    assert_eq!((config.successes_to_close(), config.probe_failure_rate()), (1, None));
    assert!(!config.abandoned_probes_fail());
    assert_eq!((config.cooldown_factor(), build(|config| config.cooldown_factor(2.5)).cooldown_factor()), (1.0, 2.5));
    assert_eq!(build(|config| config), BreakerConfig::DEFAULT);
    assert_eq!(build(|config| config.cooldown(secs(9_000))).max_cooldown(), secs(9_000), "no less than the cooldown");
}

#[test]
fn settings_out_of_range_are_named() {
    type Set = fn(BreakerConfigBuilder) -> BreakerConfigBuilder;
    let table: [(Set, &str); 25] = [
        (|c| c.failure_threshold(0), "failure_threshold is 0, it must be at least 1"),
        (|c| c.failure_rate(0), "failure_rate is 0, it must be 1 to 100 percent"),
        (|c| c.failure_rate(101), "failure_rate is 101, it must be 1 to 100 percent"),
        (|c| c.slow_rate(0, NANO), "slow_rate is 0, it must be 1 to 100 percent"),
        (|c| c.slow_rate(u32::MAX, NANO), "slow_rate is 4294967295, it must be 1 to 100 percent"),
        (
            |c| c.slow_rate(1, Duration::ZERO),
            "slow_rate is 0 ns, it must be at least 1 ns (the duration of a slow call)",
        ),
        (|c| c.minimum_calls(0), "minimum_calls is 0, it must be at least 1"),
        (|c| c.cooldown(Duration::ZERO), "cooldown is 0 ns, it must be 1 ns to 100 days"),
        (|c| c.cooldown(DAYS + NANO), "cooldown is 8640000.000000001 s, it must be 1 ns to 100 days"),
        (|c| c.cooldown_factor(0.999), "cooldown_factor is 0.999, it must be 1.0 to 10.0"),
        (|c| c.cooldown_factor(11.0), "cooldown_factor is 11.0, it must be 1.0 to 10.0"),
        (|c| c.cooldown_factor(-1.0 / 0.0), "cooldown_factor is -inf, it must be 1.0 to 10.0"),
        (|c| c.cooldown_factor(f64::NAN), "cooldown_factor is NaN, it must be 1.0 to 10.0"),
        (
            |c| c.max_cooldown(Duration::from_secs(29)),
            "max_cooldown is 29 s, it must be 30 s to 100 days (at least the cooldown)",
        ),
        (
            |c| c.max_cooldown(DAYS + NANO),
            "max_cooldown is 8640000.000000001 s, it must be 30 s to 100 days (at least the cooldown)",
        ),
        (|c| c.cooldown_jitter(101), "cooldown_jitter is 101, it must be at most 100 percent"),
        (
            |c| c.max_retry_after(Duration::MAX),
            "max_retry_after is 18446744073709551615.999999999 s, it must be at most 100 days",
        ),
        (|c| c.max_probes(0), "max_probes is 0, it must be 1 to 1023"),
        (|c| c.max_probes(1_024), "max_probes is 1024, it must be 1 to 1023"),
        (|c| c.successes_to_close(0), "successes_to_close is 0, it must be 1 to 1023"),
        (|c| c.successes_to_close(1_024), "successes_to_close is 1024, it must be 1 to 1023"),
        (|c| c.probe_failure_rate(0), "probe_failure_rate is 0, it must be 1 to 100 percent"),
        (|c| c.probe_failure_rate(101), "probe_failure_rate is 101, it must be 1 to 100 percent"),
        (|c| c.max_half_open(Duration::ZERO), "max_half_open is 0 ns, it must be 1 ns to 100 days"),
        (|c| c.max_half_open(DAYS + NANO), "max_half_open is 8640000.000000001 s, it must be 1 ns to 100 days"),
    ];
    for (set, message) in table {
        let error = set(BreakerConfig::builder()).build().unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(message.split(' ').next(), Some(error.setting()));
    }
}

/// All settings at the ends of their ranges at once neither panic nor hang.
#[test]
fn ends_of_the_ranges_work() {
    for (least, most) in [(true, false), (false, true)] {
        let pick = |one: u32, other: u32| if least { one } else { other };
        let time = |one: Duration, other: Duration| if most { other } else { one };
        let config = |window| {
            BreakerConfig::builder()
                .failure_threshold(pick(1, u32::MAX))
                .failure_rate(pick(1, 100))
                .slow_rate(pick(1, 100), time(NANO, Duration::MAX))
                .window(window)
                .minimum_calls(pick(1, u32::MAX))
                .cooldown(time(NANO, DAYS))
                .cooldown_factor(if least { 1.0 } else { 10.0 })
                .max_cooldown(time(NANO, DAYS))
                .cooldown_jitter(pick(0, 100))
                .max_retry_after(time(Duration::ZERO, DAYS))
                .max_probes(pick(1, 1_023))
                .successes_to_close(pick(1, 1_023))
                .probe_failure_rate(pick(1, 100))
                .max_half_open(time(NANO, DAYS))
                .build()
                .unwrap()
        };
        let windows = [
            Window::last_calls(1),
            Window::last_calls(24),
            #[cfg(feature = "alloc")]
            Window::last_calls(4_096),
            #[cfg(feature = "alloc")]
            Window::last(Duration::from_micros(10)),
            #[cfg(feature = "alloc")]
            Window::last(DAYS),
            #[cfg(feature = "alloc")]
            Window::interval(Duration::from_micros(1)),
            #[cfg(feature = "alloc")]
            Window::interval(DAYS),
        ];
        for window in windows {
            let clock = ManualClock::new();
            let breaker = CircuitBreaker::with_clock(config(window), &clock);
            for round in 0..5_000u32 {
                if let Ok(permit) = breaker.try_acquire() {
                    if round % 5 == 0 { permit.success() } else { permit.failure_with_retry_after(Duration::MAX) }
                }
                clock.advance_ticks(if round % 64 == 0 { u64::MAX / 7 } else { 999 });
                _ = breaker.status();
            }
        }
    }
}

/// A breaker works with a clock that stands still or has frequency 0.
///
/// Its cooldown never ends then.
#[test]
fn clock_without_a_frequency_stands_still() {
    let clock = ManualClock::with_frequency(0);
    let breaker = CircuitBreaker::with_clock(build(|config| config.max_half_open(secs(1))), &clock);
    make(&breaker, 5, |_| true);
    clock.advance_ticks(u64::MAX);
    assert_eq!((breaker.state(), breaker.status().next_probe_in()), (State::Open, Some(secs(30))));
}

#[test]
fn windows_out_of_range_are_named() {
    let all = BreakerConfig::builder();
    for (config, in_one_word) in [(all, 48), (all.slow_rate(50, secs(1)), 24)] {
        let most = if cfg!(feature = "alloc") { 4_096 } else { in_one_word };
        assert_eq!(config.build().unwrap().window(), Window::last_calls(in_one_word));
        assert!(config.window(Window::last_calls(most)).build().is_ok());
        for calls in [0, most + 1, u32::MAX] {
            let error = config.window(Window::last_calls(calls)).build().unwrap_err();
            assert_eq!(error.setting(), "window");
            assert_eq!(error.to_string(), format!("window is {calls}, it must be 1 to {most} calls"));
        }
    }
}

#[cfg(feature = "alloc")]
#[test]
fn windows_of_time_out_of_range_are_named() {
    let micros = Duration::from_micros;
    let checked = |window| BreakerConfig::builder().window(window).build();
    for window in [
        Window::last(micros(10)),
        Window::last(Duration::from_millis(900)),
        Window::last(DAYS),
        Window::interval(micros(1)),
        Window::interval(DAYS),
    ] {
        assert_eq!(checked(window).unwrap().window(), window);
    }
    for (window, message) in [
        (Window::last(Duration::ZERO), "window is 0 ns, it must be 10 µs to 100 days"),
        (Window::last(Duration::from_nanos(9_999)), "window is 9.999 µs, it must be 10 µs to 100 days"),
        (Window::last(DAYS + NANO), "window is 8640000.000000001 s, it must be 10 µs to 100 days"),
        (Window::last(Duration::MAX), "window is 18446744073709551615.999999999 s, it must be 10 µs to 100 days"),
        (Window::interval(Duration::ZERO), "window is 0 ns, it must be 1 µs to 100 days"),
        (Window::interval(Duration::from_nanos(999)), "window is 999 ns, it must be 1 µs to 100 days"),
        (Window::interval(DAYS + NANO), "window is 8640000.000000001 s, it must be 1 µs to 100 days"),
    ] {
        let error = checked(window).unwrap_err();
        assert_eq!((error.setting(), error.to_string().as_str()), ("window", message));
    }
}

const STRICT: BreakerConfig = match BreakerConfig::builder().failure_threshold(2).cooldown_factor(1.5).build() {
    Ok(config) => config,
    Err(_) => panic!("out of range"),
};

#[test]
fn breaker_works_in_a_static() {
    static BREAKER: CircuitBreaker<ManualClock> = CircuitBreaker::with_clock(STRICT, ManualClock::new());
    for _ in 0..2 {
        BREAKER.try_acquire().unwrap().failure();
    }
    assert_eq!(BREAKER.state(), State::Open);
}

#[cfg(feature = "std")]
#[test]
fn breaker_works_in_a_static_on_the_default_clock() {
    static BREAKER: CircuitBreaker = CircuitBreaker::new(STRICT);
    for _ in 0..2 {
        BREAKER.try_acquire().unwrap().failure();
    }
    assert_eq!(BREAKER.state(), State::Open);
}
