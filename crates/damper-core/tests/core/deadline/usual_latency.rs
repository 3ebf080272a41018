//! The usual latency of a server: the latency of its successes before its failures began.

use damper::ManualClock;
use damper::deadline::UsualLatency;
use std::time::Duration;

const USUAL: Duration = Duration::from_millis(50);

/// Records outcomes 100 ms apart: successes of this latency, and `failures_of_ten` failures in ten.
fn record(
    clock: &ManualClock,
    latency: &UsualLatency<&ManualClock>,
    outcomes: u32,
    took: Duration,
    failures_of_ten: u32,
) {
    for number in 0..outcomes {
        clock.advance(Duration::from_millis(100));
        if number % 10 < failures_of_ten { latency.record_failure() } else { latency.record_success(took) }
    }
}

#[test]
fn ten_successes_are_enough() {
    let clock = ManualClock::new();
    let latency = UsualLatency::with_clock(&clock);
    assert_eq!((latency.p90(), latency.enough_time()), (None, Duration::from_millis(900)));
    for longest in 1..10 {
        latency.record_success(USUAL * longest);
        assert_eq!((latency.p90(), latency.enough_time()), (None, USUAL * longest));
    }
    latency.record_success(USUAL);
    assert_eq!((latency.p90(), latency.enough_time()), (Some(USUAL * 9), USUAL * 9));
    record(&clock, &latency, 1_000, USUAL, 0);
    assert_eq!(latency.enough_time(), USUAL);
}

/// The successes of a server that fails from the start say nothing.
#[test]
fn failing_first_window_leaves_it_unknown() {
    let clock = ManualClock::new();
    let latency = UsualLatency::with_clock(&clock);
    record(&clock, &latency, 1_060, Duration::from_secs(9), 5);
    clock.advance(Duration::from_secs(60));
    latency.record_failure();
    assert_eq!((latency.p90(), latency.enough_time()), (None, Duration::from_millis(900)));
}

/// After an outage the first successes are often slow, for example because caches are empty.
#[test]
fn first_success_after_an_outage_does_not_replace_the_usual_latency() {
    let clock = ManualClock::new();
    let latency = UsualLatency::with_clock(&clock);
    record(&clock, &latency, 1_000, USUAL, 0);
    record(&clock, &latency, 1_000, USUAL, 10);
    latency.record_success(USUAL * 100);
    record(&clock, &latency, 99, USUAL, 0);
    clock.advance(Duration::from_secs(60));
    latency.record_success(USUAL);
    let now = latency.p90().unwrap();
    assert!(now < USUAL * 2, "{now:?} after the outage");
}

/// A percentile that was measured before a restart moves by small steps, as one that was measured here.
#[test]
fn first_success_does_not_replace_the_initial_percentile() {
    let clock = ManualClock::new();
    let latency = UsualLatency::with_clock(&clock).starting_with(USUAL);
    assert_eq!(latency.p90(), Some(USUAL));
    latency.record_success(USUAL * 100);
    record(&clock, &latency, 99, USUAL, 0);
    clock.advance(Duration::from_secs(60));
    latency.record_success(USUAL);
    let now = latency.p90().unwrap();
    assert!(now < USUAL * 2, "{now:?} after the restart");
}

/// While more than a tenth of the calls fail, no success counts, fast or slow.
#[test]
fn failures_freeze_the_usual_latency() {
    for during in [Duration::from_millis(1), Duration::from_secs(9)] {
        let clock = ManualClock::new();
        let latency = UsualLatency::with_clock(&clock);
        record(&clock, &latency, 1_000, USUAL, 0);
        assert_eq!(latency.p90(), Some(USUAL));
        record(&clock, &latency, 10_000, during, 5);
        assert_eq!(latency.p90(), Some(USUAL), "successes took {during:?} meanwhile");
        // The server has recovered, with the other latency.
        record(&clock, &latency, 5_000, during, 0);
        let now = latency.p90().unwrap();
        assert!(now >= during.mul_f64(0.9) && now <= during.mul_f64(1.1), "{now:?}");
    }
}

#[test]
fn one_failure_of_ten_is_no_outage() {
    let clock = ManualClock::new();
    let latency = UsualLatency::with_clock(&clock);
    record(&clock, &latency, 1_000, USUAL, 1);
    assert_eq!(latency.p90(), Some(USUAL));
}

/// Nineteen of twenty successes take 10 ms, and one takes a second.
#[test]
fn rare_slow_successes_are_above_it() {
    let clock = ManualClock::new();
    let latency = UsualLatency::with_clock(&clock);
    for number in 0..3_000 {
        clock.advance(Duration::from_millis(100));
        latency.record_success(Duration::from_millis(if number % 20 == 0 { 1_000 } else { 10 }));
    }
    let p90 = latency.p90().unwrap();
    assert!((Duration::from_millis(10)..Duration::from_millis(30)).contains(&p90), "{p90:?}");
}

/// A cache or a sidecar responds within tens of microseconds, after a slow start.
#[test]
fn usual_latency_falls_to_that_of_a_fast_server() {
    for micros in [50, 100, 200, 300] {
        let clock = ManualClock::new();
        let latency = UsualLatency::with_clock(&clock);
        record(&clock, &latency, 200, Duration::from_millis(5), 0);
        record(&clock, &latency, 20_000, Duration::from_micros(micros), 0);
        assert_eq!(latency.p90(), Some(Duration::from_micros(micros)));
    }
}

/// Latencies from 1 to 100 µs, equally frequent, in a scattered order.
#[test]
fn a_tenth_of_fast_successes_is_above_the_usual_latency() {
    let clock = ManualClock::new();
    let latency = UsualLatency::with_clock(&clock);
    for number in 0..20_000u64 {
        clock.advance(Duration::from_millis(10));
        latency.record_success(Duration::from_micros(number * 37 % 100 + 1));
    }
    let p90 = latency.p90().unwrap();
    assert!((Duration::from_micros(84)..Duration::from_micros(97)).contains(&p90), "{p90:?}");
}
