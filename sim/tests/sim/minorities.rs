//! A few callers beside all others: damper's limit meets its bars, and other rules miss them.

use damper_sim::concurrency::bars::Bar;
use damper_sim::concurrency::minorities::report::bars;
use damper_sim::concurrency::minorities::service::Service;
use damper_sim::concurrency::minorities::services;
use damper_sim::concurrency::rules::Contender;

/// A service for each kind of minority; `minorities --bars` has all of them, at three seeds.
const NAMES: [&str; 8] = [
    "503 in 1 ms, 0.15 of replies, 3x",
    "503 in 1 ms, 0.34 of replies, 0.5x",
    "2000/s of 0.1 ms, on/off each 1 s, beside 700/s",
    "500/s of 1 ms, on/off each 1 s, beside 700/s of constant length",
    "2 ms and 200 ms in turns of 5 s",
    "100/s with a deadline of 30 ms from 0 s, beside 500/s",
    "clock of 10 ms, calls of 20 ms, 3x",
    "queue of 20, 503 in 20 ms, 3x",
];

fn named(names: &[&str]) -> Vec<Service> {
    let services: Vec<_> =
        services::all().into_iter().filter(|service| names.contains(&service.name.as_str())).collect();
    assert_eq!(services.len(), names.len(), "every name is that of one service");
    services
}

fn missed(bars: &[Bar]) -> Vec<String> {
    bars.iter()
        .filter(|bar| !bar.is_met())
        .map(|bar| format!("{}: {} {}", bar.scenario, bar.what, bar.figure))
        .collect()
}

#[test]
fn few_callers_take_little_from_the_others() {
    let bars = bars(Contender::Damper, &named(&NAMES), &[1]);
    assert_eq!((bars.len(), missed(&bars)), (2 * NAMES.len(), Vec::new()));
}

/// A rule that takes every overloaded reply for overload starves the others.
#[test]
fn bars_can_be_missed() {
    let missed_by = |contender, name| !missed(&bars(contender, &named(&[name]), &[1])).is_empty();
    assert!(missed_by(Contender::DamperVegas, NAMES[0]));
    assert!(missed_by(Contender::DamperGradient2, NAMES[5]));
    assert!(missed_by(Contender::DamperAimd, "2000/s of 0.1 ms, on/off each 2 s, beside 1500/s"), "its p90");
}

#[test]
fn services_have_names_of_their_own() {
    let mut names: Vec<_> = services::all().into_iter().map(|service| service.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), count), (92, 92));
}
