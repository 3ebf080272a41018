//! The figures that a worker process reports, twenty times a second.

use std::fs;
use std::io;
use std::path::Path;

/// The figures of one worker; counts are since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// When it was taken, in µs since 1970.
    pub at: u64,
    /// Checks that have ended.
    pub checks: u64,
    /// Of these, the allowed ones.
    pub allowed: u64,
    /// The slowest check since the last snapshot, in µs.
    pub slowest: u64,
    /// By how much timers were late since the last snapshot, at most, in µs: the scheduler's noise.
    pub lateness: u64,
    /// Commands sent to the server.
    pub commands: u64,
    /// Tokens that leases admitted.
    pub by_lease: u64,
    /// Checks decided by the server.
    pub by_server: u64,
    /// Checks decided by the policy.
    pub by_policy: u64,
    /// Losses of the server's memory that were noticed.
    pub losses: u64,
    /// The processes that share the limit, as this one knows.
    pub processes: u64,
    /// Whether the policy is in force.
    pub policy_in_force: bool,
}

impl Snapshot {
    /// Returns the line of the file.
    #[must_use]
    pub fn line(&self) -> String {
        format!(
            "{} {} {} {} {} {} {} {} {} {} {} {}\n",
            self.at,
            self.checks,
            self.allowed,
            self.slowest,
            self.lateness,
            self.commands,
            self.by_lease,
            self.by_server,
            self.by_policy,
            self.losses,
            self.processes,
            u8::from(self.policy_in_force)
        )
    }

    /// Reads the whole lines of the file at `path`; a missing file has none.
    ///
    /// # Errors
    ///
    /// The file system's.
    pub fn read(path: &Path) -> io::Result<Vec<Self>> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        Ok(text.lines().filter_map(Self::of_line).collect())
    }

    fn of_line(line: &str) -> Option<Self> {
        let mut numbers = line.split(' ').map_while(|word| word.parse::<u64>().ok());
        let mut next = || numbers.next();
        Some(Self {
            at: next()?,
            checks: next()?,
            allowed: next()?,
            slowest: next()?,
            lateness: next()?,
            commands: next()?,
            by_lease: next()?,
            by_server: next()?,
            by_policy: next()?,
            losses: next()?,
            processes: next()?,
            policy_in_force: next()? == 1,
        })
    }
}
