//! Rules beside the best fixed limit.

use super::run::{Served, run};
use super::service::Service;
use super::services;
use crate::concurrency::bars::Bar;
use crate::concurrency::limit::Limit;
use crate::concurrency::report::SEEDS;
use crate::concurrency::rules::Contender;
use crate::concurrency::worst::{highest, lowest};
use crate::parallel::by_two_threads;
use crate::table::Table;

/// The fixed limits that are tried, as multiples of the workers' number.
const FIXED: [f64; 9] = [0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0];

/// The highest p90 of the best fixed limit, as a multiple of that of an unloaded service.
const LATENCY: f64 = 2.0;

/// A rule under one service, against the best fixed limit.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// The goodput of polite callers, as a share of that under the fixed limit.
    pub goodput: f64,
    /// The p90 of polite calls, as a multiple of that under the fixed limit.
    pub p90: f64,
    /// The median of the limit.
    pub limit: f64,
}

/// Runs a service under a rule.
#[must_use]
pub fn served(service: &Service, contender: Contender, seed: u64) -> Served {
    let share = |limit: u32| (limit / service.clients).max(1);
    // Clients of a service divide a fixed limit among them.
    let contender = if let Contender::Fixed(limit) = contender { Contender::Fixed(share(limit)) } else { contender };
    let limits = (0..service.clients).map(|client| contender.limit_on(seed + u64::from(client), service.grain));
    run(service, &mut limits.collect::<Vec<Box<dyn Limit>>>(), seed)
}

/// Returns the figures of polite callers under the fixed limit of the highest goodput with a low p90.
#[must_use]
pub fn best_fixed(service: &Service, seed: u64) -> Served {
    let p90_unloaded = |served: &Served| served.p90 / 10_f64.ln() <= LATENCY;
    let of = |part: f64| served(service, Contender::Fixed((part * f64::from(service.workers)) as u32), seed);
    let runs: Vec<Served> = FIXED.into_iter().map(of).collect();
    let best = runs.iter().filter(|served| p90_unloaded(served)).max_by(|a, b| a.goodput.total_cmp(&b.goodput));
    // Where calls of several kinds wait for one another, every limit is slow for the fast ones.
    best.or(runs.first()).cloned().unwrap_or(Served { goodput: f64::NAN, p90: f64::NAN, limit: f64::NAN })
}

/// Runs services under rules with some seeds, each beside the best fixed limit with the same seed.
#[must_use]
pub fn beside_fixed(services: &[Service], contenders: &[Contender], seeds: &[u64]) -> Vec<Vec<Vec<Beside>>> {
    let places: Vec<_> = services.iter().flat_map(|service| seeds.iter().map(move |&seed| (service, seed))).collect();
    let runs = by_two_threads(&places, |&(service, seed)| {
        let best = best_fixed(service, seed);
        let beside = |&contender: &Contender| {
            let Served { goodput, p90, limit } = served(service, contender, seed);
            Beside { goodput: goodput / best.goodput, p90: p90 / best.p90, limit }
        };
        contenders.iter().map(beside).collect::<Vec<_>>()
    });
    let of_service = |runs: &[Vec<Beside>]| {
        (0..contenders.len()).map(|i| runs.iter().map(|run| run[i]).collect()).collect::<Vec<Vec<Beside>>>()
    };
    runs.chunks(seeds.len()).map(of_service).collect()
}

/// Tabulates damper's rules under every service whose name contains a text.
#[must_use]
pub fn table(contenders: &[Contender], text: &str, seeds: &[u64]) -> Table {
    let services: Vec<_> = services::all().into_iter().filter(|service| service.name.contains(text)).collect();
    let names: Vec<String> = contenders.iter().map(|contender| contender.name()).collect();
    let head: Vec<&str> = ["service", "group"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let title =
        "Minorities, the worst seed: goodput and p90 of polite calls against the best fixed limit, median limits";
    let mut table = Table::new(title, &head);
    for (service, runs) in services.iter().zip(beside_fixed(&services, contenders, seeds)) {
        let mut row = vec![service.name.clone(), format!("{:?}", service.group)];
        row.extend(runs.iter().map(|runs| {
            let figures = |of: fn(&Beside) -> f64| runs.iter().map(of).collect::<Vec<_>>();
            let (goodput, p90) = (lowest(&figures(|run| run.goodput)), highest(&figures(|run| run.p90)));
            let limits: Vec<String> = runs.iter().map(|run| format!("{:.0}", run.limit)).collect();
            let missed = if goodput < service.least || p90 > service.most_p90 { "!" } else { "" };
            format!("{goodput:.2}{missed} / {p90:.1} / {}", limits.join(" "))
        }));
        table.row(row);
    }
    table
}

/// Measures the bars of damper's adaptive limit.
#[must_use]
pub fn bars(contender: Contender, services: &[Service], seeds: &[u64]) -> Vec<Bar> {
    let runs = beside_fixed(services, &[contender], seeds);
    let bars = services.iter().zip(&runs).flat_map(|(service, runs)| {
        let figures = |of: fn(&Beside) -> f64| runs[0].iter().map(of).collect::<Vec<_>>();
        let goodput =
            Bar::at_least(&service.name, "goodput of polite calls", service.least, &figures(|run| run.goodput));
        [goodput, Bar::at_most(&service.name, "p90 of polite calls", service.most_p90, &figures(|run| run.p90))]
    });
    bars.collect()
}

/// Measures the bars of damper's adaptive limit under every service.
#[must_use]
pub fn all_bars() -> Vec<Bar> {
    bars(Contender::Damper, &services::all(), &SEEDS)
}
