//! The figures of a phase, and of a slice of time.

use crate::line::{Admission, Source};
use crate::run::Evidence;

/// Admissions between two instants, by the part that admitted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) by_lease: u64,
    pub(crate) by_server: u64,
    pub(crate) by_policy: u64,
    /// Checks, and commands sent to Redis.
    pub(crate) checks: u64,
    pub(crate) commands: u64,
    /// The most commands that one process sent.
    pub(crate) most_commands: u64,
    /// The slowest check, and how late a timer was at most, in µs.
    pub(crate) slowest: u64,
    pub(crate) lateness: u64,
    /// The processes that reported, and those of them whose policy was in force in the end.
    pub(crate) reported: u64,
    pub(crate) on_policy: u64,
}

impl Tally {
    pub(crate) fn between(evidence: &Evidence, from: u64, until: u64) -> Self {
        let mut tally = Self::default();
        for record in &evidence.records {
            let inside = |one: &&Admission| (from..until).contains(&one.ended);
            for admission in record.admissions.iter().filter(inside) {
                match admission.source {
                    Source::Lease => tally.by_lease += 1,
                    Source::Server => tally.by_server += 1,
                    Source::Policy => tally.by_policy += 1,
                }
            }
            let before = record.snapshots.iter().rev().find(|one| one.at < from).copied().unwrap_or_default();
            let inside: Vec<_> = record.snapshots.iter().filter(|one| (from..until).contains(&one.at)).collect();
            let Some(last) = inside.last() else { continue };
            tally.reported += 1;
            tally.on_policy += last.policy;
            tally.checks += last.checks - before.checks;
            let commands = last.commands - before.commands;
            tally.commands += commands;
            tally.most_commands = tally.most_commands.max(commands);
            for snapshot in inside {
                tally.slowest = tally.slowest.max(snapshot.slowest);
                tally.lateness = tally.lateness.max(snapshot.lateness);
            }
        }
        tally
    }

    pub(crate) fn admitted(&self) -> u64 {
        self.by_lease + self.by_server + self.by_policy
    }
}
