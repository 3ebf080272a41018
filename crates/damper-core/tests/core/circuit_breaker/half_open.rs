//! The half-open state and its probes.

use crate::circuit_breaker::{COOLDOWN, build, half_open, micros, millis, secs, trip};
use crate::models::skewed::Skewed;
use crate::models::timer::Timer;
use damper::breaker::{Permit, State, StateChange, Verdict};
use damper::shadow::Shadowed;
use damper::{BreakerConfig, CircuitBreaker, CircuitBreaker32, ManualClock};
use std::cell::Cell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

type Probe<'a, 'b> = Permit<&'b CircuitBreaker<&'a ManualClock>>;

/// Acquires probes until one is refused.
fn all<'a, 'b>(breaker: &'b CircuitBreaker<&'a ManualClock>) -> Vec<Probe<'a, 'b>> {
    std::iter::from_fn(|| breaker.try_acquire().ok()).take(2_000).collect()
}

// CLAIM: CircuitBreaker
#[test]
fn probes_in_flight_are_limited() {
    let clock = ManualClock::new();
    let breaker = half_open(build(|config| config.failure_threshold(1).max_probes(3).successes_to_close(3)), &clock);
    let mut probes = all(&breaker);
    assert_eq!((probes.len(), breaker.status().probes_in_flight()), (3, 3));
    let refused = breaker.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), None);
    assert_eq!(refused.to_string(), "circuit half-open, probe in progress");
    drop(probes.pop());
    probes.push(breaker.try_acquire().unwrap());
    assert!(breaker.try_acquire().is_err());
    probes.pop().unwrap().ignore();
    for probe in probes {
        probe.success();
        assert_eq!(breaker.state(), State::HalfOpen, "two successes of three");
    }
    assert_eq!(breaker.status().probes_succeeded(), 2);
    breaker.try_acquire().unwrap().success();
    assert_eq!(breaker.state(), State::Closed);
}

/// Probes in flight and successes never exceed `max(max_probes, successes_to_close)`.
#[test]
fn probes_are_limited_to_those_needed() {
    for (probes, successes) in [(1, 1), (2, 3), (3, 2), (1, 5), (5, 5), (4, 7), (1_023, 1_023)] {
        let clock = ManualClock::new();
        let config = build(|config| config.failure_threshold(1).max_probes(probes).successes_to_close(successes));
        let breaker = half_open(config, &clock);
        for succeeded in 0..successes {
            let out = all(&breaker);
            let expected = probes.min(probes.max(successes) - succeeded);
            assert_eq!(out.len(), expected as usize, "{succeeded} of {successes}, {probes} at once");
            let status = breaker.status();
            assert_eq!((status.probes_in_flight(), status.probes_succeeded()), (expected, succeeded));
            let mut out = out.into_iter();
            out.next().unwrap().success();
            out.for_each(Permit::ignore);
        }
        assert_eq!(breaker.state(), State::Closed);
    }
}

#[test]
fn any_probe_failure_reopens() {
    let clock = ManualClock::new();
    let breaker = half_open(build(|config| config.failure_threshold(5).max_probes(3).successes_to_close(3)), &clock);
    let mut probes = all(&breaker).into_iter();
    probes.next().unwrap().success();
    probes.next().unwrap().success();
    probes.next().unwrap().failure();
    assert_eq!(breaker.state(), State::Open);
}

/// Calls are slow from 10 ms on.
fn with_slow_calls() -> BreakerConfig {
    build(|config| config.failure_threshold(1).slow_rate(50, millis(10)).max_probes(2).successes_to_close(2))
}

/// Returns the state after one probe that succeeds after `took`, for each way to make a call.
fn states_after_a_probe(config: BreakerConfig, took: Duration) -> [State; 4] {
    let clock = ManualClock::new();
    let pass = || clock.advance(took);
    let mut states = [State::Closed; 4];

    let by_permit = half_open(config, &clock);
    let permit = by_permit.try_acquire().unwrap();
    pass();
    permit.success();
    states[0] = by_permit.state();

    let by_call = half_open(config, &clock);
    by_call
        .call(|| {
            pass();
            Ok::<_, ()>(())
        })
        .unwrap();
    states[1] = by_call.state();

    // The time runs from the first poll, when the permit is given.
    let by_run = half_open(config, &clock);
    let is_done = std::cell::Cell::new(false);
    let mut future = pin!(
        by_run.run(poll_fn(|_| { if is_done.replace(true) { Poll::Ready(Ok::<_, ()>(())) } else { Poll::Pending } }))
    );
    clock.advance(secs(1));
    assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    pass();
    assert_eq!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())));
    states[2] = by_run.state();

    let by_verdict = half_open(config, &clock);
    let classify = |_: &Result<(), ()>| Verdict::Success;
    let failed_but_fine = || {
        pass();
        Err(())
    };
    assert!(by_verdict.call_with(failed_but_fine, classify).is_err());
    states[3] = by_verdict.state();
    states
}

#[test]
fn slow_probe_reopens() {
    assert_eq!(states_after_a_probe(with_slow_calls(), millis(10)), [State::Open; 4]);
    assert_eq!(states_after_a_probe(with_slow_calls(), secs(60)), [State::Open; 4]);
    // This is one of the two successes that close the breaker.
    assert_eq!(states_after_a_probe(with_slow_calls(), micros(9_999)), [State::HalfOpen; 4]);
}

/// A breaker that tripped on slow calls closes on a probe that is fast, not on one that is slow.
#[test]
fn fast_probe_closes_after_a_slow_trip() {
    let clock = ManualClock::new();
    let config = build(|config| config.slow_rate(100, millis(10)).minimum_calls(3));
    let breaker = CircuitBreaker::with_clock(config, &clock);
    let succeeds_after = |took: Duration| {
        let permit = breaker.try_acquire().unwrap();
        clock.advance(took);
        permit.success();
    };
    (0..3).for_each(|_| succeeds_after(millis(10)));
    for _ in 0..3 {
        assert_eq!(breaker.state(), State::Open);
        clock.advance(COOLDOWN);
        succeeds_after(millis(10));
    }
    clock.advance(COOLDOWN);
    succeeds_after(millis(9));
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn probes_are_timed_only_where_slow_calls_count() {
    let config = build(|config| config.failure_threshold(1).failure_rate(50).successes_to_close(2));
    assert_eq!(states_after_a_probe(config, secs(60 * 60)), [State::HalfOpen; 4]);
}

/// Only successes are judged by their duration.
///
/// A probe without a verdict releases its slot, however long it took.
#[test]
fn ignored_slow_probe_decides_nothing() {
    let clock = ManualClock::new();
    let breaker = half_open(with_slow_calls(), &clock);
    let (ignored, dropped) = (breaker.try_acquire().unwrap(), breaker.try_acquire().unwrap());
    clock.advance(secs(60));
    ignored.ignore();
    drop(dropped);
    assert_eq!((breaker.state(), breaker.status().probes_in_flight()), (State::HalfOpen, 0));
}

#[test]
fn slow_probe_counts_as_failed_in_the_probe_rate() {
    let clock = ManualClock::new();
    let config = build(|config| {
        config.failure_threshold(1).slow_rate(50, millis(10)).successes_to_close(4).probe_failure_rate(50)
    });
    let breaker = half_open(config, &clock);
    for slow in 1..=2 {
        let probe = breaker.try_acquire().unwrap();
        clock.advance(millis(10));
        probe.success();
        let status = breaker.status();
        if slow == 1 {
            assert_eq!((status.probes_in_flight(), status.probes_succeeded(), status.probes_failed()), (0, 0, 1));
        } else {
            assert_eq!(status.state(), State::Open, "two of four");
        }
    }
}

#[test]
fn probe_rate_decides_as_soon_as_certain() {
    // At least half of ten probes must fail to open it. So it opens at the fifth failure, or closes at the sixth success.
    let outcome = |failures: u32, successes: u32| {
        let clock = ManualClock::new();
        let config =
            build(|config| config.failure_threshold(1).max_probes(10).successes_to_close(1).probe_failure_rate(50));
        let breaker = half_open(config, &clock);
        for _ in 0..failures {
            breaker.try_acquire().unwrap().failure();
        }
        for _ in 0..successes {
            breaker.try_acquire().unwrap().success();
        }
        breaker.state()
    };
    assert_eq!(outcome(4, 0), State::HalfOpen);
    assert_eq!(outcome(5, 0), State::Open);
    assert_eq!(outcome(0, 5), State::HalfOpen);
    assert_eq!(outcome(0, 6), State::Closed);
    assert_eq!(outcome(4, 5), State::HalfOpen);
    assert_eq!(outcome(4, 6), State::Closed);
}

#[test]
fn probe_rate_decides_at_every_number_of_failures() {
    for percent in [1, 10, 33, 50, 99, 100] {
        for failures in 0..=10u32 {
            let clock = ManualClock::new();
            let config = build(|config| {
                config.failure_threshold(1).max_probes(4).successes_to_close(10).probe_failure_rate(percent)
            });
            let breaker = half_open(config, &clock);
            let mut left = (failures, 10 - failures);
            // Record the failures first, while the breaker admits probes.
            while breaker.state() == State::HalfOpen {
                let probe = breaker.try_acquire().unwrap();
                if left.0 > 0 {
                    left.0 -= 1;
                    probe.failure();
                } else {
                    left.1 -= 1;
                    probe.success();
                }
            }
            let expected = if failures * 10 >= percent { State::Open } else { State::Closed };
            assert_eq!(breaker.state(), expected, "{failures} of 10 at {percent} %");
        }
    }
}

#[test]
fn dropped_probe_frees_its_place_or_fails() {
    let dropped = |fails: bool| {
        let clock = ManualClock::new();
        let breaker = half_open(
            build(|config| {
                let config = config.failure_threshold(1);
                if fails { config.abandoned_probes_fail() } else { config }
            }),
            &clock,
        );
        drop(breaker.try_acquire().unwrap());
        (breaker.state(), breaker.status().probes_in_flight())
    };
    assert_eq!(dropped(false), (State::HalfOpen, 0));
    assert_eq!(dropped(true), (State::Open, 0));
}

/// A dropped probe fails, but not a dropped call from before the trip, nor an ignored probe.
#[test]
fn only_abandoned_probes_fail() {
    let clock = ManualClock::new();
    let breaker =
        CircuitBreaker::with_clock(build(|config| config.failure_threshold(1).abandoned_probes_fail()), &clock);
    drop(breaker.try_acquire().unwrap());
    assert_eq!(breaker.state(), State::Closed);
    let late = breaker.try_acquire().unwrap();
    trip(&breaker);
    clock.advance(COOLDOWN);
    let probe = breaker.try_acquire().unwrap();
    drop(late);
    assert_eq!(breaker.state(), State::HalfOpen);
    probe.ignore();
    assert_eq!((breaker.state(), breaker.status().probes_in_flight()), (State::HalfOpen, 0));
}

/// Calls that were permitted before the trip end while the breaker is half-open.
///
/// They neither open nor close it, nor release a slot.
// CLAIM: CircuitBreaker
#[test]
fn late_result_is_discarded() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(build(|config| config.failure_threshold(2)), &clock);
    let mut late: Vec<_> = (0..3).map(|_| breaker.try_acquire().unwrap()).collect();
    trip(&breaker);
    clock.advance(COOLDOWN);
    let probe = breaker.try_acquire().unwrap();
    late.pop().unwrap().failure();
    assert_eq!(breaker.state(), State::HalfOpen);
    late.pop().unwrap().success();
    assert_eq!(breaker.state(), State::HalfOpen);
    drop(late.pop());
    assert!(breaker.try_acquire().is_err(), "a late drop gives no probe back");
    probe.success();
    assert_eq!(breaker.state(), State::Closed);
}

/// A probe that never ends keeps other probes out until the maximum time half-open is over.
#[test]
fn half_open_ends_without_results() {
    let clock = ManualClock::new();
    let breaker = half_open(build(|config| config.failure_threshold(1).max_half_open(secs(60))), &clock);
    let lost = breaker.try_acquire().unwrap();
    clock.advance(micros(59_999_999));
    assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), None);
    clock.advance(micros(1) + secs(60) / 4_096);
    assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), Some(COOLDOWN));
    clock.advance(COOLDOWN);
    let probe = breaker.try_acquire().unwrap();
    lost.failure();
    assert_eq!(breaker.state(), State::HalfOpen, "what was lost is late");
    probe.success();
    assert_eq!(breaker.state(), State::Closed);
}

/// The maximum time half-open is exact to 1/4096, also for short times and at any time of the clock.
#[test]
fn max_half_open_is_exact() {
    for longest in [1, 7, 100, 4_095, 4_097, 5_000, 1_000_000, 86_400_000_000] {
        for start in [0, 1, 4_095, 1_234_567] {
            let clock = ManualClock::new();
            clock.advance(micros(start));
            let config = build(|config| config.failure_threshold(1).max_half_open(micros(longest)));
            let breaker = half_open(config, &clock);
            let _lost = breaker.try_acquire().unwrap();
            clock.advance(micros(longest - 1));
            assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), None, "{longest} µs");
            // The state has ended by then at the latest.
            clock.advance(micros(longest.div_ceil(4_096)));
            assert!(breaker.try_acquire().unwrap_err().retry_after().is_some(), "{longest} µs");
        }
    }
}

/// No call was made for a while, and the probe is still lost.
///
/// (After four times that time, the word's time wraps. Then the state may last that long once more.)
#[test]
fn half_open_ends_however_late_the_next_call() {
    for late in 11..200 {
        let clock = ManualClock::new();
        let breaker = half_open(build(|config| config.failure_threshold(1).max_half_open(secs(10))), &clock);
        let _lost = breaker.try_acquire().unwrap();
        clock.advance(secs(late));
        let is_over = || breaker.try_acquire().unwrap_err().retry_after().is_some();
        if late > 39 && !is_over() {
            clock.advance(secs(11));
        }
        assert!(is_over(), "after {late} s");
    }
}

/// A clock may step back by more than the maximum time half-open.
///
/// Half of the word's range is then in the future.
#[test]
fn half_open_ends_on_a_clock_of_any_skew() {
    for skew in [secs(0), secs(10), secs(20), secs(60)] {
        let clock = Skewed(ManualClock::new(), skew);
        let config = build(|config| config.failure_threshold(1).max_half_open(secs(10)));
        let breaker = CircuitBreaker::with_clock(config, &clock);
        breaker.try_acquire().unwrap().failure();
        clock.0.advance(COOLDOWN);
        let _lost = breaker.try_acquire().unwrap();
        clock.0.advance(secs(9));
        assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), None, "with a skew of {skew:?}");
        clock.0.advance(secs(2));
        assert!(breaker.try_acquire().unwrap_err().retry_after().is_some(), "with a skew of {skew:?}");
    }
}

/// State and status of a breaker that was half-open for too long agree with the next call.
#[test]
fn state_and_status_apply_max_half_open() {
    let clock = ManualClock::new();
    let config = build(|config| config.failure_threshold(1).cooldown_factor(2.0).max_probes(2).max_half_open(secs(10)));
    let breaker = half_open(config, &clock);
    let lost = breaker.try_acquire().unwrap();
    clock.advance(micros(9_999_999));
    assert_eq!((breaker.state(), breaker.status().probes_in_flight()), (State::HalfOpen, 1));
    clock.advance(micros(1) + secs(10) / 4_096);
    for _ in 0..2 {
        let status = breaker.status();
        assert_eq!((breaker.state(), status.state()), (State::Open, State::Open));
        assert_eq!((status.probes_in_flight(), status.next_probe_in()), (0, Some(2 * COOLDOWN)));
        assert_eq!(status.to_string(), "circuit open, next probe in 60 s");
        // Reading changes nothing: the cooldown begins with the next call.
        clock.advance(secs(1));
    }
    assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), Some(2 * COOLDOWN));
    assert_eq!((breaker.state(), breaker.status().next_probe_in()), (State::Open, Some(2 * COOLDOWN)));
    drop(lost);
}

/// The status shows the cooldown with the jitter that a call at that time will get.
#[test]
fn status_shows_the_jittered_cooldown_of_the_next_call() {
    for start in 0..50 {
        let clock = ManualClock::new();
        clock.advance(micros(start));
        let config = build(|config| config.failure_threshold(1).cooldown_jitter(100).max_half_open(secs(10)));
        let breaker = half_open(config, &clock);
        let _lost = breaker.try_acquire().unwrap();
        clock.advance(secs(11));
        let shown = breaker.status().next_probe_in();
        assert!(shown.is_some() && shown == breaker.try_acquire().unwrap_err().retry_after(), "{shown:?}");
    }
}

#[test]
fn expired_half_open_counts_as_failed_probes() {
    let clock = ManualClock::new();
    let config = build(|config| config.failure_threshold(1).cooldown_factor(2.0).max_half_open(millis(10)));
    let breaker = CircuitBreaker::with_clock(config, &clock);
    trip(&breaker);
    let mut lost = Vec::new();
    let mut cooldown = COOLDOWN;
    for _ in 0..5 {
        clock.advance(cooldown);
        lost.push(breaker.try_acquire().unwrap());
        clock.advance(Duration::from_millis(11));
        cooldown *= 2;
        assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), Some(cooldown));
    }
}

/// A probe whose response streams is a success from its head on, in each kind of breaker.
#[test]
fn probe_is_answered_before_its_call_ends() {
    macro_rules! check {
        ($breaker:expr, |$it:ident| $state:expr, $advance:expr) => {{
            let breaker = $breaker;
            let state = || {
                let $it = &breaker;
                $state
            };
            breaker.try_acquire().unwrap().failure();
            $advance;
            let mut probes = [(); 2].map(|()| breaker.try_acquire().unwrap());
            probes[0].probe_answered();
            assert_eq!(state(), State::HalfOpen, "one success of two");
            let [first, mut second] = probes;
            first.failure();
            assert_eq!(state(), State::HalfOpen, "the probe has succeeded already");
            second.probe_answered();
            assert_eq!(state(), State::Closed);
            let mut ordinary = breaker.try_acquire().unwrap();
            ordinary.probe_answered();
            ordinary.ignore();
            second.failure();
            assert_eq!(state(), State::Open, "its body failed in the closed state");
        }};
    }
    let second = Duration::from_secs(1);
    let config = BreakerConfig::builder().failure_threshold(1).cooldown(second).max_probes(2).successes_to_close(2);
    let config = config.build().unwrap();
    let clock = ManualClock::new();
    let breaker = || CircuitBreaker::with_clock(config, &clock);
    check!(breaker(), |breaker| breaker.state(), clock.advance(second));
    let shadowed = Shadowed::new(breaker(), breaker());
    check!(&shadowed, |breakers| breakers.in_force().state(), clock.advance(second));
    assert_eq!(shadowed.candidate().state(), State::Open, "the candidate has heard the same");
    let timer = Timer::<1_000_000>::at(0);
    let breaker = CircuitBreaker32::new(config, &timer).unwrap();
    // The word has few bits for the time, so the cooldown is rounded up.
    check!(breaker, |breaker| breaker.state(), timer.advance(1_100_000));
    #[cfg(target_has_atomic = "64")]
    {
        let word = damper::words::AtomicU64::new(0);
        let breaker = damper::words::WordBreaker::new(&word, &config, &clock).unwrap();
        // Here too.
        check!(breaker, |breaker| breaker.state(), clock.advance(second + second / 10));
    }
}

/// The listener of a change to half-open panics, so no permit exists that would free the probe's place.
#[test]
fn listener_that_panics_leaves_the_place_of_the_probe_free() {
    let clock = ManualClock::new();
    let panics = Cell::new(true);
    let listener =
        |change: StateChange| assert!(change.to() != State::HalfOpen || !panics.get(), "a bug of the listener");
    let config = build(|builder| builder.failure_threshold(1));
    let breaker = CircuitBreaker::with_clock(config, &clock).on_state_change(listener);
    let shadowed = Shadowed::new(
        CircuitBreaker::with_clock(config, &clock),
        CircuitBreaker::with_clock(config, &clock).on_state_change(listener),
    );
    trip(&breaker);
    shadowed.try_acquire().unwrap().failure();
    clock.advance(COOLDOWN);
    catch_unwind(AssertUnwindSafe(|| drop(breaker.try_acquire()))).unwrap_err();
    catch_unwind(AssertUnwindSafe(|| drop(shadowed.try_acquire()))).unwrap_err();
    panics.set(false);
    breaker.try_acquire().unwrap().success();
    assert_eq!(breaker.state(), State::Closed);
    shadowed.try_acquire().unwrap().success();
    assert_eq!([shadowed.in_force().state(), shadowed.candidate().state()], [State::Closed; 2]);
}
