//! Whether a server trusts deadlines that have expired on arrival.

use crate::models::part_of::part_of;
use damper::deadline::{Arrival, SkewGuard};
use damper::{Deadline, ManualClock};
use proptest::prelude::*;
use std::time::Duration;

const WINDOW: u64 = 10_000;

/// A deadline that has expired, or one that never does.
fn deadline(is_expired: bool) -> Deadline {
    if is_expired { Deadline::after(Duration::ZERO) } else { Deadline::NEVER }
}

/// All requests, counted anew for each decision.
#[derive(Default)]
struct Model {
    /// The time of each request in milliseconds, and whether it was refused.
    requests: Vec<(u64, bool)>,
}

impl Model {
    /// Returns the requests and the refusals of a window.
    fn counts(&self, window: u64) -> (u64, u64) {
        let requests = self.requests.iter().filter(|(at, _)| at / WINDOW == window);
        requests.fold((0, 0), |(requests, refused), (_, is_refused)| (requests + 1, refused + u64::from(*is_refused)))
    }

    fn arrived(&mut self, at: u64, is_expired: bool) -> &'static str {
        let window = at / WINDOW;
        let (now, now_refused) = self.counts(window);
        let (before, before_refused) = window.checked_sub(1).map_or((0, 0), |before| self.counts(before));
        let part = WINDOW - at % WINDOW;
        let requests = (now + 1) * WINDOW + before * part;
        let refused = (now_refused + 1) * WINDOW + before_refused * part;
        let may_refuse = requests < 50 * WINDOW || refused * 5 <= requests;
        self.requests.push((at, is_expired && may_refuse));
        match (is_expired, may_refuse) {
            (false, _) => "in time",
            (true, true) => "refused",
            (true, false) => "served",
        }
    }
}

fn name(arrival: Arrival) -> &'static str {
    match arrival {
        Arrival::InTime => "in time",
        Arrival::Expired(_) => "refused",
        Arrival::Skewed => "served",
    }
}

proptest! {
    #[test]
    fn decisions_are_those_of_exact_counts(
        requests in prop::collection::vec((0_u64..200, 0_u32..100), 1..1_500),
        expired_percent in 0_u32..=100,
        pace in 0_u64..=3,
    ) {
        let (clock, mut model) = (ManualClock::new(), Model::default());
        let guard = SkewGuard::with_clock(&clock);
        let (mut at, mut served) = (0, 0);
        for (step, draw) in requests {
            let step = step * pace;
            clock.advance(Duration::from_millis(step));
            at += step;
            let expected = model.arrived(at, draw < expired_percent);
            prop_assert_eq!(name(guard.arrived(&deadline(draw < expired_percent))), expected, "at {} ms", at);
            served += u64::from(expected == "served");
        }
        prop_assert_eq!(guard.served_expired(), served);
        for window in 0..=at / WINDOW {
            let (requests, refused) = model.counts(window);
            let before = window.checked_sub(1).map_or(0, |before| model.counts(before).0);
            prop_assert!(refused <= 49.max((requests + before) / 5), "window {window}: {refused} of {requests} and {before}");
        }
    }
}

#[test]
fn few_requests_are_refused_as_they_arrive() {
    let clock = ManualClock::new();
    let guard = SkewGuard::with_clock(&clock);
    for _ in 0..49 {
        assert_eq!(name(guard.arrived(&deadline(true))), "refused");
    }
    assert_eq!(name(guard.arrived(&deadline(true))), "served", "the fiftieth in 10 s");
    // The counts are forgotten.
    clock.advance(Duration::from_secs(20));
    assert_eq!(name(guard.arrived(&deadline(true))), "refused");
}

/// The clock of one thread may be behind another's.
#[test]
fn counts_stay_when_the_clock_steps_back_a_little() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(100));
    let guard = SkewGuard::with_clock(&clock);
    for _ in 0..50 {
        _ = guard.arrived(&deadline(true));
    }
    clock.step_back(Duration::from_secs(20));
    assert_eq!(name(guard.arrived(&deadline(true))), "served");
}

/// Simulates a day of a server with 5 to 50 requests a second and a clock ahead by `skew`.
///
/// Each request takes 20 ms on its way, one in 200 waits 3 s in a queue, and its client allows 2 s. Returns two shares,
/// in percent of the requests in time from clients with that clock: those refused without a guard, and those refused
/// with one.
fn day(skew: Duration, skewed_percent: u64) -> (f64, f64) {
    const TIMEOUT: Duration = Duration::from_secs(2);
    let clock = ManualClock::new();
    let guard = SkewGuard::with_clock(&clock);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let (mut innocent, mut without, mut with) = (0_u32, 0_u32, 0_u32);
    // A shorter day has the same hours.
    let noon = u64::from(part_of(43_200));
    for second in 0..2 * noon {
        // Few requests at night, many at noon.
        let requests = 5 + 45 * (noon - noon.abs_diff(second)) / noon;
        for _ in 0..requests {
            clock.advance(Duration::from_nanos(1_000_000_000 / requests));
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let draw = random >> 33;
            let waited = if draw.is_multiple_of(200) { Duration::from_secs(3) } else { Duration::from_millis(20) };
            let is_skewed = draw / 200 % 100 < skewed_percent;
            let ahead = if is_skewed { skew } else { Duration::ZERO };
            let is_expired = waited + ahead >= TIMEOUT;
            let is_refused = matches!(guard.arrived(&deadline(is_expired)), Arrival::Expired(_));
            if is_skewed && waited < TIMEOUT {
                innocent += 1;
                without += u32::from(is_expired);
                with += u32::from(is_refused);
            }
        }
    }
    (f64::from(without) * 100.0 / f64::from(innocent), f64::from(with) * 100.0 / f64::from(innocent))
}

#[test]
fn day_with_clocks_apart_serves_four_of_five() {
    for (skew, percent, unguarded, guarded) in [
        (0, 100, 0.0..=0.0, 0.0..=0.0),
        (1, 100, 0.0..=0.0, 0.0..=0.0),
        (3, 100, 100.0..=100.0, 15.0..=21.0),
        (30, 100, 100.0..=100.0, 15.0..=21.0),
        (3, 50, 100.0..=100.0, 30.0..=41.0),
        // Too few requests to be noticed.
        (3, 10, 100.0..=100.0, 90.0..=100.0),
    ] {
        let (without, with) = day(Duration::from_secs(skew), percent);
        println!("{skew} s apart for {percent} % of clients: {without:.1} % refused without a guard, {with:.1} % with");
        assert!(unguarded.contains(&without) && guarded.contains(&with), "{skew} s, {percent} %: {without}, {with}");
    }
}
