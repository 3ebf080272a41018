//! The clock readings of a breaker. A reading costs as much as everything else in a call.

#[cfg(feature = "alloc")]
use crate::circuit_breaker::secs;
use crate::circuit_breaker::{COOLDOWN, build, millis};
use damper::breaker::{BreakerConfigBuilder, State, Window};
use damper::{BreakerConfig, CircuitBreaker, Clock};
use std::cell::Cell;

/// A clock that stands still and counts its readings.
#[derive(Default)]
struct Counted {
    micros: Cell<u64>,
    readings: Cell<u32>,
}

impl Clock for Counted {
    fn now(&self) -> u64 {
        self.readings.set(self.readings.get() + 1);
        self.micros.get()
    }

    fn frequency(&self) -> u64 {
        1_000_000
    }
}

/// Returns the number of readings for a success, and for a failure that does not trip the breaker.
fn readings(config: BreakerConfigBuilder) -> [u32; 2] {
    let clock = Counted::default();
    let breaker = CircuitBreaker::with_clock(config.build().unwrap(), &clock);
    breaker.try_acquire().unwrap().success();
    let of_a_success = clock.readings.take();
    breaker.try_acquire().unwrap().failure();
    [of_a_success, clock.readings.get()]
}

#[test]
fn counting_consecutive_failures_reads_no_clock() {
    assert_eq!(readings(BreakerConfig::builder()), [0, 0]);
    assert_eq!(readings(BreakerConfig::builder().window(Window::last_calls(20))), [0, 0]);
    #[cfg(feature = "alloc")]
    assert_eq!(readings(BreakerConfig::builder().window(Window::last(secs(10)))), [0, 0], "that is never asked");
}

#[test]
fn window_of_calls_reads_no_clock() {
    let config = BreakerConfig::builder().failure_threshold(u32::MAX).failure_rate(50).minimum_calls(10);
    assert_eq!(readings(config), [0, 0]);
    assert_eq!(readings(config.window(Window::last_calls(20))), [0, 0]);
    #[cfg(feature = "alloc")]
    assert_eq!(readings(config.window(Window::last_calls(100))), [0, 0]);
}

#[test]
fn timing_slow_calls_reads_the_clock_twice() {
    let config = BreakerConfig::builder().slow_rate(50, millis(10)).minimum_calls(10);
    assert_eq!(readings(config), [2, 2]);
    assert_eq!(readings(config.window(Window::last_calls(20))), [2, 2]);
}

#[cfg(feature = "alloc")]
#[test]
fn window_of_time_reads_the_clock() {
    let config = BreakerConfig::builder().failure_threshold(u32::MAX).failure_rate(50).minimum_calls(10);
    assert!(readings(config.window(Window::last(secs(10)))).iter().all(|&readings| readings > 0));
}

/// Each of the five readings has a purpose.
///
/// The first shows that the cooldown is over, and the second when the half-open state began. The last one is when the breaker closed. The
/// others are the start and the end of the probe.
#[test]
fn probe_is_timed_where_slow_calls_count() {
    let readings = |config: BreakerConfig| {
        let clock = Counted::default();
        let breaker = CircuitBreaker::with_clock(config, &clock);
        breaker.try_acquire().unwrap().failure();
        clock.micros.set(COOLDOWN.as_micros() as u64);
        clock.readings.take();
        breaker.try_acquire().unwrap().success();
        assert_eq!(breaker.status().state(), State::Closed);
        clock.readings.get()
    };
    assert_eq!(readings(build(|config| config.failure_threshold(1))), 3);
    assert_eq!(readings(build(|config| config.failure_threshold(1).failure_rate(50))), 3);
    assert_eq!(readings(build(|config| config.failure_threshold(1).slow_rate(50, millis(10)))), 5);
}
