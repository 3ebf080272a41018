//! The lines that a process of the fleet writes to its stdout.

use core::fmt;
use core::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads the realtime clock, in µs since 1970: that of Redis, on this machine.
pub(crate) fn micros_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// The part that admitted a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Lease,
    Server,
    Policy,
}

impl Source {
    pub(crate) const ALL: [Self; 3] = [Self::Lease, Self::Server, Self::Policy];
}

/// A check that was allowed, between two readings of the clock in µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    pub(crate) source: Source,
}

/// The figures of a process; counts are since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// When it was taken, in µs.
    pub(crate) at: u64,
    pub(crate) checks: u64,
    pub(crate) commands: u64,
    /// The slowest check since the last snapshot, in µs.
    pub(crate) slowest: u64,
    /// By how much timers were late since the last snapshot at most, in µs.
    pub(crate) lateness: u64,
    /// 1 while the policy is in force.
    pub(crate) policy: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Admission(Admission),
    Snapshot(Snapshot),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admission(Admission { begun, ended, source }) => {
                writeln!(f, "admission {begun} {ended} {}", *source as u8)
            }
            Self::Snapshot(Snapshot { at, checks, commands, slowest, lateness, policy }) => {
                writeln!(f, "snapshot {at} {checks} {commands} {slowest} {lateness} {policy}")
            }
        }
    }
}

/// The line was cut off, because its process was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CutOff;

impl FromStr for Line {
    type Err = CutOff;

    fn from_str(line: &str) -> Result<Self, CutOff> {
        let mut words = line.split(' ');
        let kind = words.next();
        let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().map_err(|_| CutOff)?;
        match (kind, &numbers[..]) {
            (Some("admission"), &[begun, ended, source]) => {
                let source = Source::ALL.into_iter().find(|one| *one as u64 == source).ok_or(CutOff)?;
                Ok(Self::Admission(Admission { begun, ended, source }))
            }
            (Some("snapshot"), &[at, checks, commands, slowest, lateness, policy]) => {
                Ok(Self::Snapshot(Snapshot { at, checks, commands, slowest, lateness, policy }))
            }
            _ => Err(CutOff),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Admission, CutOff, Line, Snapshot, Source};

    #[test]
    fn lines_are_read_as_they_were_written() {
        let admission = Line::Admission(Admission { begun: 1, ended: 2, source: Source::Policy });
        let snapshot =
            Line::Snapshot(Snapshot { at: u64::MAX, checks: 1, commands: 2, slowest: 3, lateness: 4, policy: 1 });
        for line in [admission, snapshot] {
            assert_eq!(line.to_string().trim_end().parse(), Ok(line));
        }
        for cut_off in ["", "admission 1", "admission 1 2 7", "snapshot 1 2 3 4 5"] {
            assert_eq!(cut_off.parse::<Line>(), Err(CutOff), "{cut_off:?}");
        }
    }
}
