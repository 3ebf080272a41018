//! How full a limit is taken to be that the server has lost.

use core::time::Duration;

/// How full a limit is taken to be that the server has no memory of, after it lost its memory.
///
/// A limit that is full needs no memory, so a key that is missing usually means a full limit. After a restart without
/// persistence, a `FLUSHALL` or a failover to an empty replica it means nothing: the limit may have been exhausted a moment ago. A
/// marker that never expires tells the two apart: without it, the server has lost its memory. The first process that finds it
/// missing sets it again, with the server's time.
///
/// | after a loss | a missing limit is | a key admits beyond its quota at most |
/// |---|---|---|
/// | [`Empty`](Self::Empty) | one that was empty at the marker's time, for ever | nothing |
/// | [`EmptyFor`](Self::EmptyFor)`(d)` | the same until `d` after the marker's time, and full from then on | its burst less what `d` refills |
/// | [`Full`](Self::Full) | full | its burst |
///
/// Leases that were granted before the loss are honoured too: for the length of one lease, as much as leases may hold is set aside.
///
/// A server that is used for the first time has no marker either. [`mark_deployed`](crate::RedisLimiterBuilder::mark_deployed) sets
/// it, so that limits are full from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AfterLoss {
    /// Limits are empty at the time of the loss, and refill from then on.
    Empty,
    /// The same for this time; later a missing limit is full. In milliseconds, rounded up.
    EmptyFor(Duration),
    /// Limits are full.
    Full,
}

/// [`EmptyFor`](AfterLoss::EmptyFor) 60 seconds.
impl Default for AfterLoss {
    fn default() -> Self {
        Self::EmptyFor(Duration::from_mins(1))
    }
}
