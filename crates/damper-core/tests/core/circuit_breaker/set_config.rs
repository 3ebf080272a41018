//! Settings that change while the breaker is used, and manual trips.

use crate::circuit_breaker::{build, by_rate, make, millis, secs, trip};
use damper::breaker::{SetConfigError, State, Window};
use damper::{BreakerConfig, CircuitBreaker, Clock, ManualClock};
use std::cell::{Cell, RefCell};

#[test]
fn consecutive_failures_stay_and_the_next_one_trips() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(build(|config| config.failure_threshold(10)), &clock);
    make(&breaker, 4, |_| true);
    breaker.set_config(&build(|config| config.failure_threshold(3))).unwrap();
    assert_eq!((breaker.state(), breaker.status().consecutive_failures()), (State::Closed, 4));
    make(&breaker, 1, |_| true);
    assert_eq!(breaker.state(), State::Open);
}

#[test]
fn running_cooldown_ends_when_it_would_have() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(build(|config| config.failure_threshold(1).cooldown(secs(30))), &clock);
    trip(&breaker);
    clock.advance(secs(10));
    for cooldown in [3_600, 5, 1] {
        breaker.set_config(&build(|config| config.failure_threshold(1).cooldown(secs(cooldown)))).unwrap();
        assert_eq!(breaker.status().next_probe_in(), Some(secs(20)));
    }
    clock.advance(secs(20));
    make(&breaker, 1, |_| true);
    assert_eq!(breaker.status().next_probe_in(), Some(secs(1)), "the next one is a new one");
}

/// A change keeps the wait, however much of it is left and whatever cooldowns the settings have.
#[test]
fn wait_that_a_server_asked_for_is_not_cut() {
    let settings = |most| build(|config| config.failure_threshold(1).cooldown(secs(30)).max_retry_after(secs(most)));
    for advanced in [0, 31, 170, 199] {
        let clock = ManualClock::new();
        let breaker = CircuitBreaker::with_clock(settings(300), &clock);
        breaker.try_acquire().unwrap().failure_with_retry_after(secs(200));
        clock.advance(secs(advanced));
        for config in [settings(300), settings(60), settings(0), build(|config| config.cooldown(secs(5)))] {
            breaker.set_config(&config).unwrap();
            assert_eq!(breaker.status().next_probe_in(), Some(secs(200 - advanced)));
        }
    }
}

/// A manual trip lasts as long as the operator set it, whatever is configured meanwhile.
#[test]
fn trip_for_outlasts_every_change() {
    let clock = ManualClock::new();
    let settings = |cooldown| build(|config| config.cooldown(secs(cooldown)).max_cooldown(secs(60)));
    let breaker = CircuitBreaker::with_clock(settings(30), &clock);
    for (tripped, advanced) in [(3_600, 0), (3_600, 3_599), (25, 0), (100 * 86_400, 86_400)] {
        breaker.trip_for(secs(tripped));
        clock.advance(secs(advanced));
        for cooldown in [30, 5, 60, 1] {
            breaker.set_config(&settings(cooldown)).unwrap();
            assert_eq!(breaker.status().next_probe_in(), Some(secs(tripped - advanced)));
        }
    }
}

/// A fleet whose cooldowns have jitter does not probe all at once after a reload.
#[test]
fn change_does_not_align_cooldowns() {
    let clock = ManualClock::new();
    let settings = |cooldown| build(|config| config.cooldown(secs(cooldown)).cooldown_jitter(50));
    let breakers: Vec<_> = (0..100).map(|_| CircuitBreaker::with_clock(settings(30), &clock)).collect();
    breakers.iter().for_each(CircuitBreaker::trip);
    for breaker in &breakers {
        breaker.set_config(&settings(5)).unwrap();
    }
    let mut waits: Vec<_> = breakers.iter().map(|breaker| breaker.status().next_probe_in()).collect();
    waits.sort_unstable();
    waits.dedup();
    assert!(waits.len() > 90, "{} different waits", waits.len());
}

/// A new maximum time half-open counts from the start of the state.
///
/// It makes no difference whether the status is read meanwhile.
#[test]
fn max_half_open_that_is_new_counts_from_the_beginning() {
    for looks in [false, true] {
        let clock = ManualClock::new();
        let settings = build(|config| config.failure_threshold(1).cooldown(secs(30)));
        let breaker = CircuitBreaker::with_clock(settings, &clock);
        trip(&breaker);
        clock.advance(secs(30));
        let _lost = breaker.try_acquire().unwrap();
        clock.advance(secs(4));
        breaker.set_config(&build(|config| config.cooldown(secs(30)).max_half_open(secs(10)))).unwrap();
        for _ in 0..5 {
            if looks {
                assert_eq!(breaker.status().state(), State::HalfOpen);
                assert_eq!(breaker.refusal().unwrap().retry_after(), None);
            }
            clock.advance(secs(1));
        }
        assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), None);
        clock.advance(secs(1));
        assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), Some(secs(30)), "looks: {looks}");
    }
}

/// The generation wraps after 8,192 transitions.
///
/// Records of an older state with the same number do not count.
#[test]
fn half_open_state_of_a_number_that_was_used_before_takes_its_time() {
    let clock = ManualClock::new();
    let settings = build(|config| config.failure_threshold(1).cooldown(secs(30)).max_half_open(secs(10)));
    let breaker = CircuitBreaker::with_clock(settings, &clock);
    for before in [0, 8_190, 8_190] {
        (0..before).for_each(|_| breaker.trip_for(secs(1)));
        breaker.trip_for(secs(1));
        clock.advance(secs(1));
        let _lost = breaker.try_acquire().unwrap();
        clock.advance(secs(9));
        assert_eq!(breaker.state(), State::HalfOpen, "generation {}", breaker.status().generation());
    }
    assert_eq!(breaker.status().generation(), 2);
}

/// Tests the number of the first state, with settings that had no maximum time half-open.
#[test]
fn half_open_state_of_the_first_number_takes_its_time() {
    let clock = ManualClock::new();
    clock.advance(secs(1_000));
    let breaker = CircuitBreaker::with_clock(build(|config| config.failure_threshold(1)), &clock);
    (0..8_191).for_each(|_| breaker.trip_for(secs(1)));
    breaker.set_config(&build(|config| config.max_half_open(secs(10)))).unwrap();
    clock.advance(secs(1));
    let _lost = breaker.try_acquire().unwrap();
    assert_eq!((breaker.state(), breaker.status().generation()), (State::HalfOpen, 0));
}

#[test]
fn probes_in_flight_stay_and_decide_by_the_new_settings() {
    let clock = ManualClock::new();
    let settings = |probes, successes| {
        build(|config| config.failure_threshold(1).cooldown(secs(1)).max_probes(probes).successes_to_close(successes))
    };
    let breaker = CircuitBreaker::with_clock(settings(3, 3), &clock);
    trip(&breaker);
    clock.advance(secs(1));
    let probes = [breaker.try_acquire().unwrap(), breaker.try_acquire().unwrap()];
    breaker.set_config(&settings(1, 1)).unwrap();
    assert!(breaker.try_acquire().is_err(), "two are in flight, one may be");
    let [first, second] = probes;
    first.success();
    assert_eq!(breaker.state(), State::Closed);
    second.failure();
    assert_eq!((breaker.state(), breaker.status().consecutive_failures()), (State::Closed, 0), "a late result");
}

/// The old settings needed more successful probes than were made.
///
/// None is in flight, so one more is needed.
#[test]
fn half_open_breaker_is_probed_again_after_a_change() {
    let clock = ManualClock::new();
    let settings =
        |successes| build(|config| config.failure_threshold(1).cooldown(secs(1)).successes_to_close(successes));
    let breaker = CircuitBreaker::with_clock(settings(5), &clock);
    trip(&breaker);
    clock.advance(secs(1));
    make(&breaker, 3, |_| false);
    breaker.set_config(&settings(2)).unwrap();
    make(&breaker, 1, |_| false);
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn small_windows_keep_their_newest_outcomes_and_others_start_empty() {
    let clock = ManualClock::new();
    let settings = |calls| by_rate(|config| config.failure_rate(100).window(Window::last_calls(calls)));
    let breaker = CircuitBreaker::with_clock(settings(8), &clock);
    make(&breaker, 8, |call| call < 4);
    breaker.set_config(&settings(6)).unwrap();
    assert_eq!((breaker.status().calls(), breaker.status().failures()), (6, 2));
    make(&breaker, 1, |_| false);
    assert_eq!((breaker.status().calls(), breaker.status().failures()), (6, 1));
    breaker.set_config(&settings(40)).unwrap();
    assert_eq!((breaker.status().calls(), breaker.status().failures()), (9, 4), "a smaller window drops none");
    let slow = by_rate(|config| config.slow_rate(100, secs(1)).window(Window::last_calls(20)));
    breaker.set_config(&slow).unwrap();
    assert_eq!(breaker.status().calls(), 0);
}

/// The window was small at first, and its memory is that of the first outcome.
#[cfg(feature = "alloc")]
#[test]
fn window_can_become_larger_any_number_of_times() {
    let clock = ManualClock::new();
    let settings = |window| by_rate(|config| config.failure_rate(50).minimum_calls(4_000).window(window));
    let breaker = CircuitBreaker::with_clock(settings(Window::last_calls(10)), &clock);
    for calls in [49, 100, 4_096, 60, 2_000] {
        breaker.set_config(&settings(Window::last_calls(calls))).unwrap();
        make(&breaker, 5_000, |call| call % 4 == 0);
        let failures = (5_000 - calls..5_000).filter(|call| call % 4 == 0).count() as u32;
        assert_eq!((breaker.status().calls(), breaker.status().failures()), (calls, failures));
        breaker.set_config(&settings(Window::interval(secs(u64::from(calls))))).unwrap();
        assert_eq!(breaker.status().calls(), 0);
        make(&breaker, 7, |call| call % 2 == 1);
        assert_eq!((breaker.status().calls(), breaker.status().failures()), (7, 3));
    }
}

#[test]
fn call_that_was_not_timed_is_not_slow() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(by_rate(|config| config.failure_rate(100)), &clock);
    clock.advance(secs(1_000));
    let permit = breaker.try_acquire().unwrap();
    clock.advance(secs(10));
    breaker.set_config(&by_rate(|config| config.slow_rate(1, millis(1)).minimum_calls(1))).unwrap();
    permit.success();
    assert_eq!((breaker.status().calls(), breaker.status().slow_calls()), (1, 0));
}

#[test]
fn trip_for_outlasts_every_setting() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(build(|config| config.cooldown(secs(1)).max_cooldown(secs(2))), &clock);
    let day = secs(24 * 60 * 60);
    breaker.force_closed();
    breaker.trip_for(day);
    clock.advance(secs(24 * 60 * 60 - 1));
    assert_eq!((breaker.state(), breaker.status().next_probe_in()), (State::Open, Some(secs(1))));
    clock.advance(secs(1));
    make(&breaker, 1, |_| false);
    assert_eq!(breaker.state(), State::Closed);
}

/// A clock whose next reading runs a closure first, as if another thread intervened.
struct Meddling {
    now: Cell<u64>,
    meddler: RefCell<Option<Box<dyn FnOnce()>>>,
}

impl Meddling {
    fn new() -> &'static Self {
        Box::leak(Box::new(Self { now: Cell::new(1_000_000_000), meddler: RefCell::default() }))
    }

    fn meddle(&self, meddler: impl FnOnce() + 'static) {
        *self.meddler.borrow_mut() = Some(Box::new(meddler));
    }
}

impl Clock for Meddling {
    fn now(&self) -> u64 {
        let meddler = self.meddler.borrow_mut().take();
        let now = self.now.get();
        if let Some(meddler) = meddler {
            meddler();
        }
        now
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}

fn meddled(config: BreakerConfig) -> (&'static CircuitBreaker<&'static Meddling>, &'static Meddling) {
    let clock = Meddling::new();
    (Box::leak(Box::new(CircuitBreaker::with_clock(config, clock))), clock)
}

#[test]
fn changer_that_stops_half_way_disturbs_only_other_changers() {
    let (breaker, clock) = meddled(build(|config| config.failure_threshold(9)));
    clock.meddle(move || {
        breaker.try_acquire().unwrap().failure();
        assert_eq!(breaker.set_config(&build(|config| config.failure_threshold(1))), Err(SetConfigError::Busy));
    });
    breaker.set_config(&build(|config| config.failure_threshold(8))).unwrap();
    assert_eq!(breaker.status().consecutive_failures(), 1);
}

/// A probe is stopped after it made the breaker half-open, and before it recorded the time.
///
/// The next call records the time instead. Reading the state does not.
#[test]
fn half_open_state_ends_though_its_first_probe_is_stopped() {
    let (breaker, clock) = meddled(build(|config| config.failure_threshold(1).max_half_open(secs(10))));
    breaker.trip_for(secs(1));
    clock.now.set(2_000_000_000);
    // The first reading shows that the cooldown is over.
    clock.meddle(move || {
        clock.meddle(move || {
            clock.now.set(20_000_000_000);
            assert_eq!((breaker.state(), breaker.refusal().unwrap().retry_after()), (State::HalfOpen, None));
            clock.now.set(40_000_000_000);
            assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), None);
            clock.now.set(50_000_000_000);
            assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), Some(secs(30)));
        });
    });
    _ = breaker.try_acquire();
    assert_eq!((breaker.state(), breaker.status().next_probe_in()), (State::Open, Some(secs(30))));
}

/// A call that began with a window of ten calls ends after the window has grown to 48.
#[test]
fn late_call_of_a_smaller_window_drops_no_outcomes() {
    let settings = |calls| by_rate(|config| config.slow_rate(100, secs(1)).window(Window::last_calls(calls)));
    let (breaker, clock) = meddled(settings(4));
    let late = breaker.try_acquire().unwrap();
    clock.meddle(move || {
        breaker.set_config(&settings(24)).unwrap();
        make(breaker, 20, |call| call % 2 == 0);
    });
    late.success();
    assert_eq!((breaker.status().calls(), breaker.status().failures()), (21, 10));
}

/// The old configuration trips at ten failures in 24 calls.
///
/// The new one counts the last ten calls, which succeeded.
#[test]
fn counts_of_a_larger_window_are_not_judged_by_the_rates_of_a_smaller_one() {
    let settings = |calls, rate| {
        let window = Window::last_calls(calls);
        by_rate(|config| {
            config.failure_rate(rate).slow_rate(100, secs(1)).window(window).minimum_calls(calls).cooldown(secs(30))
        })
    };
    for is_changed in [false, true] {
        let (breaker, clock) = meddled(settings(24, 40));
        make(breaker, 23, |call| call < 10);
        let last = breaker.try_acquire().unwrap();
        if is_changed {
            clock.meddle(move || breaker.set_config(&settings(10, 20)).unwrap());
        }
        last.success();
        assert_eq!(breaker.state(), if is_changed { State::Closed } else { State::Open });
    }
}
