//! The settings that damper's own strategy is judged by.

use super::experiment::{End, Experiment};
use super::server::{Algorithm, Level};
use damper::Quota;
use std::time::Duration;

/// A setting by name.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The difference from the published experiment.
    pub name: &'static str,
    /// The experiment.
    pub experiment: Experiment,
    /// Whether it has bars. The others are only reported.
    pub barred: bool,
}

/// Returns all of them.
///
/// # Panics
///
/// Never: the quotas are valid.
#[must_use]
pub fn all() -> Vec<Setting> {
    let clients = |clients, processes| Experiment { clients, processes, ..Experiment::default() };
    let per_day = Quota::per(1_000_000, Duration::from_secs(24 * 3600)).expect("a valid quota");
    let per_minute = Quota::per_minute(100);
    let of = |quota, experiment: Experiment| Experiment { quota, ..experiment };
    let full = |quota, algorithm| Experiment { quota, algorithm, level: Level::Full, ..Experiment::default() };
    let outage = |experiment| Experiment { outage: Some((600.0, 900.0)), ..experiment };
    let joining = |experiment| Experiment { join_gap: 60.0, ..experiment };
    let barred = [
        ("10 clients, per thread", clients(10, 10)),
        ("10 clients, 2 processes", clients(10, 2)),
        ("2 clients", clients(2, 2)),
        ("50 clients", clients(50, 50)),
        ("50 clients, 10 processes", clients(50, 10)),
        ("200 clients", clients(200, 200)),
        ("100/min", of(per_minute, clients(10, 10))),
        ("100/min, 50 clients", of(per_minute, clients(50, 50))),
        ("100/min, 2 processes", of(per_minute, clients(10, 2))),
        ("1,000,000/day", of(per_day, clients(10, 10))),
        ("1,000,000/day, 2 processes", of(per_day, clients(10, 2))),
        ("1,000,000/day, 50 clients", of(per_day, clients(50, 50))),
        ("sliding log", Experiment { algorithm: Algorithm::SlidingLog, ..clients(10, 10) }),
        ("sliding counter", Experiment { algorithm: Algorithm::SlidingCounter, ..clients(10, 10) }),
        ("sliding log, 100/min, full", full(per_minute, Algorithm::SlidingLog)),
        ("sliding counter, 100/min, full", full(per_minute, Algorithm::SlidingCounter)),
        ("fixed window, 100/min", full(per_minute, Algorithm::FixedWindow)),
        ("fixed window, 100/min, 2 processes", Experiment { processes: 2, ..full(per_minute, Algorithm::FixedWindow) }),
        ("full", Experiment { level: Level::Full, ..clients(10, 10) }),
        ("full, 2 processes", Experiment { level: Level::Full, ..clients(10, 2) }),
        ("outage of 5 minutes", outage(clients(10, 10))),
        ("outage, 2 processes", outage(clients(10, 2))),
        ("joining each minute", joining(clients(10, 10))),
        ("joining, 2 processes", joining(clients(10, 2))),
    ];
    let reported = [
        ("200 clients, 40 processes", clients(200, 40)),
        (
            "fixed window, 4500/h, two hours",
            Experiment { end: End::After(7_200.0), ..full(Quota::per_hour(4_500), Algorithm::FixedWindow) },
        ),
    ];
    let setting = |barred| move |(name, experiment)| Setting { name, experiment, barred };
    barred.map(setting(true)).into_iter().chain(reported.map(setting(false))).collect()
}

/// A setting with a trouble, beside the same one without it.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// The server, its hints and the trouble.
    pub name: String,
    /// The experiment without the trouble.
    pub untroubled: Experiment,
    /// The experiment with it.
    pub experiment: Experiment,
    /// The percentage points of retries that the trouble may add.
    pub most_retries: f64,
}

/// Returns settings with a trouble.
///
/// Clients are configured with a quota that is wrong by a tenth, or a tenth of the responses have no headers.
///
/// # Panics
///
/// Never: the quotas are valid.
#[must_use]
pub fn troubles() -> Vec<Trouble> {
    let full = |quota, algorithm| Experiment { quota, algorithm, level: Level::Full, ..Experiment::default() };
    let servers = [
        ("bucket", Experiment::default()),
        ("sliding log, 100/min", full(Quota::per_minute(100), Algorithm::SlidingLog)),
        ("fixed window, 100/min", full(Quota::per_minute(100), Algorithm::FixedWindow)),
        (
            "fixed window, two hours",
            Experiment { end: End::After(7_200.0), ..full(Quota::per_hour(4_500), Algorithm::FixedWindow) },
        ),
    ];
    let told = |experiment: &Experiment, tenths: u32| {
        let Experiment { quota, .. } = *experiment;
        let told = Quota::per(quota.limit() / 10 * tenths, quota.window()).expect("a valid quota");
        Experiment { told: Some(told), ..experiment.clone() }
    };
    let mut troubles = Vec::new();
    for (server, experiment) in servers {
        for (with, hints) in [("", false), (", hints", true)] {
            let untroubled = Experiment { hints, ..experiment.clone() };
            for (trouble, experiment) in [
                ("told 9/10", told(&untroubled, 9)),
                ("told 11/10", told(&untroubled, 11)),
                ("1/10 bare", Experiment { bare: 0.1, ..untroubled.clone() }),
            ] {
                let name = format!("{server}{with}, {trouble}");
                // In each of 30 windows an answer without headers hides the end of the window from one client in ten, or when to retry.
                let hides_windows = experiment.bare > 0.0 && hints && experiment.quota.limit() == 100;
                let most_retries = if hides_windows { 3.5 } else { 1.0 };
                troubles.push(Trouble { name, untroubled: untroubled.clone(), experiment, most_retries });
            }
        }
    }
    troubles
}
