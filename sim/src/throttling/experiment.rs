//! The clients, the server and its trouble.

use super::server::{Algorithm, Level};
use damper::Quota;

/// A number of clients that call a server as fast as their throttle lets them.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// How many threads call.
    pub clients: usize,
    /// How many throttles they have. The clients of a process share one.
    pub processes: usize,
    /// The server's quota, for all clients together.
    pub quota: Quota,
    /// The quota that the clients are configured with, if it is not the server's.
    pub told: Option<Quota>,
    /// How the server counts.
    pub algorithm: Algorithm,
    /// The tokens that the server holds at the start.
    pub level: Level,
    /// Whether answers carry `Retry-After` and the time until the quota resets, beside what remains.
    pub hints: bool,
    /// The share of answers without hints and without what remains, as gateways and caches give them.
    pub bare: f64,
    /// The mean time from a call to its answer, in seconds. The server decides in the middle.
    pub latency: f64,
    /// The share by which a latency may differ from the mean.
    pub latency_spread: f64,
    /// Seconds between the first calls of two clients. At 0 all begin at once.
    pub join_gap: f64,
    /// From when until when the server refuses every call, in seconds.
    pub outage: Option<(f64, f64)>,
    /// Whether the server gains tokens while the clients clear a full quota.
    pub refilled: bool,
    /// When the run ends.
    pub end: End,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    /// After so many seconds.
    After(f64),
    /// When at most so many tokens remain, or after so many seconds.
    Cleared {
        /// How many tokens may remain.
        remaining: u32,
        /// The longest run, in seconds.
        within: f64,
        /// Whether the server gains tokens meanwhile.
        refill: bool,
    },
}

impl Default for Experiment {
    /// The published experiment: 10 clients, 4,500 tokens per hour, 30 minutes.
    ///
    /// The published figures are those of 10 throttles. If the 5 threads of each process share one, strategy 3 clears in 440 s
    /// instead of the published 551, and strategy 4 has half of the published retries.
    fn default() -> Self {
        Self {
            clients: 10,
            processes: 10,
            quota: Quota::per_hour(4_500),
            told: None,
            algorithm: Algorithm::TokenBucket,
            level: Level::Empty,
            hints: false,
            bare: 0.0,
            latency: 0.165,
            latency_spread: 0.2,
            join_gap: 0.0,
            outage: None,
            refilled: false,
            end: End::After(1_800.0),
        }
    }
}

impl Experiment {
    /// Returns the quota that the clients are configured with.
    pub fn told(&self) -> Quota {
        self.told.unwrap_or(self.quota)
    }

    /// Returns the same clients at a full server, until ten or fewer tokens remain.
    #[must_use]
    pub fn clearing(&self) -> Self {
        Self {
            level: Level::Full,
            end: End::Cleared { remaining: 10, within: 36_000.0, refill: self.refilled },
            ..self.clone()
        }
    }
}
