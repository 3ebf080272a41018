//! The bars of the adaptive limit.

use super::Bar;
use crate::concurrency::record::{InTrouble, Recovery, Summary};
use crate::concurrency::report::{FIXED, best_fixed, record, under_fixed};
use crate::concurrency::rules::Contender;
use crate::concurrency::scenario::{Demand, Load, Scenario, Trouble};
use crate::concurrency::scenarios;
use crate::concurrency::server::Discipline;
use crate::concurrency::service_time::Shape;
use crate::concurrency::worst::lowest;
use crate::parallel::by_two_threads;

/// The highest p50, p90 or p99, relative to an unloaded server.
const LATENCY: f64 = 2.0;

/// The largest shortfall against the best fixed limit near the capacity.
const BELOW_FIXED: f64 = 0.03;

/// Measures the bars of a limit in these scenarios.
#[must_use]
pub fn limit(contender: Contender, scenarios: &[Scenario], seeds: &[u64]) -> Vec<Bar> {
    let runs: Vec<_> = scenarios.iter().flat_map(|scenario| seeds.iter().map(move |&seed| (scenario, seed))).collect();
    let summaries = by_two_threads(&runs, |(scenario, seed)| record(contender, scenario, *seed).summary());
    let of_each = summaries.chunks(seeds.len());
    scenarios.iter().zip(of_each).flat_map(|(scenario, summaries)| bars_of(scenario, summaries)).collect()
}

fn bars_of(scenario: &Scenario, summaries: &[Summary]) -> Vec<Bar> {
    let name = scenario.name;
    let figures = |of: &dyn Fn(&Summary) -> f64| summaries.iter().map(of).collect::<Vec<_>>();
    let mut bars =
        vec![Bar::at_least(name, "throughput", least_throughput(scenario), &figures(&|summary| summary.throughput))];
    // If the p90 may be at the edge of the two modes, the p50 and the p99 are measured.
    let has_edge =
        matches!(scenario.service.shape, Shape::TwoModes { .. }) && matches!(scenario.discipline, Discipline::Workers);
    for (what, i) in [("p50", 0), ("p90", 1), ("p99", 2)] {
        if has_edge != (i == 1) {
            bars.push(Bar::at_most(name, what, LATENCY, &figures(&|summary| summary.latency[i])));
        }
    }
    if !has_edge {
        bars.push(Bar::at_most(name, "drift of the p90", 1.15, &figures(&|summary| summary.drift)));
    }
    let silence = figures(&|summary| summary.silence);
    bars.push(Bar::at_most(name, "longest time without an answer, s", longest_silence(scenario), &silence));
    // With so few calls there is nothing to learn.
    if scenario.offered(0.0) < 0.1 * scenario.capacity() {
        bars.push(Bar::at_most(name, "change of the limit from its start", 0.0, &figures(&|summary| summary.moved)));
    }
    if let Some((_, until)) = scenario.disturbance() {
        let most = 10.0 * window(scenario, until).max(1.0);
        let back = |of: fn(Recovery) -> f64| figures(&|summary| summary.recovered.map_or(f64::NAN, of));
        bars.push(Bar::at_most(name, "throughput back, s", most, &back(|back| back.throughput)));
        bars.push(Bar::at_most(name, "latency back, s", most, &back(|back| back.latency)));
    }
    if scenario.minute().is_some() {
        let within = |of: fn(InTrouble) -> f64| figures(&|summary| summary.in_trouble.map_or(f64::NAN, of));
        bars.push(Bar::at_least(name, "throughput in trouble", 0.9, &within(|within| within.throughput)));
        bars.push(Bar::at_most(name, "p90 in trouble", LATENCY, &within(|within| within.latency)));
    }
    bars
}

/// Returns the lowest allowed share of the possible throughput, or of the peak beyond a knee.
fn least_throughput(scenario: &Scenario) -> f64 {
    let load = scenario.offered(0.0) / scenario.capacity();
    match (scenario.demand, scenario.discipline) {
        (_, Discipline::Knee { .. }) => 0.8,
        (Demand::Open(Load::Ramp(..) | Load::Steps(_)), _) => 0.95,
        // In a pause a limit refuses most calls, which would take too long in a queue.
        _ if load < 0.9 && matches!(scenario.trouble, Trouble::Pauses(..)) => 0.95,
        _ if load < 0.9 => 0.98,
        // Near the capacity, an equally fast fixed limit would refuse calls too: see `beside_fixed`.
        _ if load < 2.9 => 0.9,
        _ if scenario.size >= 4.0 && scenario.capacity() >= 50.0 => 0.95,
        _ => 0.92,
    }
}

/// Returns the length of a window from then on, in seconds.
fn window(scenario: &Scenario, from: f64) -> f64 {
    (100.0 / completions(scenario, from)).max(0.5)
}

/// Returns the possible completions per second from then on.
fn completions(scenario: &Scenario, from: f64) -> f64 {
    scenario.offered(from).min(scenario.capacity() / scenario.stretch(scenario.length))
}

/// Returns the longest time that may pass without a response, in seconds.
///
/// With few responses, a gap of twenty times the mean may be random.
fn longest_silence(scenario: &Scenario) -> f64 {
    1.0 + 20.0 / completions(scenario, 0.0)
}

/// Measures a limit near the capacity against the best fixed limit with at most its p90.
///
/// A fixed limit with the p90 allowed by the latency bar has more throughput, which is reported.
#[must_use]
pub fn beside_fixed(contender: Contender, seeds: &[u64], seconds: f64) -> Vec<Bar> {
    let places: Vec<_> = FIXED
        .iter()
        .flat_map(|&(name, fixed)| [0.95, 1.0, 1.05, 1.1].map(|load| (name, fixed, load)))
        .filter_map(|(name, fixed, load)| {
            let demand = Demand::Open(Load::Steady(load));
            Some((Scenario { demand, ..scenarios::named(name)? }.seconds(seconds), fixed, load))
        })
        .collect();
    let runs: Vec<_> = places.iter().flat_map(|place| seeds.iter().map(move |&seed| (place, seed))).collect();
    let beside = by_two_threads(&runs, |((scenario, fixed, _), seed)| {
        let of = record(contender, scenario, *seed).summary();
        let runs = under_fixed(scenario, fixed, *seed);
        let less = |p90| best_fixed(&runs, p90).map_or(f64::NAN, |(_, best)| of.throughput - best.throughput);
        [less(of.latency[1]), less(LATENCY)]
    });
    let bars = places.iter().zip(beside.chunks(seeds.len())).flat_map(|((scenario, _, load), figures)| {
        let name = format!("{}, {load}x", scenario.name.split(',').next().unwrap_or(scenario.name));
        let [as_fast, fast] = [0, 1].map(|i| figures.iter().map(|figures| figures[i]).collect::<Vec<_>>());
        let beside = "throughput less that of the best fixed limit whose p90 is no higher";
        let beside_slower = "throughput less that of the best fixed limit whose p90 is at most 2";
        [Bar::at_least(&name, beside, -BELOW_FIXED, &as_fast), Bar::any(&name, beside_slower, lowest(&fast))]
    });
    bars.collect()
}
