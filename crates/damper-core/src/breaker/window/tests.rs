//! Tests of windows over thousands of generations.

use super::outcome_ring::{OutcomeRing, RingShape};
use super::time_buckets::{BucketLayout, BucketsShape, TimeBuckets};
use super::{CallTimes, Outcome, Window};
use crate::breaker::State;
use crate::breaker::state_word::Generation;
use crate::{BreakerConfig, CircuitBreaker, ManualClock};
use core::time::Duration;

/// A window works again after any number of generations.
///
/// While probes of a breaker fail, the breaker goes through generations and its window through none.
#[test]
fn window_works_after_any_number_of_probes() {
    let windows = [Window::last_calls(20), Window::last_calls(100), Window::last(Duration::from_secs(1))];
    for (window, probes) in windows.into_iter().flat_map(|window| [1_000, 2_100, 3_000].map(|probes| (window, probes)))
    {
        let clock = ManualClock::new();
        let config = BreakerConfig::builder()
            .failure_threshold(u32::MAX)
            .failure_rate(50)
            .window(window)
            .minimum_calls(4)
            .cooldown(Duration::from_millis(1))
            .build()
            .unwrap();
        let breaker = CircuitBreaker::with_clock(config, &clock);
        let fail = || breaker.try_acquire().unwrap().failure();
        (0..4).for_each(|_| fail());
        for _ in 0..probes {
            assert_eq!(breaker.state(), State::Open);
            clock.advance(Duration::from_millis(1));
            fail();
        }
        clock.advance(Duration::from_millis(1));
        breaker.try_acquire().unwrap().success();
        assert_eq!(breaker.state(), State::Closed);
        (0..4).for_each(|_| fail());
        assert_eq!(breaker.state(), State::Open, "{window:?} after {probes} probes");
    }
}

/// A word of the ring that was not written for 1,024 laps is not taken for one of this lap.
#[test]
fn ring_is_exact_after_its_laps_wrap() {
    const CALLS: u32 = 40;
    let shape = RingShape { calls: CALLS, width: 1 };
    let ring = OutcomeRing::new(shape);
    let record = |generation: u64, failed: bool| {
        ring.record(shape, Generation::from_bits(generation), || true, Outcome { failed, slow: false }).unwrap()
    };
    // The second word is written in the first lap.
    (0..=CALLS).for_each(|_| _ = record(0, true));
    for generation in 1..1_024 {
        record(generation, false);
    }
    // In the lap 1,024.
    for _ in 1..CALLS {
        assert_eq!(record(1_023, false).failed, 0);
    }
    for calls in 0..3 * CALLS {
        assert_eq!(record(1_023, false).failed, 0, "after {calls} successes");
    }
}

/// A late call does not clear a bucket that was reused for a later time.
#[test]
fn late_call_leaves_newer_buckets_intact() {
    let shape = BucketsShape { length: 1_000, buckets: 10, base: 0, layout: BucketLayout::new(false) };
    let buckets = TimeBuckets::new(shape.buckets);
    let record = |times: &[u64]| {
        let times = core::cell::RefCell::new(times.iter());
        let call = || {
            let ended = *times.borrow_mut().next().unwrap();
            (Outcome { failed: true, slow: false }, CallTimes { began: ended, ended })
        };
        buckets.record(shape, Generation::from_bits(0), || true, call)
    };
    for calls in 1..=3 {
        assert_eq!(record(&[500_000]).unwrap().calls, calls);
    }
    // The call read the clock, was stopped, and learns at its next reading that it is late.
    assert_eq!(record(&[400_000, 500_000]).unwrap().calls, 0);
    assert_eq!(record(&[500_000]).unwrap().calls, 4);
    // A bucket that is ahead of the clock is an old one.
    assert_eq!(record(&[400_000, 400_000]).unwrap().calls, 1);
}
