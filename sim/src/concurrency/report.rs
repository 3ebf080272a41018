//! The tables and charts of damper's limit and of other rules.

use super::admission::gate::Policy;
use super::admission::tally::Tally;
use super::admission::traffic::{self, Traffic};
use super::record::{POINT, Record, Summary};
use super::rules::Contender;
use super::run::run;
use super::scenario::{Demand, Load, Scenario};
use super::scenarios;
use super::worst::{highest, lowest};
use crate::chart::{Chart, Line, Panel};
use crate::parallel::by_two_threads;
use crate::table::Table;

/// The seeds of damper's table. The comparison uses the first.
pub const SEEDS: [u64; 3] = [1, 2, 3];

/// Tables, and charts with their file names.
#[derive(Clone, Debug)]
pub struct Report {
    /// The tables in reading order.
    pub tables: Vec<Table>,
    /// The tables that the guide includes, with their file names.
    pub guide: Vec<(&'static str, Table)>,
    /// File names without a folder.
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
    let summaries = summaries(&Contender::ALL);
    let peers = comparison("All rules, seed 1: throughput / p90 / drift", &Contender::ALL, &summaries);
    let rules = guide_rules(&summaries);
    progress("damper's other rules");
    let offered = &Contender::OFFERED;
    let offered = comparison("damper's rules, seed 1: throughput / p90 / drift", offered, &self::summaries(offered));
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
        ("low-load.svg", "50 workers, exponential, 10 calls a second", &[damper, failsafe, gradient2]),
    ] {
        charts.extend(scenarios::named(name).map(|scenario| (file, chart(&scenario, contenders))));
    }
    progress("admission");
    let admitted = Admitted::all();
    let guide = vec![("rules.md", rules), ("admission.md", guide_admission(&admitted))];
    Report { tables: vec![damper_rows, peers, offered, fixed, hours, admission_table(&admitted)], guide, charts }
}

/// The worst of several runs, value by value.
#[must_use]
pub fn worst(summaries: &[Summary]) -> Summary {
    let mut worst = summaries[0];
    for other in &summaries[1..] {
        let higher = |of: fn(&Summary) -> f64| highest(&[of(&worst), of(other)]);
        worst = Summary {
            throughput: lowest(&[worst.throughput, other.throughput]),
            latency: [0, 1, 2].map(|i| highest(&[worst.latency[i], other.latency[i]])),
            worst: higher(|summary| summary.worst),
            drift: higher(|summary| summary.drift),
            limit: [
                lowest(&[worst.limit[0], other.limit[0]]),
                higher(|summary| summary.limit[1]),
                higher(|summary| summary.limit[2]),
            ],
            moved: higher(|summary| summary.moved),
            silence: higher(|summary| summary.silence),
            settled: worst.settled.worse(other.settled),
            recovered: worst.recovered.zip(other.recovered).map(|(a, b)| a.worse(b)),
            in_trouble: worst.in_trouble.zip(other.in_trouble).map(|(a, b)| a.worse(b)),
        };
    }
    worst
}

fn seconds(value: f64) -> String {
    if value.is_finite() { format!("{value:.0}") } else { "never".into() }
}

fn multiple(value: f64) -> String {
    match value {
        _ if value.is_nan() => "-".into(),
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
    let runs: Vec<_> = scenarios.iter().flat_map(|scenario| SEEDS.map(|seed| (scenario, seed))).collect();
    let summaries = by_two_threads(&runs, |(scenario, seed)| record(Contender::Damper, scenario, *seed).summary());
    for (scenario, summaries) in scenarios.iter().zip(summaries.chunks(SEEDS.len())) {
        let Summary { throughput, latency: [p50, p90, p99], worst, drift, limit, settled, recovered, .. } =
            worst(summaries);
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

/// Runs every scenario under each of these rules, with seed 1.
fn summaries(contenders: &[Contender]) -> Vec<(Scenario, Vec<Summary>)> {
    let scenarios = scenarios::all();
    let runs: Vec<_> =
        scenarios.iter().flat_map(|scenario| contenders.iter().map(move |&rule| (rule, scenario))).collect();
    let summaries = by_two_threads(&runs, |(rule, scenario)| record(*rule, scenario, SEEDS[0]).summary());
    let of_each = summaries.chunks(contenders.len()).map(<[Summary]>::to_vec);
    scenarios.iter().cloned().zip(of_each).collect()
}

fn comparison(title: &str, contenders: &[Contender], summaries: &[(Scenario, Vec<Summary>)]) -> Table {
    let names: Vec<String> = contenders.iter().map(|contender| contender.name()).collect();
    let head: Vec<&str> = std::iter::once("scenario").chain(names.iter().map(String::as_str)).collect();
    let mut table = Table::new(title, &head);
    for (scenario, summaries) in summaries {
        let mut row = vec![scenario.name.to_string()];
        row.extend(summaries.iter().map(|Summary { throughput, latency, drift, .. }| {
            format!("{throughput:.2} / {} / {}", multiple(latency[1]), multiple(*drift))
        }));
        table.row(row);
    }
    table
}

/// The scenarios that the guide shows.
const GUIDE: [&str; 10] = [
    "50 workers, exponential, 10x",
    "50 workers, constant, 10x",
    "200 workers, log-normal 0.5, 200 ms, 10x",
    "4 workers, log-normal 1, 20 ms, 10x",
    "20 workers, exponential 2 s, 10x",
    "8 cores, exponential, 10x",
    "knee at 20, 5 % a call, 10x",
    "50 workers, exponential, 1.05x",
    "50 workers, exponential, 0.3x",
    "timeouts of 0.5 s, three retries, 3x",
];

/// Tabulates some scenarios under all rules, with fewer digits than the full table.
fn guide_rules(summaries: &[(Scenario, Vec<Summary>)]) -> Table {
    let short = |value: f64| match value {
        _ if value.is_nan() => "-".to_string(),
        1000.0.. => "> 1000".to_string(),
        10.0.. => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    };
    let names = Contender::ALL.map(Contender::name);
    let head: Vec<&str> = std::iter::once("service").chain(names.iter().map(String::as_str)).collect();
    let mut table = Table::new("Some services under all rules", &head);
    for name in GUIDE {
        for (scenario, summaries) in summaries.iter().filter(|(scenario, _)| scenario.name == name) {
            let cell = |Summary { throughput, latency, drift, .. }: &Summary| {
                format!("{throughput:.2} / {} / {}", short(latency[1]), short(*drift))
            };
            let mut row = vec![scenario.name.to_string()];
            row.extend(summaries.iter().map(cell));
            table.row(row);
        }
    }
    table
}

/// Servers near their capacity, and the fixed limits tried there.
pub const FIXED: [(&str, &[u32]); 2] = [
    ("50 workers, exponential, 1x", &[40, 50, 55, 60, 65, 70, 75, 80, 90, 100, 120, 140, 160, 180]),
    ("8 cores, exponential, 1.05x", &[6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 22, 24]),
];

/// Runs a scenario under each of these fixed limits.
#[must_use]
pub fn under_fixed(scenario: &Scenario, fixed: &[u32], seed: u64) -> Vec<(u32, Summary)> {
    fixed.iter().map(|&limit| (limit, record(Contender::Fixed(limit), scenario, seed).summary())).collect()
}

/// Returns the fixed limit with the highest throughput and at most this p90.
#[must_use]
pub fn best_fixed(runs: &[(u32, Summary)], p90: f64) -> Option<(u32, Summary)> {
    let fast = runs.iter().filter(|(_, summary)| summary.latency[1] <= p90);
    fast.max_by(|(_, a), (_, b)| a.throughput.total_cmp(&b.throughput)).copied()
}

/// Tabulates loads near the capacity, against the best fixed limit.
fn fixed_table() -> Table {
    let title =
        "About the capacity, seed 1: the fixed limit of the highest throughput with a p90 no higher than damper's";
    let mut table = Table::new(title, &["scenario", "load", "damper", "p90", "best fixed", "limit", "p90"]);
    for (name, fixed) in FIXED {
        for load in [0.95, 1.0, 1.05, 1.1] {
            let Some(scenario) = scenarios::named(name) else { continue };
            let scenario = Scenario { demand: Demand::Open(Load::Steady(load)), ..scenario };
            let damper = record(Contender::Damper, &scenario, SEEDS[0]).summary();
            let runs = under_fixed(&scenario, fixed, SEEDS[0]);
            let Some((limit, best)) = best_fixed(&runs, damper.latency[1]) else { continue };
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
    let [scenario, _] = scenarios::four_hours();
    let contenders = [Contender::Damper, Contender::Failsafe, Contender::Gradient2];
    let mut table = Table::new(
        "Ten times the load for four hours, seed 1",
        &["rule", "throughput", "p90", "drift", "highest limit"],
    );
    let mut records = records(&scenario, &contenders);
    for (contender, record) in &mut records {
        let Summary { throughput, latency, drift, limit, .. } = record.summary();
        table.row(vec![
            contender.name(),
            format!("{throughput:.3}"),
            multiple(latency[1]),
            multiple(drift),
            format!("{:.0}", limit[2]),
        ]);
    }
    (table, chart_of(scenario.name, &records))
}

fn chart(scenario: &Scenario, contenders: &[Contender]) -> Chart {
    chart_of(scenario.name, &records(scenario, contenders))
}

fn records(scenario: &Scenario, contenders: &[Contender]) -> Vec<(Contender, Record)> {
    by_two_threads(contenders, |&contender| (contender, record(contender, scenario, SEEDS[0])))
}

fn chart_of(title: &str, records: &[(Contender, Record)]) -> Chart {
    let lines = |shown: fn(Contender) -> bool, of: fn(&Record) -> Vec<f64>| {
        let line = |(contender, record): &(Contender, Record)| Line {
            name: contender.name(),
            points: if shown(*contender) { of(record) } else { Vec::new() },
        };
        records.iter().map(line).collect()
    };
    // The stand-in for no limit would be far above all others.
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

/// Runs traffic at a gate of one policy, with three seeds.
struct Admitted {
    traffic: Traffic,
    policy: Policy,
    tallies: Vec<Tally>,
}

impl Admitted {
    /// Runs all traffic at gates of all policies.
    fn all() -> Vec<Self> {
        let places: Vec<_> = traffic::all()
            .into_iter()
            .flat_map(|traffic| Policy::ALL.map(|policy| (traffic.clone(), policy)))
            .collect();
        let runs: Vec<_> = places.iter().flat_map(|place| SEEDS.map(|seed| (place, seed))).collect();
        let tallies = by_two_threads(&runs, |((traffic, policy), seed)| admit(traffic, *policy, *seed));
        let of_each = tallies.chunks(SEEDS.len()).map(<[Tally]>::to_vec);
        places
            .iter()
            .cloned()
            .zip(of_each)
            .map(|((traffic, policy), tallies)| Self { traffic, policy, tallies })
            .collect()
    }

    fn least(&self, of: impl Fn(&Tally) -> f64) -> String {
        format!("{:.3}", self.tallies.iter().map(of).fold(f64::INFINITY, f64::min))
    }

    fn most(&self, of: impl Fn(&Tally) -> f64) -> String {
        format!("{:.3}", self.tallies.iter().map(of).fold(0.0, f64::max))
    }

    /// Tabulates each group's calls answered in time, as a share of those that arrived.
    fn of_groups(&self) -> impl Iterator<Item = String> {
        (0..4).map(|i| self.least(|tally| tally.group(&self.traffic, i).0.goodput()))
    }
}

fn admission_table(admitted: &[Admitted]) -> Table {
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
    for gate in admitted {
        let mut row = vec![gate.traffic.server.name.to_string(), gate.policy.name().into()];
        row.extend(gate.of_groups());
        row.push(gate.least(Tally::goodput));
        row.push(gate.most(|tally| tally.all().late()));
        row.push(gate.most(|tally| tally.all().ended()));
        row.extend((0..2).map(|i| gate.least(|tally| tally.group(&gate.traffic, i).1)));
        table.row(row);
    }
    table
}

/// Tabulates admission against the same limit without it.
fn guide_admission(admitted: &[Admitted]) -> Table {
    let head = ["service", "gate", "top", "middle", "greedy", "low", "all, of the capacity"];
    let mut table = Table::new("Admission at three times the load", &head);
    for gate in admitted {
        let name = match gate.policy {
            Policy::Whole => "admission",
            Policy::LimitOnly => "limit only",
            Policy::NoQueue | Policy::NoEnding | Policy::SlowMedian => continue,
        };
        let mut row = vec![gate.traffic.server.name.to_string(), name.into()];
        row.extend(gate.of_groups());
        row.push(gate.least(Tally::goodput));
        table.row(row);
    }
    table
}
