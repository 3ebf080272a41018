//! Policies for the time in which the server cannot decide.

use core::fmt;

/// Decides on a check that the server does not answer in time, or not at all.
///
/// Tokens that a process has leased are spent first, whatever the policy: they were taken from the limit before.
///
/// | policy | a check is | all processes together admit at most | when the server is back |
/// |---|---|---|---|
/// | [`LocalShare`](Self::LocalShare) | decided by a bucket of this process's own: the quota divided by the number of processes, empty at first; denied while that number is not known | the quota's rate; `k` of `N` processes that are cut off add at most `k/N` of it to what the others admit | its tokens are charged to the limit, up to its share of the burst |
/// | [`Open`](Self::Open) | allowed | anything | nothing is charged |
/// | [`Closed`](Self::Closed) | denied | what was leased | |
///
/// The server counts the processes. A process that starts while the server is gone knows no number, so it admits nothing under
/// `LocalShare`, unless [`processes`](crate::RedisLimiterBuilder::processes) has set one.
///
/// When the server is back, each process charges with its first command, and processes come back one after the other, within about half a
/// second. The first ones find a limit that has filled meanwhile. So until the last of `N` processes has charged, the others may spend
/// up to `(N - 1)/N` of a burst beyond the quota (53 % of a burst was measured). The charges put the limit in debt by as much,
/// down to [`Quota::max_debt`](damper_core::Quota::max_debt), so it is repaid before another token is allowed.
///
/// Why a local share is not charged in full: while no process reaches the server, the limit there fills by no more than a burst, and the
/// charges of all processes take just that back. Were all of it charged, ten seconds without a server would cost ten more in which nothing
/// is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WhenDown {
    /// Decides by this process's share of the quota.
    #[default]
    LocalShare,
    /// Allows everything.
    Open,
    /// Denies everything.
    Closed,
}

impl WhenDown {
    /// Returns the policy's name in lower case, as metrics have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LocalShare => "local_share",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

impl fmt::Display for WhenDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
