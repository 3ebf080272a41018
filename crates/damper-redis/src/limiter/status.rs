//! The status of a limiter, its counts and its events.

use super::WhenDown;
use crate::script::{Level, Reply, Terms};
use core::fmt;
use core::time::Duration;
use damper_core::breaker::State;
use damper_core::internal::usage_elsewhere;
use damper_core::{Quota, Usage};

/// The status of a limiter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RedisStatus {
    /// The policy in force because the server does not answer; `None` while the server decides.
    pub policy: Option<WhenDown>,
    /// How long this has been so.
    pub since: Duration,
    /// The checks that the policy has decided since the limiter was built.
    ///
    /// While [`policy`](Self::policy) is `None`, it also decides single checks that the server does not answer by the
    /// [deadline](crate::RedisLimiterBuilder::deadline). If the number grows then, the deadline is too short or the server too slow.
    pub decided_by_policy: u64,
    /// How long ago the policy decided a check for the last time; `None` if it never did.
    pub last_decided_by_policy: Option<Duration>,
    /// The state of the breaker before the connection.
    pub breaker: State,
    /// Whether there is a connection.
    pub connected: bool,
    /// The number of processes that share the limit; 0 while it is not known.
    ///
    /// [`WhenDown::LocalShare`] divides by it. The server counts them once a second. [`processes`](crate::RedisLimiterBuilder::processes) sets it before.
    pub processes: u32,
    /// The last error of a call or of a connection.
    ///
    /// It stays when the server is back. Its age shows whether it is the cause of the present state.
    pub last_error: Option<LastError>,
    /// The tokens that this process holds in leases.
    pub leased: u64,
}

impl RedisStatus {
    /// Returns the status of a limiter that needs no server.
    pub(super) fn unlimited() -> Self {
        Self {
            policy: None,
            since: Duration::ZERO,
            decided_by_policy: 0,
            last_decided_by_policy: None,
            breaker: State::Closed,
            connected: false,
            processes: 1,
            last_error: None,
            leased: 0,
        }
    }
}

/// The last error of a limiter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastError {
    /// The error, as a sentence.
    pub message: String,
    /// How long ago it happened last.
    pub age: Duration,
}

/// The sentence and the age in seconds: `cannot connect to 10.0.0.7:6379: no answer in time, 3.2 s ago`.
impl fmt::Display for LastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {:.1} s ago", self.message, self.age.as_secs_f64())
    }
}

/// Counts of a limiter's work since it was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisCounts {
    /// Commands that were sent to decide, to lease or to give back. Heartbeats are not counted.
    pub commands: u64,
    /// Commands without an answer in time, or with an error.
    pub failures: u64,
    /// Tokens that leases admitted.
    pub tokens_by_lease: u64,
    /// Checks that leases, or what was known of the server, denied without a command.
    pub denied_locally: u64,
    /// Checks that the server allowed.
    pub allowed_by_server: u64,
    /// Checks that the server denied.
    pub denied_by_server: u64,
    /// Checks that the policy allowed.
    pub allowed_by_policy: u64,
    /// Checks that the policy denied.
    pub denied_by_policy: u64,
    /// Grants of leases that were not empty.
    pub grants: u64,
    /// Tokens of these grants.
    pub tokens_granted: u64,
    /// Losses of the server's memory that this process has noticed.
    pub losses: u64,
    /// Connections that were made.
    pub connections: u64,
}

/// An event that a limiter reports to its listener.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RedisEvent {
    /// The server does not answer, so the policy decides from now on.
    PolicyInForce {
        /// The policy.
        policy: WhenDown,
        /// Why the first call failed.
        why: String,
    },
    /// The server decides again.
    ServerBack {
        /// How long the policy was in force.
        after: Duration,
    },
    /// The server has lost its memory of a limit.
    Loss,
    /// The number of processes that share the limit has changed.
    Processes {
        /// How many there are.
        processes: u32,
    },
}

impl fmt::Display for RedisEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PolicyInForce { policy, why } => write!(f, "policy {policy} in force: {why}"),
            Self::ServerBack { after } => write!(f, "server back after {after:?}"),
            Self::Loss => f.write_str("the server has lost its memory of a limit"),
            Self::Processes { processes } => write!(f, "{processes} processes share the limit"),
        }
    }
}

/// Returns the usage of the limit that has the fewest tokens left.
///
/// Tokens that this process has leased count as left. Those that other processes have leased count as used.
pub(super) fn usage_of(reply: &Reply, terms: &[Terms], quotas: &[Quota], leased: u32) -> Usage {
    let limits = reply.levels.iter().zip(terms).zip(quotas);
    let usages = limits.map(|((level, terms), quota)| of_limit(level, terms, *quota, reply.now, leased));
    // There is a reply only if there is at least one limit.
    usages.min_by_key(Usage::remaining).unwrap_or_else(|| usage_elsewhere(Quota::UNLIMITED, u32::MAX, 0, None))
}

/// Returns the usage of one limit.
fn of_limit(level: &Level, terms: &Terms, quota: Quota, now: u64, leased: u32) -> Usage {
    let remaining = level.remaining(terms).saturating_add(leased);
    let debt = level.owed.saturating_sub(terms.burst.into());
    let resets_in = level.resets_in(terms, now);
    usage_elsewhere(quota, remaining, u32::try_from(debt).unwrap_or(u32::MAX), resets_in)
}
