//! One call through a circuit breaker.
//!
//! The consecutive failures never suffice to trip, and of the failures by a window every second call is a success: so both
//! together are counted, less a success.

use crate::still::still;
use crate::{Call, Row, prepared, rows};
use damper::breaker::{BreakerConfigBuilder, Window};
use damper::time::FixedFrequency;
use damper::{BreakerConfig, CallError, CircuitBreaker, CircuitBreaker32};
use std::hint::black_box;
use std::time::Duration;

pub(crate) const ROWS: &[Row] = rows![
    breaker_success,
    breaker_failure,
    breaker_open,
    breaker_48_success,
    breaker_48_failure - breaker_48_success,
    breaker_100_success,
    breaker_100_failure - breaker_100_success,
    breaker_time_success,
    breaker_time_failure - breaker_time_success,
    breaker_slow_success,
    breaker32_success,
    breaker32_failure,
    breaker32_open,
];

fn succeed() -> Result<(), ()> {
    black_box(Ok(()))
}

fn fail() -> Result<(), ()> {
    black_box(Err(()))
}

fn configured(config: BreakerConfigBuilder) -> BreakerConfig {
    config.build().expect("a configuration in its range")
}

fn in_a_row(failures: u32) -> BreakerConfig {
    configured(BreakerConfig::builder().failure_threshold(failures))
}

/// All of the calls of a window.
fn all(window: Window) -> BreakerConfig {
    configured(BreakerConfig::builder().failure_rate(100).window(window))
}

fn breaker_success() -> Call {
    let breaker = CircuitBreaker::with_clock(BreakerConfig::default(), still!());
    Box::new(move || breaker.call(succeed).is_ok())
}

fn breaker_failure() -> Call {
    let breaker = CircuitBreaker::with_clock(in_a_row(1_000_000), still!());
    Box::new(move || breaker.call(fail).is_err())
}

fn breaker_open() -> Call {
    let breaker = CircuitBreaker::with_clock(in_a_row(1), still!());
    prepared(Box::new(move || matches!(breaker.call(fail), Err(CallError::Refused(_)))))
}

fn last_48() -> Window {
    Window::last_calls(48)
}

fn breaker_48_success() -> Call {
    let breaker = CircuitBreaker::with_clock(all(last_48()), still!());
    Box::new(move || breaker.call(succeed).is_ok())
}

fn breaker_48_failure() -> Call {
    let breaker = CircuitBreaker::with_clock(all(last_48()), still!());
    Box::new(move || breaker.call(succeed).is_ok() && breaker.call(fail).is_err())
}

fn last_100() -> Window {
    Window::last_calls(100)
}

fn breaker_100_success() -> Call {
    let breaker = CircuitBreaker::with_clock(all(last_100()), still!());
    Box::new(move || breaker.call(succeed).is_ok())
}

fn breaker_100_failure() -> Call {
    let breaker = CircuitBreaker::with_clock(all(last_100()), still!());
    Box::new(move || breaker.call(succeed).is_ok() && breaker.call(fail).is_err())
}

fn last_seconds() -> Window {
    Window::last(Duration::from_secs(10))
}

fn breaker_time_success() -> Call {
    let breaker = CircuitBreaker::with_clock(all(last_seconds()), still!());
    Box::new(move || breaker.call(succeed).is_ok())
}

/// A failure, and a success in a window with failures, which is summed.
fn breaker_time_failure() -> Call {
    let breaker = CircuitBreaker::with_clock(all(last_seconds()), still!());
    Box::new(move || breaker.call(succeed).is_ok() && breaker.call(fail).is_err())
}

/// The clock is read before the call and after it.
fn breaker_slow_success() -> Call {
    let slow = BreakerConfig::builder().slow_rate(100, Duration::from_secs(1));
    let breaker = CircuitBreaker::with_clock(configured(slow), still!());
    Box::new(move || breaker.call(succeed).is_ok())
}

fn small<C: FixedFrequency + Copy>(failures: u32, clock: C) -> CircuitBreaker32<C> {
    CircuitBreaker32::new(in_a_row(failures), clock).expect("a configuration that fits")
}

fn breaker32_success() -> Call {
    let breaker = small(5, still!());
    Box::new(move || breaker.call(succeed).is_ok())
}

fn breaker32_failure() -> Call {
    let breaker = small(1_000_000, still!());
    Box::new(move || breaker.call(fail).is_err())
}

fn breaker32_open() -> Call {
    let breaker = small(1, still!());
    prepared(Box::new(move || matches!(breaker.call(fail), Err(CallError::Refused(_)))))
}
