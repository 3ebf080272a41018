//! Policies for a server that cannot decide, or that has lost its memory.

use core::fmt;
use core::time::Duration;

/// The policy for checks that the server does not answer in time.
///
/// A process first spends its leased tokens, whatever the policy, because they are already taken from the limit.
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
/// When the server is back, the processes return one after the other, within about half a second, and each charges with its first
/// command, or with its second what a lost command carried. The first ones find a limit that has filled during the outage. So until the last of `N` processes has charged, the others may spend
/// up to `(N - 1)/N` of a burst beyond the quota (53 % of a burst was measured). The charges put the limit in debt by as much,
/// down to [`Quota::max_debt`](damper_core::Quota::max_debt), so it is repaid before another token is allowed.
///
/// A local share is not charged in full. While no process reaches the server, the limit there fills by no more than a burst, and the
/// charges of all processes take exactly that back. If all spent tokens were charged, an outage of ten seconds would be followed by ten
/// seconds in which nothing is allowed.
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

/// The level of a missing limit after the server has lost its memory.
///
/// A full limit has no key on the server, so a missing key usually means a full limit. After a restart without persistence, a
/// `FLUSHALL` or a failover to an empty replica it may also be a limit that was exhausted a moment ago. A marker that never expires
/// distinguishes the two. If it is missing, the server has lost its memory. The first process that finds it missing sets it again, with
/// the server's time.
///
/// | after a loss | a missing limit is | a key admits beyond its quota at most |
/// |---|---|---|
/// | [`Empty`](Self::Empty) | one that was empty at the marker's time, for ever | nothing |
/// | [`EmptyFor`](Self::EmptyFor)`(d)` | the same until `d` after the marker's time, and full from then on | its burst less what `d` refills |
/// | [`Full`](Self::Full) | full | its burst |
///
/// Leases that were granted before the loss stay valid. So for the length of one lease, the server sets aside as many tokens as leases
/// may hold.
///
/// A server that is used for the first time has no marker either. [`mark_deployed`](crate::RedisLimiterBuilder::mark_deployed) sets
/// it, so that limits are full from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AfterLoss {
    /// Limits are empty at the time of the loss, and refill from then on.
    Empty,
    /// Limits are empty at the time of the loss, and full if they are still missing after this time.
    EmptyFor(Duration),
    /// Limits are full.
    Full,
}

/// The default is [`EmptyFor`](AfterLoss::EmptyFor) 60 seconds.
impl Default for AfterLoss {
    fn default() -> Self {
        Self::EmptyFor(Duration::from_secs(60))
    }
}
