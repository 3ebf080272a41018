//! Tests of the rules, window by window.

use super::{BoundedRule, LimitBounds, LimitRule, ProbedGradient, WindowPlan, WindowSummary};
use crate::concurrency::compared::{Aimd, Gradient2, Vegas};
use core::time::Duration;
use std::vec::Vec;

const MS: f64 = 1_000.0;

/// A window of 100 calls of `micros` microseconds each, and half a second.
fn window(peak: u32, micros: f64) -> WindowSummary {
    WindowSummary {
        successes: 100,
        overloaded: 0,
        log2_latency: Some(micros.log2()),
        peak_in_flight: peak,
        in_flight: peak,
        length: Duration::from_millis(500),
        since_plan: Duration::from_millis(500),
    }
}

/// A rule that has learned a latency of 10 ms at a few calls in flight.
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

fn is_probe(plan: WindowPlan) -> bool {
    plan.unless_full.is_some()
}

/// Makes full windows of this latency until the rule begins a probe, and returns the probe's plan.
fn until_probe(rule: &mut ProbedGradient, micros: f64) -> WindowPlan {
    let mut limit = rule.first().limit;
    for _ in 0..1_000 {
        let plan = rule.next(&window(limit, micros));
        if is_probe(plan) {
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
    assert_eq!(limit_after(window(20, 10.0 * MS)), 23, "full: the root of 1.4");
}

#[test]
fn limit_follows_the_root_of_the_latency() {
    let step = |latency: f64| taught().next(&window(20, latency * MS)).limit;
    assert_eq!(step(7.2), 27, "the root of 1.96, nearly");
    assert_eq!(step(13.9), 20, "at the target");
    assert_eq!(step(16.8), 18, "the root of 1 / 1.2");
    assert_eq!(step(22.9), 15, "the root of 14 / 23, nearly");
}

#[test]
fn reading_that_contradicts_the_baseline_is_checked_by_another_before_a_probe() {
    for latency in [7.1, 1.0, 23.1, 90.0] {
        let mut rule = taught();
        let plan = rule.next(&window(20, latency * MS));
        assert_eq!((plan.limit, is_probe(plan)), (20, false), "{latency} ms: wait for the next reading");
        let mut other = rule;
        let plan = rule.next(&window(20, latency * MS));
        assert_eq!((plan.limit, is_probe(plan)), (10, true), "{latency} ms again");
        let plan = other.next(&window(20, 14.0 * MS));
        assert_eq!((plan.limit, is_probe(plan)), (20, false), "it was chance");
        assert!(!is_probe(other.next(&window(20, latency * MS))), "not in succession");
    }
}

#[test]
fn a_large_change_skips_the_calls_in_flight() {
    let mut rule = taught();
    let plan = rule.next(&WindowSummary { in_flight: 17, ..window(20, 10.0 * MS) });
    assert_eq!((plan.limit, plan.skip, plan.samples), (23, 17, 100));
    let plan = rule.next(&window(23, 13.9 * MS));
    assert_eq!((plan.limit, plan.skip), (23, 0));
}

#[test]
fn overload_lowers_a_full_limit_once_a_window() {
    let mut rule = taught();
    let failing = WindowSummary { successes: 88, overloaded: 12, ..window(20, 10.0 * MS) };
    assert_eq!(rule.next(&failing).limit, 18);
    let tolerable = WindowSummary { successes: 90, overloaded: 10, ..window(18, 14.0 * MS) };
    assert_eq!(rule.next(&tolerable).limit, 18, "a tenth is not more than a tenth");
    let only_overloaded = WindowSummary { successes: 0, overloaded: 100, log2_latency: None, ..window(18, 1.0) };
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
fn first_full_window_of_a_life_is_thrown_away() {
    let mut rule = ProbedGradient::new(LimitBounds::DEFAULT);
    let start = WindowSummary { since_plan: Duration::from_secs(9), ..window(20, 900.0 * MS) };
    assert!(!is_probe(rule.next(&start)), "no probe yet, though nothing is learnt for long");
    assert!(is_probe(rule.next(&window(20, 10.0 * MS))), "the next one is the reading before a probe");
}

#[test]
fn a_probe_halves_the_limit_and_is_confirmed_by_the_baseline() {
    let mut rule = taught();
    let plan = until_probe(&mut rule, 14.0 * MS);
    assert_eq!((plan.limit, plan.skip, plan.length), (10, 20, Duration::from_millis(500)));
    let plan = rule.next(&window(10, 12.0 * MS));
    assert_eq!((plan.limit, is_probe(plan)), (20, false));
    assert_close(baseline_ms(&rule), 120f64.sqrt());
}

/// A reading below the baseline by more than 1.2, but within 1.4, is in doubt.
///
/// It may be chance, or the baseline may have been that of a queue.
#[test]
fn low_reading_of_a_probe_is_checked_by_the_next_probe_soon() {
    let windows_until_next_probe = |latency: f64| {
        let mut rule = taught();
        for _ in 0..2 {
            until_probe(&mut rule, 14.0 * MS);
            rule.next(&window(10, 10.0 * MS));
        }
        until_probe(&mut rule, 14.0 * MS);
        let before = baseline_ms(&rule);
        rule.next(&window(10, latency * MS));
        assert_close(baseline_ms(&rule), (before * latency).sqrt());
        let at_target = window(rule.first().limit, baseline_ms(&rule) * 1.4 * MS);
        (1..100).find(|_| is_probe(rule.next(&at_target)))
    };
    assert_eq!(windows_until_next_probe(8.4), Some(32), "16 s, doubled twice and once more");
    assert_eq!(windows_until_next_probe(8.2), Some(4), "2 s");
}

/// An outage in which a cache answers one call of a hundred.
#[test]
fn few_successes_among_overloaded_calls_are_no_reading() {
    let cache = |peak: u32| WindowSummary { successes: 1, overloaded: 99, ..window(peak, MS) };
    let mut rule = taught();
    let mut limit = 20;
    for lower in [18, 16, 14, 13] {
        let plan = rule.next(&cache(limit));
        assert_eq!((plan.limit, is_probe(plan)), (lower, false));
        limit = plan.limit;
    }
    rule.next(&cache(3));
    assert_close(baseline_ms(&rule), 10.0);

    let mut rule = taught();
    until_probe(&mut rule, 14.0 * MS);
    let plan = rule.next(&cache(10));
    assert_eq!((plan.limit, is_probe(plan)), (18, false), "the probe is dropped, and takes a tenth off");
    assert_close(baseline_ms(&rule), 10.0);
}

#[test]
fn interval_of_probes_doubles_up_to_half_a_minute() {
    let mut rule = taught();
    let mut lengths = Vec::new();
    for _ in 0..7 {
        let mut windows = 1;
        while !is_probe(rule.next(&window(20, 14.0 * MS))) {
            windows += 1;
        }
        lengths.push(windows / 2);
        rule.next(&window(10, 10.0 * MS));
    }
    assert_eq!(lengths, [2, 4, 8, 16, 30, 30, 30]);
}

/// Returns the limits of a probe and of the next one, at this latency.
fn probed(rule: &mut ProbedGradient, latency: impl Fn(u32) -> f64) -> Vec<u32> {
    let mut plan = until_probe(rule, latency(20));
    let mut limits = std::vec![plan.limit];
    while is_probe(plan) {
        plan = rule.next(&window(plan.limit, latency(plan.limit)));
        limits.push(plan.limit);
    }
    limits
}

#[test]
fn a_queue_is_found_by_halving_and_a_slower_release_is_not() {
    // Latency follows the limit: there is a queue in front of four workers.
    let queue = |limit: u32| 10.0 * MS * f64::from(limit.max(4)) / 4.0;
    let mut rule = ProbedGradient::new(LimitBounds::DEFAULT);
    rule.next(&window(20, queue(20)));
    let limits = probed(&mut rule, queue);
    assert_eq!(limits, [10, 5, 2, 5], "25, 12.5 and 10 ms, and then the share of 20 that 1.4 · 10 ms of 50 ms leave");
    assert_close(baseline_ms(&rule), 10.0);

    // Three times slower, or faster, whatever the limit.
    for latency in [30.0, 3.0] {
        let mut rule = taught();
        assert_eq!(probed(&mut rule, |_| latency * MS), [10, 20], "the same latency at half of the limit");
        assert_close(baseline_ms(&rule), latency);
        assert_eq!(rule.next(&window(20, latency * MS)).limit, 23, "and it grows");
    }
}

/// A baseline that was measured at the lowest bound would be that of a queue.
#[test]
fn probes_go_below_the_lowest_limit() {
    let bounds = LimitBounds::new(20, 400).unwrap();
    let queue = |limit: u32| 10.0 * MS * f64::from(limit.max(4)) / 4.0;
    let mut rule = ProbedGradient::new(bounds);
    rule.next(&window(20, queue(20)));
    assert_eq!(probed(&mut rule, queue), [10, 5, 2, 20]);
    assert_close(baseline_ms(&rule), 10.0);
    for (_, baseline) in [settled(Vegas::new(bounds), 4), settled(Gradient2::new(bounds), 4)] {
        assert!(baseline < 16.0, "{baseline} ms, and not the 50 ms of the lowest limit");
    }
}

#[test]
fn a_fall_below_half_of_the_highest_limit_is_checked_at_once() {
    let mut rule = taught();
    for _ in 0..4 {
        until_probe(&mut rule, 14.0 * MS);
        rule.next(&window(10, 10.0 * MS));
    }
    // 18 ms are 1.8 times the baseline, and the limit falls by the root of 1.4 / 1.8 each time.
    let mut limits = std::vec![20];
    let plan = loop {
        let plan = rule.next(&window(*limits.last().unwrap(), 18.0 * MS));
        if is_probe(plan) {
            break plan;
        }
        limits.push(plan.limit);
    };
    assert_eq!((limits.as_slice(), plan.limit), ([20, 17, 15, 13, 12, 10].as_slice(), 5));
}

/// Windows in which all calls are overloaded have no latency.
#[test]
fn a_measurement_without_a_latency_is_not_taken_for_the_next_window() {
    let mut rule = Vegas::new(LimitBounds::DEFAULT);
    let plan = rule.next(&window(20, 10.0 * MS));
    assert_eq!(plan.limit, 13, "a third of the limit, to measure");
    rule.next(&WindowSummary { successes: 0, overloaded: 100, log2_latency: None, ..window(13, 1.0) });
    rule.next(&window(40, 500.0 * MS));
    assert_close(baseline_ms(&rule), 10.0);
}

/// Otherwise a probe under a polluted baseline would confirm it.
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
        let plan = rule.next(&window(limit, latency(limit)));
        let is_over = !is_probe(plan);
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

#[test]
fn next_probe_after_an_abandoned_one_comes_after_another_interval() {
    let mut rule = taught();
    until_probe(&mut rule, 14.0 * MS);
    rule.next(&WindowSummary { successes: 7, ..window(3, 12.0 * MS) });
    let windows = (1..100).find(|_| is_probe(rule.next(&window(20, 14.0 * MS))));
    assert_eq!(windows, Some(4), "2 s");
}

/// Otherwise a lower bound would look like a fall of the limit, which a probe checks.
#[test]
fn bounds_move_the_highest_limit_too() {
    let mut rule = taught();
    let mut limit = 20;
    while limit < 200 {
        limit = rule.next(&WindowSummary { since_plan: Duration::from_millis(1), ..window(limit, 10.0 * MS) }).limit;
    }
    assert_eq!(rule.set_bounds(LimitBounds::new(1, 50).unwrap(), limit), 50);
    let plan = rule.next(&window(50, 13.9 * MS));
    assert_eq!((plan.limit, is_probe(plan)), (50, false));
}

/// Checks that limits stay in the bounds for windows of calls of any latency, or none.
///
/// Limits below the bounds are those of probes, and of at most `measurements` other measurements of one window each.
fn stays_in(bounds: LimitBounds, mut rule: impl LimitRule, measurements: u32) {
    let mut limit = rule.first().limit;
    let mut below = 0;
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
        assert!((1..=bounds.max()).contains(&plan.limit), "{plan:?} after {summary:?}");
        below += u32::from(plan.limit < bounds.min() && !is_probe(plan));
        limit = plan.limit;
    }
    assert!(below <= measurements, "{below} windows below the bounds");
}

// CLAIM: AdaptiveLimit
#[test]
fn limits_stay_in_their_bounds_but_for_measurements() {
    let bounds = LimitBounds::new(3, 50).unwrap();
    stays_in(bounds, ProbedGradient::new(bounds), 0);
    stays_in(bounds, Aimd::new(bounds), 0);
    // One after more than 30 full windows.
    stays_in(bounds, Vegas::new(bounds), 20_000 / 31);
    stays_in(bounds, Gradient2::new(bounds), 20_000 / 31);
}

#[test]
fn aimd_adds_one_and_takes_a_tenth() {
    let mut rule = Aimd::new(LimitBounds::DEFAULT);
    assert_eq!(rule.next(&window(10, MS)).limit, 21, "half of it was in flight");
    assert_eq!(rule.next(&window(10, MS)).limit, 21, "less than half");
    let plan = rule.next(&WindowSummary { overloaded: 1, ..window(21, MS) });
    assert_eq!((plan.limit, plan.skip, plan.samples), (18, 21, 18));
}

/// Returns the limit after a while, for `workers` workers that take 10 ms, under a lasting overload.
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
