//! The tables and charts: what damper's limit gives, and what other rules give beside it.

use super::admission::gate::Policy;
use super::admission::tally::Tally;
use super::admission::traffic::{self, Traffic};
use super::record::{POINT, Record, Summary};
use super::rules::Contender;
use super::run::run;
use super::scenario::{Demand, Load, Scenario};
use super::scenarios;
use crate::chart::{Chart, Line, Panel};
use crate::table::Table;

/// The seeds of damper's table; the comparison has the first.
pub const SEEDS: [u64; 3] = [1, 2, 3];

/// Tables, and charts with the names of their files.
#[derive(Clone, Debug)]
pub struct Report {
    /// In the order of reading.
    pub tables: Vec<Table>,
    /// Names without a folder.
    pub charts: Vec<(&'static str, Chart)>,
}

/// Runs a scenario under a rule.
#[must_use]
pub fn record(contender: Contender, scenario: &Scenario, seed: u64) -> Record {
    run(scenario, contender.limit(seed).as_mut(), seed)
}

/// Runs every scenario, calling `progress` with the name of each part.
#[must_use]
pub fn report(progress: fn(&str)) -> Report {
    progress("damper, three seeds");
    let damper_rows = damper_table(&scenarios::all());
    progress("all rules");
    let peers = comparison("All rules, seed 1: throughput / p90 / drift", &Contender::ALL);
    progress("damper's other rules");
    let offered = comparison("damper's rules, seed 1: throughput / p90 / drift", &Contender::OFFERED);
    progress("fixed limits");
    let fixed = fixed_table();
    progress("four hours");
    let (hours, hours_chart) = four_hours();
    progress("charts");
    let [damper, envoy, failsafe, gradient2] =
        [Contender::Damper, Contender::Envoy, Contender::Failsafe, Contender::Gradient2];
    let mut charts = vec![("four-hours.svg", hours_chart)];
    for (file, name, contenders) in [
        ("overload.svg", "50 workers, exponential, 10x", &Contender::ALL[..]),
        ("drop.svg", "a third of the speed for a minute, 10x", &[damper, envoy, gradient2]),
        ("slower.svg", "three times slower for good, 10x", &[damper, failsafe, gradient2]),
    ] {
        charts.extend(scenarios::named(name).map(|scenario| (file, chart(&scenario, contenders))));
    }
    progress("admission");
    let admission = admission_table();
    Report { tables: vec![damper_rows, peers, offered, fixed, hours, admission], charts }
}

/// The worst of several runs, value by value.
#[must_use]
pub fn worst(summaries: &[Summary]) -> Summary {
    let mut worst = summaries[0];
    for other in &summaries[1..] {
        worst.throughput = worst.throughput.min(other.throughput);
        worst.latency = [0, 1, 2].map(|i| worst.latency[i].max(other.latency[i]));
        worst.worst = worst.worst.max(other.worst);
        worst.drift = worst.drift.max(other.drift);
        worst.limit = [
            worst.limit[0].min(other.limit[0]),
            worst.limit[1].max(other.limit[1]),
            worst.limit[2].max(other.limit[2]),
        ];
        worst.settled = worst.settled.worse(other.settled);
        worst.recovered = worst.recovered.zip(other.recovered).map(|(a, b)| a.worse(b));
    }
    worst
}

fn seconds(value: f64) -> String {
    if value.is_finite() { format!("{value:.0}") } else { "never".into() }
}

fn multiple(value: f64) -> String {
    match value {
        1000.0.. => "> 1000".into(),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn damper_table(scenarios: &[Scenario]) -> Table {
    let mut table = Table::new(
        "damper's adaptive limit, the worst of three seeds",
        &[
            "scenario",
            "throughput",
            "p50",
            "p90",
            "p99",
            "p90, worst 10 s",
            "drift",
            "limit",
            "settled, s",
            "throughput back, s",
            "latency back, s",
        ],
    );
    for scenario in scenarios {
        let summaries = SEEDS.map(|seed| record(Contender::Damper, scenario, seed).summary());
        let Summary { throughput, latency: [p50, p90, p99], worst, drift, limit, settled, recovered } =
            worst(&summaries);
        let back = |of: fn(super::record::Recovery) -> f64| recovered.map_or(String::new(), |back| seconds(of(back)));
        table.row(vec![
            scenario.name.into(),
            format!("{throughput:.3}"),
            multiple(p50),
            multiple(p90),
            multiple(p99),
            multiple(worst),
            multiple(drift),
            format!("{:.0} / {:.0} / {:.0}", limit[0], limit[1], limit[2]),
            seconds(settled.throughput.max(settled.latency)),
            back(|back| back.throughput),
            back(|back| back.latency),
        ]);
    }
    table
}

fn comparison(title: &str, contenders: &[Contender]) -> Table {
    let names: Vec<String> = contenders.iter().map(|contender| contender.name()).collect();
    let head: Vec<&str> = std::iter::once("scenario").chain(names.iter().map(String::as_str)).collect();
    let mut table = Table::new(title, &head);
    for scenario in &scenarios::all() {
        let mut row = vec![scenario.name.to_string()];
        for &contender in contenders {
            let Summary { throughput, latency, drift, .. } = record(contender, scenario, SEEDS[0]).summary();
            row.push(format!("{throughput:.2} / {} / {}", multiple(latency[1]), multiple(drift)));
        }
        table.row(row);
    }
    table
}

/// Loads about the capacity, beside the fixed limit of the highest throughput whose p90 is no higher than damper's.
fn fixed_table() -> Table {
    let title =
        "About the capacity, seed 1: the fixed limit of the highest throughput with a p90 no higher than damper's";
    let mut table = Table::new(title, &["scenario", "load", "damper", "p90", "best fixed", "limit", "p90"]);
    for (name, fixed) in [
        ("50 workers, exponential, 1x", [40, 50, 55, 60, 65, 70, 75, 80, 90, 100].as_slice()),
        ("8 cores, exponential, 1.05x", &[6, 7, 8, 9, 10, 11, 12, 14, 16, 20]),
    ] {
        for load in [0.95, 1.0, 1.05, 1.1] {
            let Some(scenario) = scenarios::named(name) else { continue };
            let scenario = Scenario { demand: Demand::Open(Load::Steady(load)), ..scenario };
            let damper = record(Contender::Damper, &scenario, SEEDS[0]).summary();
            let best = fixed
                .iter()
                .map(|&limit| (limit, record(Contender::Fixed(limit), &scenario, SEEDS[0]).summary()))
                .filter(|(_, summary)| summary.latency[1] <= damper.latency[1])
                .max_by(|(_, a), (_, b)| a.throughput.total_cmp(&b.throughput));
            let Some((limit, best)) = best else { continue };
            table.row(vec![
                name.split(',').next().unwrap_or(name).into(),
                format!("{load}x"),
                format!("{:.3}", damper.throughput),
                multiple(damper.latency[1]),
                format!("{:.3}", best.throughput),
                limit.to_string(),
                multiple(best.latency[1]),
            ]);
        }
    }
    table
}

fn four_hours() -> (Table, Chart) {
    let scenario = scenarios::four_hours();
    let mut table = Table::new(
        "Ten times the load for four hours, seed 1",
        &["rule", "throughput", "p90", "drift", "highest limit"],
    );
    let mut records = Vec::new();
    for contender in [Contender::Damper, Contender::Failsafe, Contender::Gradient2] {
        let mut record = record(contender, &scenario, SEEDS[0]);
        let Summary { throughput, latency, drift, limit, .. } = record.summary();
        table.row(vec![
            contender.name(),
            format!("{throughput:.3}"),
            multiple(latency[1]),
            multiple(drift),
            format!("{:.0}", limit[2]),
        ]);
        records.push((contender, record));
    }
    (table, chart_of(scenario.name, &records))
}

fn chart(scenario: &Scenario, contenders: &[Contender]) -> Chart {
    let records: Vec<_> =
        contenders.iter().map(|&contender| (contender, record(contender, scenario, SEEDS[0]))).collect();
    chart_of(scenario.name, &records)
}

fn chart_of(title: &str, records: &[(Contender, Record)]) -> Chart {
    let lines = |shown: fn(Contender) -> bool, of: fn(&Record) -> Vec<f64>| {
        let line = |(contender, record): &(Contender, Record)| Line {
            name: contender.name(),
            points: if shown(*contender) { of(record) } else { Vec::new() },
        };
        records.iter().map(line).collect()
    };
    // What stands for no limit would be far above all others.
    let limited = |contender| contender != Contender::None;
    let limits = Panel { title: "limit, calls in flight".into(), lines: lines(limited, Record::limits) };
    let p90s = Panel { title: "p90 of ten seconds, s".into(), lines: lines(|_| true, Record::p90s) };
    Chart { title: title.into(), step: POINT, panels: vec![limits, p90s] }
}

/// Runs traffic at a gate with damper's limit.
#[must_use]
pub fn admit(traffic: &Traffic, policy: Policy, seed: u64) -> Tally {
    super::admission::run::run(traffic, policy, seed)
}

fn admission_table() -> Table {
    let title =
        "Admission at three times the load, the worst of three seeds: goodput of each group as a share of its calls";
    let head = [
        "traffic",
        "rule",
        "top",
        "middle",
        "greedy",
        "low",
        "all, of capacity",
        "late",
        "ended",
        "Jain, top",
        "Jain, middle",
    ];
    let mut table = Table::new(title, &head);
    for traffic in traffic::all() {
        for policy in Policy::ALL {
            let tallies = SEEDS.map(|seed| admit(&traffic, policy, seed));
            let least = |of: &dyn Fn(&Tally) -> f64| tallies.iter().map(of).fold(f64::INFINITY, f64::min);
            let most = |of: &dyn Fn(&Tally) -> f64| tallies.iter().map(of).fold(0.0, f64::max);
            let mut row = vec![traffic.server.name.to_string(), policy.name().into()];
            row.extend((0..4).map(|i| format!("{:.3}", least(&|tally| tally.group(&traffic, i).0.goodput()))));
            row.push(format!("{:.3}", least(&Tally::goodput)));
            row.push(format!("{:.3}", most(&|tally| tally.all().late())));
            row.push(format!("{:.3}", most(&|tally| tally.all().ended())));
            row.extend((0..2).map(|i| format!("{:.3}", least(&|tally| tally.group(&traffic, i).1))));
            table.row(row);
        }
    }
    table
}
