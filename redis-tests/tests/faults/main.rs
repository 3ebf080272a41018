//! Faults of servers, networks, processes and clocks, on a real Redis.
//!
//! Each test looks at what is decided meanwhile, and at what is admitted in all.

mod clock;
mod memory;
mod network;
mod processes;
mod server;
mod stampede;

use damper_redis_tests::{Figures, Fleet, Load, Policy};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

const WORKER: &str = env!("CARGO_BIN_EXE_worker");

/// A server decides again within this after it is back, and what the scheduler adds.
const RECOVERY: Duration = Duration::from_secs(1);

/// The time in which processes take their first leases and use up the burst.
const SETTLE: Duration = Duration::from_millis(2_500);

/// The deadline of a check: longer than by default, so that a busy machine is no fault by itself.
const DEADLINE: Duration = Duration::from_millis(40);

fn millis(millis: u64) {
    sleep(Duration::from_millis(millis));
}

/// A limit that is leased: its burst is a second of the rate.
fn leased(url: &str) -> Load {
    Load { name: "leased".to_owned(), deadline: DEADLINE, ..Load::new(url, 4_000, 4_000) }
}

/// A limit that is decided per check: its burst is less than 100 ms of the rate.
fn per_check(url: &str) -> Load {
    Load { name: "per-check".to_owned(), deadline: DEADLINE, ..Load::new(url, 1_000, 90) }
}

/// How a server comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// With all its keys.
    Pause,
    /// Without any.
    Loss,
}

/// Four processes that share a limit, and one of each other policy.
///
/// Each policy has a limit of its own with leases, and one without.
struct Fleets {
    /// Their policy is the local share.
    shared: [Fleet; 2],
    closed: [Fleet; 2],
    open: [Fleet; 2],
}

impl Fleets {
    fn start(directory: &Path, loads: [Load; 2]) -> Self {
        let fleets = |policy, name: &str, count| {
            loads.clone().map(|load| {
                let load = Load { policy, name: format!("{}-{name}", load.name), ..load };
                Fleet::start(WORKER, directory, count, &Load { threads: 1, ..load })
            })
        };
        Self {
            shared: fleets(Policy::LocalShare, "share", 4),
            closed: fleets(Policy::Closed, "closed", 1),
            open: fleets(Policy::Open, "open", 1),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Fleet> {
        self.shared.iter().chain(&self.closed).chain(&self.open)
    }

    fn finish(&mut self) {
        self.shared.iter_mut().chain(&mut self.closed).chain(&mut self.open).for_each(Fleet::finish);
    }

    /// Expects that each policy decided as stated between two instants.
    ///
    /// The server was away then, and no lease was valid.
    fn expect_policies(&self, from: u64, until: u64) {
        for fleet in self.all() {
            let figures = fleet.between(from, until);
            fleet.expect_in_time(&figures);
            assert_eq!(figures.on_policy, figures.reported, "the policy is in force");
            assert_eq!(figures.by_lease, 0, "no lease outlives its time");
        }
        for fleet in &self.closed {
            assert_eq!(fleet.between(from, until).admitted, 0, "closed admits nothing");
        }
        for fleet in &self.open {
            let figures = fleet.between(from, until);
            // Snapshots and admissions are cut at different instants.
            assert!(figures.admitted * 100 >= figures.checks * 95, "open admits everything");
        }
        for fleet in &self.shared {
            let figures = fleet.between(from, until);
            assert!((0.9..=1.02).contains(&figures.used), "the shares make up the rate: {:.3}", figures.used);
        }
    }

    /// Expects that the server decides again soon after `event`.
    ///
    /// A limit that begins empty has to repay first what the shares are charged: a burst.
    fn expect_recovery(&self, event: u64, after: After) {
        for (place, fleet) in self.all().enumerate() {
            let figures: Figures = fleet.since(event);
            let recovered = fleet.recovered_after(event).expect("the server decides again");
            let load = fleet.load();
            let repaid = match after {
                After::Loss if place < self.shared.len() => load.window * load.burst / load.tokens,
                After::Loss | After::Pause => Duration::ZERO,
            };
            let most = RECOVERY + repaid + 2 * figures.lateness + Duration::from_millis(250);
            assert!(recovered <= most, "it took {recovered:?}, at most {most:?} are allowed");
        }
    }
}
