//! The rules, window by window.

use super::{Aimd, Gradient2, LimitBounds, LimitRule, ProbedGradient, Vegas, WindowPlan, WindowSummary};
use core::time::Duration;
use std::vec::Vec;

const MS: f64 = 1_000.0;

/// A window of 50 calls of so many microseconds each, and half a second.
fn window(peak: u32, micros: f64) -> WindowSummary {
    WindowSummary {
        successes: 50,
        overloaded: 0,
        log2_latency: Some(micros.log2()),
        peak_in_flight: peak,
        in_flight: peak,
        length: Duration::from_millis(500),
        since_plan: Duration::from_millis(500),
    }
}

/// As [`window`], of as many calls as a probe wants.
fn probe_window(peak: u32, micros: f64) -> WindowSummary {
    WindowSummary { successes: 100, ..window(peak, micros) }
}

/// A rule that has learnt a latency of 10 ms at a few calls in flight.
fn taught() -> ProbedGradient {
    let mut rule = ProbedGradient::new(LimitBounds::DEFAULT);
    rule.next(&window(5, 10.0 * MS));
    rule
}

fn baseline_ms(rule: &impl LimitRule) -> f64 {
    rule.baseline().unwrap().as_secs_f64() * 1_000.0
}

fn assert_close(one: f64, other: f64) {
    assert!((one / other - 1.0).abs() < 1e-6, "{one} is not {other}");
}

/// Full windows of this latency until the rule begins a probe; the probe's plan.
fn until_probe(rule: &mut ProbedGradient, micros: f64) -> WindowPlan {
    let mut limit = rule.first().limit;
    for _ in 0..1_000 {
        let plan = rule.next(&window(limit, micros));
        if plan.samples == 100 {
            return plan;
        }
        limit = plan.limit;
    }
    panic!("no probe in 1,000 windows");
}

#[test]
fn only_a_full_window_changes_the_limit() {
    let limit_after = |summary| taught().next(&summary).limit;
    assert_eq!(limit_after(window(19, 1.0 * MS)), 20, "fast, but one below the limit");
    assert_eq!(limit_after(window(19, 90.0 * MS)), 20, "slow, but one below the limit");
    let failing = WindowSummary { overloaded: 50, ..window(19, 10.0 * MS) };
    assert_eq!(limit_after(failing), 20, "failing, but one below the limit");
    assert_eq!(limit_after(window(20, 9.9 * MS)), 28, "full: 1.4 times");
}

#[test]
fn steps_are_bounded_and_gentle_near_the_target() {
    let step = |latency: f64| taught().next(&window(20, latency * MS)).limit;
    assert_eq!(step(1.0), 30, "at most 1.5 times");
    assert_eq!(step(13.9), 20, "at the target");
    assert_eq!(step(16.8), 18, "1 / 1.2, of which the root");
    assert_eq!(step(25.0), 11, "14 / 25, without the root");
}

#[test]
fn a_large_change_skips_the_calls_in_flight() {
    let mut rule = taught();
    let plan = rule.next(&WindowSummary { in_flight: 17, ..window(20, 9.9 * MS) });
    assert_eq!((plan.limit, plan.skip, plan.samples), (28, 17, 50));
    let plan = rule.next(&window(28, 13.9 * MS));
    assert_eq!((plan.limit, plan.skip), (28, 0));
}

#[test]
fn overload_lowers_a_full_limit_once_a_window() {
    let mut rule = taught();
    let failing = WindowSummary { successes: 44, overloaded: 6, ..window(20, 5.0 * MS) };
    assert_eq!(rule.next(&failing).limit, 18);
    let tolerable = WindowSummary { successes: 45, overloaded: 5, ..window(18, 14.0 * MS) };
    assert_eq!(rule.next(&tolerable).limit, 18, "a tenth is not more than a tenth");
    let only_overloaded = WindowSummary { successes: 0, overloaded: 50, log2_latency: None, ..window(18, 1.0) };
    assert_eq!(rule.next(&only_overloaded).limit, 16);
}

#[test]
fn baseline_is_learnt_at_half_of_the_limit_and_below() {
    let mut rule = taught();
    assert_close(baseline_ms(&rule), 10.0);
    rule.next(&window(10, 20.0 * MS));
    assert_close(baseline_ms(&rule), 10f64.powf(0.8) * 20f64.powf(0.2));
    let before = baseline_ms(&rule);
    rule.next(&window(11, 500.0 * MS));
    assert_close(baseline_ms(&rule), before);
}

#[test]
fn two_low_readings_lower_the_baseline_to_the_higher_one() {
    let mut rule = taught();
    rule.next(&window(15, 5.0 * MS));
    rule.next(&window(15, 10.0 * MS));
    rule.next(&window(15, 5.0 * MS));
    assert_close(baseline_ms(&rule), 10.0);
    rule.next(&window(15, 6.0 * MS));
    assert_close(baseline_ms(&rule), 6.0);
}

#[test]
fn first_full_window_of_a_life_is_thrown_away() {
    let mut rule = ProbedGradient::new(LimitBounds::DEFAULT);
    let start = WindowSummary { since_plan: Duration::from_secs(9), ..window(20, 900.0 * MS) };
    assert_eq!(rule.next(&start).samples, 50, "no probe yet, though nothing is learnt for long");
    assert_eq!(rule.next(&window(20, 10.0 * MS)).samples, 100, "the next one is the reading before a probe");
}

#[test]
fn a_probe_halves_the_limit_and_is_confirmed_by_the_baseline() {
    let mut rule = taught();
    let plan = until_probe(&mut rule, 14.0 * MS);
    assert_eq!((plan.limit, plan.skip, plan.length), (10, 20, Duration::from_millis(500)));
    let plan = rule.next(&probe_window(10, 12.0 * MS));
    assert_eq!((plan.limit, plan.samples), (20, 50));
    assert_close(baseline_ms(&rule), 120f64.sqrt());
}

#[test]
fn interval_of_probes_doubles_up_to_half_a_minute() {
    let mut rule = taught();
    let mut lengths = Vec::new();
    for _ in 0..7 {
        let mut windows = 1;
        while rule.next(&window(20, 14.0 * MS)).samples != 100 {
            windows += 1;
        }
        lengths.push(windows / 2);
        rule.next(&probe_window(10, 10.0 * MS));
    }
    assert_eq!(lengths, [2, 4, 8, 16, 30, 30, 30]);
}

#[test]
fn a_queue_is_found_by_halving_and_a_slower_release_is_not() {
    // Latency follows the limit: there is a queue in front of four workers.
    let queue = |limit: u32| 10.0 * MS * f64::from(limit.max(4)) / 4.0;
    let mut rule = ProbedGradient::new(LimitBounds::DEFAULT);
    rule.next(&window(20, queue(20)));
    let mut plan = until_probe(&mut rule, queue(20));
    let mut limits = std::vec![plan.limit];
    while plan.samples == 100 {
        plan = rule.next(&probe_window(plan.limit, queue(plan.limit)));
        limits.push(plan.limit);
    }
    assert_eq!(limits, [10, 5, 2, 5], "25, 12.5 and 10 ms, and then the share of 20 that 1.4 · 10 ms of 50 ms leave");
    assert_close(baseline_ms(&rule), 10.0);

    // Three times slower, whatever the limit.
    let mut rule = taught();
    let mut plan = until_probe(&mut rule, 30.0 * MS);
    while plan.samples == 100 {
        plan = rule.next(&probe_window(plan.limit, 30.0 * MS));
    }
    assert_eq!(plan.limit, 10, "as before the probe, which began after a fall to half");
    assert_close(baseline_ms(&rule), 30.0);
    assert_eq!(rule.next(&window(10, 29.9 * MS)).limit, 14, "and it grows");
}

#[test]
fn a_fall_below_half_of_the_highest_limit_is_checked_at_once() {
    let mut rule = taught();
    let plan = rule.next(&window(20, 100.0 * MS));
    assert_eq!((plan.limit, plan.samples), (10, 50), "half, and no more than that is checked");
    let plan = rule.next(&window(10, 100.0 * MS));
    assert_eq!((plan.limit, plan.samples), (5, 100));
}

/// For otherwise a probe under a polluted baseline would confirm it.
#[test]
fn every_probe_shrinks_a_polluted_baseline() {
    // One worker that takes 10 ms, and a baseline of 50 times that.
    let latency = |limit: u32| 10.0 * MS * f64::from(limit);
    let mut rule = ProbedGradient::new(LimitBounds::DEFAULT);
    rule.next(&window(1, 500.0 * MS));
    let mut limit = 20;
    let mut before = baseline_ms(&rule);
    let mut probes = 0;
    while before > 20.0 {
        let plan = rule.next(&probe_window(limit, latency(limit)));
        let is_over = plan.samples == 50;
        limit = plan.limit;
        if is_over && baseline_ms(&rule) < before {
            before = baseline_ms(&rule);
            probes = 0;
        }
        probes += 1;
        assert!(probes < 200, "it sticks at {before} ms");
    }
}

#[test]
fn probe_without_refusals_is_abandoned() {
    let mut rule = taught();
    let plan = until_probe(&mut rule, 14.0 * MS);
    assert_eq!(plan.unless_full, Some(Duration::from_secs(60)));
    let few = WindowSummary { successes: 7, ..window(3, 12.0 * MS) };
    assert_eq!(rule.next(&few).limit, 20);
    assert_close(baseline_ms(&rule), 10.0);
}

/// Calls of any latency, or none, window after window.
fn stays_in(bounds: LimitBounds, mut rule: impl LimitRule) {
    let mut limit = rule.first().limit;
    let mut random = 1u64;
    for _ in 0..20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let dice = random >> 33;
        let summary = WindowSummary {
            successes: if dice.is_multiple_of(7) { 0 } else { 100 },
            overloaded: if dice.is_multiple_of(5) { 90 } else { 0 },
            log2_latency: (!dice.is_multiple_of(7)).then_some(f64::from((dice % 6_400) as u32) / 100.0),
            peak_in_flight: if dice.is_multiple_of(3) { limit / 3 } else { limit },
            ..window(limit, 1.0)
        };
        let plan = rule.next(&summary);
        assert!((bounds.min()..=bounds.max()).contains(&plan.limit), "{plan:?} after {summary:?}");
        limit = plan.limit;
    }
}

#[test]
fn limits_stay_in_their_bounds_whatever_happens() {
    let bounds = LimitBounds::new(3, 50).unwrap();
    stays_in(bounds, ProbedGradient::new(bounds));
    stays_in(bounds, Aimd::new(bounds));
    stays_in(bounds, Vegas::new(bounds));
    stays_in(bounds, Gradient2::new(bounds));
}

#[test]
fn aimd_adds_one_and_takes_a_tenth() {
    let mut rule = Aimd::new(LimitBounds::DEFAULT);
    assert_eq!(rule.next(&window(10, MS)).limit, 21, "half of it was in flight");
    assert_eq!(rule.next(&window(10, MS)).limit, 21, "less than half");
    let plan = rule.next(&WindowSummary { overloaded: 1, ..window(21, MS) });
    assert_eq!((plan.limit, plan.skip, plan.samples), (18, 21, 18));
}

/// A service of so many workers that take 10 ms, under a lasting overload; the limit after a while.
fn settled(mut rule: impl LimitRule, workers: u32) -> (u32, f64) {
    let mut limit = rule.first().limit;
    for _ in 0..5_000 {
        let plan = rule.next(&window(limit, 10.0 * MS * f64::from(limit.max(workers)) / f64::from(workers)));
        limit = plan.limit;
    }
    (limit, baseline_ms(&rule))
}

#[test]
fn vegas_and_gradient2_settle_under_a_lasting_overload() {
    for workers in [4, 50, 200] {
        for (limit, baseline) in
            [settled(Vegas::new(LimitBounds::DEFAULT), workers), settled(Gradient2::new(LimitBounds::DEFAULT), workers)]
        {
            assert!((9.9..10.5).contains(&baseline), "{baseline} ms with {workers} workers");
            assert!((workers / 3..workers * 2 + 16).contains(&limit), "{limit} with {workers} workers");
        }
    }
}
