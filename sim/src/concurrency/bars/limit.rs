//! The bars of the adaptive limit.

use super::Bar;
use crate::concurrency::parallel::by_two_threads;
use crate::concurrency::record::Summary;
use crate::concurrency::report::{FIXED, best_fixed, record};
use crate::concurrency::rules::Contender;
use crate::concurrency::scenario::{Demand, Load, Scenario};
use crate::concurrency::scenarios;
use crate::concurrency::server::Discipline;
use crate::concurrency::service_time::Shape;

/// A cell of the histogram of latencies.
const CELL: f64 = 1.016;

/// How much less than the best fixed limit it may do about the capacity.
const BELOW_FIXED: f64 = 0.03;

/// Every scenario at its own length.
pub(super) fn half_hours(seeds: &[u64]) -> Vec<Bar> {
    bars(&scenarios::all(), seeds)
}

/// Four hours, in which a drift would show.
pub(super) fn four_hours(seeds: &[u64]) -> Vec<Bar> {
    bars(&scenarios::four_hours(), seeds)
}

fn bars(scenarios: &[Scenario], seeds: &[u64]) -> Vec<Bar> {
    let runs: Vec<_> = scenarios.iter().flat_map(|scenario| seeds.iter().map(move |&seed| (scenario, seed))).collect();
    let summaries = by_two_threads(&runs, |(scenario, seed)| record(Contender::Damper, scenario, *seed).summary());
    let of_each = summaries.chunks(seeds.len());
    scenarios.iter().zip(of_each).flat_map(|(scenario, summaries)| bars_of(scenario, summaries)).collect()
}

fn bars_of(scenario: &Scenario, summaries: &[Summary]) -> Vec<Bar> {
    let name = scenario.name;
    let figures = |of: &dyn Fn(&Summary) -> f64| summaries.iter().map(of).collect::<Vec<_>>();
    let mut bars = Vec::new();
    if let Some(least) = least_throughput(scenario) {
        bars.push(Bar::at_least(name, "throughput", least, &figures(&|summary| summary.throughput)));
    }
    // Where the p90 may lie on the edge of the two modes, the p50 and the p99 count.
    let has_edge =
        matches!(scenario.service.shape, Shape::TwoModes { .. }) && matches!(scenario.discipline, Discipline::Workers);
    for (what, i) in [("p50", 0), ("p90", 1), ("p99", 2)] {
        if has_edge != (i == 1) {
            bars.push(Bar::at_most(name, what, 2.0 * CELL, &figures(&|summary| summary.latency[i])));
        }
    }
    if !has_edge {
        bars.push(Bar::at_most(name, "drift of the p90", 1.3, &figures(&|summary| summary.drift)));
    }
    bars.push(Bar::at_least(name, "lowest limit", 1.0, &figures(&|summary| summary.limit[0])));
    if scenario.offered(0.0) <= 10.0 {
        bars.push(Bar::at_most(
            name,
            "range of the limit",
            0.0,
            &figures(&|summary| summary.limit[2] - summary.limit[0]),
        ));
    }
    if let Some((_, until)) = scenario.disturbance() {
        let most = 10.0 * window(scenario, until).max(1.0);
        let back = |of: fn(&Summary) -> Option<f64>| figures(&|summary| of(summary).unwrap_or(f64::NAN));
        let throughput = back(|summary| Some(summary.recovered?.throughput));
        bars.push(Bar::at_most(name, "throughput back, s", most, &throughput));
        bars.push(Bar::at_most(name, "latency back, s", most, &back(|summary| Some(summary.recovered?.latency))));
    }
    bars
}

/// Of what is possible; of the peak beyond a knee. `None` if the load is not three times the capacity.
fn least_throughput(scenario: &Scenario) -> Option<f64> {
    let is_steady = !matches!(scenario.demand, Demand::Open(Load::Ramp(..) | Load::Steps(_)));
    if !is_steady || scenario.offered(0.0) < 2.9 * scenario.capacity() {
        return None;
    }
    Some(match scenario.discipline {
        Discipline::Knee { .. } => 0.8,
        _ if scenario.size >= 4.0 && scenario.capacity() >= 50.0 => 0.95,
        _ => 0.92,
    })
}

/// How long a window is from then on, in seconds.
fn window(scenario: &Scenario, from: f64) -> f64 {
    let completions = scenario.offered(from).min(scenario.capacity() / scenario.stretch(scenario.length));
    (100.0 / completions).max(0.5)
}

/// About the capacity it gives nearly as much as the best fixed limit whose p90 is no higher.
pub(super) fn beside_fixed(seed: u64) -> Vec<Bar> {
    let places: Vec<_> = FIXED
        .iter()
        .flat_map(|&(name, fixed)| [0.95, 1.0, 1.05, 1.1].map(|load| (name, fixed, load)))
        .filter_map(|(name, fixed, load)| {
            let demand = Demand::Open(Load::Steady(load));
            Some((Scenario { demand, ..scenarios::named(name)? }, fixed, load))
        })
        .collect();
    by_two_threads(&places, |(scenario, fixed, load)| {
        let damper = record(Contender::Damper, scenario, seed).summary();
        let best = best_fixed(scenario, fixed, seed, damper.latency[1]).map_or(f64::NAN, |(_, best)| best.throughput);
        let server = scenario.name.split(',').next().unwrap_or(scenario.name);
        let name = format!("{server}, {load}x");
        Bar::at_least(name, "throughput beside the best fixed limit", best - BELOW_FIXED, &[damper.throughput])
    })
}
