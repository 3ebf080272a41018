//! Processes with one limit, and what they did between two instants.

use crate::admission::{Admission, micros_now};
use crate::load::Load;
use crate::snapshot::Snapshot;
use crate::worker::Worker;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The scheduler's addition to a check, beyond twice its addition to a timer.
const NOISE: Duration = Duration::from_millis(100);

/// Processes with the same limit and load.
#[derive(Debug)]
pub struct Fleet {
    program: String,
    directory: PathBuf,
    load: Load,
    workers: Vec<Worker>,
}

impl Fleet {
    /// Starts `count` workers and waits until all of them check.
    ///
    /// `program` is a test's `env!("CARGO_BIN_EXE_worker")`.
    ///
    /// # Panics
    ///
    /// If one does not start.
    #[must_use]
    pub fn start(program: &str, directory: &Path, count: usize, load: &Load) -> Self {
        let (program, directory, load) = (program.to_owned(), directory.to_owned(), load.clone());
        let mut fleet = Self { program, directory, load, workers: Vec::new() };
        for _ in 0..count {
            let worker = Worker::start(&fleet.program, &fleet.directory, fleet.workers.len(), &fleet.load);
            fleet.workers.push(worker);
        }
        fleet.workers.iter_mut().for_each(Worker::wait_until_busy);
        fleet
    }

    /// Adds a worker and waits until it checks.
    pub fn join(&mut self) {
        let mut worker = Worker::start(&self.program, &self.directory, self.workers.len(), &self.load);
        worker.wait_until_busy();
        self.workers.push(worker);
    }

    /// Returns the limit and the load.
    #[must_use]
    pub fn load(&self) -> &Load {
        &self.load
    }

    /// Returns the workers in the order of their start.
    #[must_use]
    pub fn workers(&self) -> &[Worker] {
        &self.workers
    }

    /// Returns the admissions of all workers so far.
    #[must_use]
    pub fn admissions(&self) -> Vec<Admission> {
        self.workers.iter().flat_map(Worker::admissions).collect()
    }

    /// Returns the admissions that ended between two instants, in µs since 1970.
    #[must_use]
    pub fn admissions_between(&self, from: u64, until: u64) -> Vec<Admission> {
        self.admissions().into_iter().filter(|one| (from..until).contains(&one.ended)).collect()
    }

    /// Returns by how many tokens the worst interval so far exceeds burst + rate · t.
    #[must_use]
    pub fn excess(&self) -> u64 {
        let admissions = self.admissions();
        let envelope = self.load.envelope();
        if let Some(peak) = envelope.peak(&admissions) {
            println!(
                "{}: {} admitted in all; worst: {peak}, it has {}",
                self.load.name,
                admissions.len(),
                self.load.burst
            );
        }
        envelope.excess(&admissions)
    }

    /// Returns the figures of the time between two instants, in µs since 1970.
    #[must_use]
    pub fn between(&self, from: u64, until: u64) -> Figures {
        let mut figures = Figures { name: self.load.name.clone(), micros: until - from, ..Figures::default() };
        for worker in &self.workers {
            figures.admitted +=
                worker.admissions().iter().filter(|one| (from..until).contains(&one.ended)).count() as u64;
            figures.add(&worker.snapshots(), from, until);
        }
        figures.used = figures.admitted as f64 / (figures.micros as f64 * f64::from(self.load.tokens))
            * self.load.window.as_micros() as f64;
        println!("{figures}");
        figures
    }

    /// Returns the figures since an instant.
    #[must_use]
    pub fn since(&self, from: u64) -> Figures {
        self.between(from, micros_now())
    }

    /// Returns the tokens that each worker was allowed between two instants, in the order of their start.
    #[must_use]
    pub fn shares_between(&self, from: u64, until: u64) -> Vec<usize> {
        let inside =
            |worker: &Worker| worker.admissions().iter().filter(|one| (from..until).contains(&one.ended)).count();
        self.workers.iter().map(inside).collect()
    }

    /// Returns how long after `event` the limit is used again.
    ///
    /// That is the time until the first 100 ms in which 90 % of the rate are admitted, in steps of 10 ms; `None` if it is not yet.
    #[must_use]
    pub fn used_again_after(&self, event: u64) -> Option<Duration> {
        const SPAN: u64 = 100_000;
        let mut ends: Vec<u64> = self.admissions().iter().map(|one| one.ended).collect();
        ends.sort_unstable();
        let last = *ends.last()?;
        let needed = 0.9 * SPAN as f64 * f64::from(self.load.tokens) / self.load.window.as_micros() as f64;
        let before = |time: u64| ends.partition_point(|end| *end < time);
        let mut starts = (event..last.saturating_sub(SPAN)).step_by(10_000);
        starts
            .find(|&from| (before(from + SPAN) - before(from)) as f64 >= needed)
            .map(|from| Duration::from_micros(from - event))
    }

    /// Returns how long after `event` the server decides for all workers again.
    ///
    /// It has allowed at least one of them something by then.
    ///
    /// `None` if it does not yet. As exact as snapshots are frequent, which counts against the limiter.
    #[must_use]
    pub fn recovered_after(&self, event: u64) -> Option<Duration> {
        let (mut policy_until, mut first) = (event, None::<u64>);
        for worker in &self.workers {
            let snapshots = worker.snapshots();
            if snapshots.last().is_none_or(|last| last.policy_in_force) {
                return None;
            }
            let before = snapshots.iter().rev().find(|one| one.at < event).cloned().unwrap_or_default();
            let after: Vec<&Snapshot> = snapshots.iter().filter(|one| one.at >= event).collect();
            for pair in after.windows(2).filter(|pair| pair[0].policy_in_force) {
                policy_until = policy_until.max(pair[1].at);
            }
            let shared = |one: &Snapshot| one.by_lease + one.by_server;
            let served =
                after.iter().find(|one| !one.policy_in_force && shared(one) > shared(&before)).map(|one| one.at);
            first = first.into_iter().chain(served).min();
        }
        let (policy, first) = (Duration::from_micros(policy_until - event), Duration::from_micros(first? - event));
        println!("{}: served again {first:?} after the event; policy in force until {policy:?}", self.load.name);
        Some(policy.max(first))
    }

    /// Expects that checks took no longer than the deadline and the scheduler's noise.
    ///
    /// # Panics
    ///
    /// If one did.
    pub fn expect_in_time(&self, figures: &Figures) {
        let most = self.load.deadline + 2 * figures.lateness + NOISE;
        assert!(figures.slowest <= most, "a check took {:?}, at most {most:?} are allowed", figures.slowest);
    }

    /// Lets all workers end, except of those whose places are in `lost`.
    ///
    /// # Panics
    ///
    /// If one of them hangs, panicked or complained.
    pub fn finish_but(&mut self, lost: &[usize]) {
        for (place, worker) in self.workers.iter_mut().enumerate() {
            if !lost.contains(&place) {
                worker.finish_well();
            }
        }
    }

    /// Lets all workers end.
    ///
    /// # Panics
    ///
    /// If one of them hangs, panicked or complained.
    pub fn finish(&mut self) {
        self.finish_but(&[]);
    }
}

/// The work of a fleet between two instants.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    name: String,
    micros: u64,
    /// Admitted tokens.
    pub admitted: u64,
    /// These as a share of what the rate brought.
    pub used: f64,
    /// Checks that ended.
    pub checks: u64,
    /// The denied ones of these.
    pub denied: u64,
    /// Commands that were sent.
    pub commands: u64,
    /// The most commands a second that one process sent.
    pub most_commands: f64,
    /// Tokens that leases admitted.
    pub by_lease: u64,
    /// Checks that the server decided.
    pub by_server: u64,
    /// Checks that the policy decided.
    pub by_policy: u64,
    /// The slowest check.
    pub slowest: Duration,
    /// By how much a timer was late at most.
    pub lateness: Duration,
    /// Workers that reported.
    pub reported: usize,
    /// Those whose policy was in force at their last report.
    pub on_policy: usize,
    /// Reports of a policy in force, as a share.
    pub policy_share: f64,
}

impl Figures {
    fn add(&mut self, snapshots: &[Snapshot], from: u64, until: u64) {
        let before = snapshots.iter().rev().find(|one| one.at < from).cloned().unwrap_or_default();
        let inside: Vec<&Snapshot> = snapshots.iter().filter(|one| (from..until).contains(&one.at)).collect();
        let Some(last) = inside.last() else { return };
        self.reported += 1;
        self.on_policy += usize::from(last.policy_in_force);
        self.checks += last.checks - before.checks;
        self.denied += (last.checks - before.checks).saturating_sub(last.allowed - before.allowed);
        let commands = last.commands - before.commands;
        self.commands += commands;
        let begin = if before.at == 0 { inside[0].at } else { before.at };
        self.most_commands = self.most_commands.max(commands as f64 * 1e6 / (last.at - begin).max(1) as f64);
        self.by_lease += last.by_lease - before.by_lease;
        self.by_server += last.by_server - before.by_server;
        self.by_policy += last.by_policy - before.by_policy;
        let on_policy = inside.iter().filter(|one| one.policy_in_force).count() as f64 / inside.len() as f64;
        self.policy_share += (on_policy - self.policy_share) / self.reported as f64;
        for snapshot in inside {
            self.slowest = self.slowest.max(Duration::from_micros(snapshot.slowest));
            self.lateness = self.lateness.max(Duration::from_micros(snapshot.lateness));
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {:.2} s: {} checks, {} denied, {} admitted ({:.1} % of the rate), {} by lease; decided by server {}, by policy {}; \
             {} commands ({:.1}/s of one process at most); slowest check {:?}, timers late by {:?}; policy in force in {} of {}, \
             {:.0} % of the time",
            self.name,
            self.micros as f64 / 1e6,
            self.checks,
            self.denied,
            self.admitted,
            self.used * 100.0,
            self.by_lease,
            self.by_server,
            self.by_policy,
            self.commands,
            self.most_commands,
            self.slowest,
            self.lateness,
            self.on_policy,
            self.reported,
            self.policy_share * 100.0
        )
    }
}
