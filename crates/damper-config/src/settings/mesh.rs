//! Limits of the protocol Mesh.

use super::DAY;
use super::rate_limit::{LARGEST_FIXED_PER_KEY, LARGEST_SLIDING_PER_KEY};
use crate::kind::Kind;
use crate::section::{Conflict, section};
use crate::setting::{Choice, choice};
use damper_core::Quota;
use damper_core::limit::Alignment;
use std::collections::BTreeMap;
use std::time::Duration;

/// How the limits of a Mesh service count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum MeshAlgorithm {
    /// Tokens that are refilled at the rate, up to the burst.
    #[default]
    TokenBucket,
    /// A count for each window.
    FixedWindow,
    /// A count for the last window, estimated from the counts of two windows.
    SlidingCounter,
}

choice! { MeshAlgorithm {
    "token_bucket" => MeshAlgorithm::TokenBucket,
    "fixed_window" => MeshAlgorithm::FixedWindow,
    "sliding_counter" => MeshAlgorithm::SlidingCounter,
} }

const PERCENT: Kind = Kind::Percent { min: 0, max: 100 };
/// The sizes of a document, in bytes.
const SIZE: Kind = Kind::Count { min: 1_024, max: 1 << 30 };
const WAIT: Kind = Kind::Duration { min: Duration::from_millis(1), max: DAY };

section! {
    /// How many requests a server of Mesh takes, by scope.
    ///
    /// A request takes a token of each scope that is set. Unset: the scope has no limit.
    MeshSettings {
        /// The quota of all requests together.
        global: Option<Quota> = None, Kind::Quota, Live;
        /// The quota of each service that calls.
        service: Option<Quota> = None, Kind::Quota, Live;
        /// The quota of each user.
        user: Option<Quota> = None, Kind::Quota, Live;
        /// The quotas of functions. Others have none.
        functions: BTreeMap<String, Quota> = BTreeMap::new(), Kind::FunctionQuotas, Live;
        /// How the limits count.
        ///
        /// A `token_bucket` is full at the start, so `100/min` admits up to 199 requests in the first minute: 100 at once, and 99 that
        /// are refilled. A `fixed_window` admits 100 in each of its minutes.
        algorithm: MeshAlgorithm = MeshAlgorithm::TokenBucket, MeshAlgorithm::KIND, Restart private;
        /// Where windows begin: with the first request, or at multiples of the window since the Unix epoch.
        ///
        /// Only with `fixed_window` and `sliding_counter`.
        alignment: Alignment = Alignment::FirstRequest, Alignment::KIND, Restart;
        /// At which part of a limit that is left responses warn that it approaches. 0%: they do not.
        warn_approaching: u32 = 10, PERCENT, Restart;
        /// At which part of a limit that is left responses warn that it is nearly exhausted. 0%: they do not.
        warn_nearly_exhausted: u32 = 2, PERCENT, Restart;
        /// The largest request, in bytes.
        max_request: u32 = 1 << 20, SIZE, Restart;
        /// For how many busy services, and for how many users, the tables are sized.
        max_keys: u32 = 8192, Kind::Count { min: 1, max: 1 << 24 }, Restart;
    }
    check |settings| settings.contradiction_in_force();
}

impl MeshAlgorithm {
    /// Returns the largest limit of a window. Each scope has a limiter per key.
    fn largest_limit(self) -> u32 {
        match self {
            Self::TokenBucket => u32::MAX,
            Self::FixedWindow => LARGEST_FIXED_PER_KEY,
            Self::SlidingCounter => LARGEST_SLIDING_PER_KEY,
        }
    }
}

impl MeshSettings {
    fn contradiction_in_force(&self) -> Option<Conflict> {
        if self.alignment != Alignment::FirstRequest && self.algorithm == MeshAlgorithm::TokenBucket {
            return Some(Conflict {
                keys: &["alignment", "algorithm"],
                looser: &[],
                expected: "alignment is for the algorithms fixed_window and sliding_counter",
            });
        }
        if self.warn_nearly_exhausted > self.warn_approaching {
            return Some(Conflict {
                keys: &["warn_nearly_exhausted", "warn_approaching"],
                looser: &[],
                expected: "warn_nearly_exhausted must be no more than warn_approaching",
            });
        }
        let quotas = [self.global, self.service, self.user];
        let mut quotas = quotas.iter().flatten().chain(self.functions.values());
        quotas.any(|quota| quota.limit() > self.algorithm.largest_limit()).then_some(Conflict {
            keys: &["algorithm", "global", "service", "user", "functions"],
            looser: &[],
            expected: "a window must have at most 1048574 requests with a sliding_counter, and 4294967294 with a fixed_window",
        })
    }
}

section! {
    /// How a client calls services of Mesh: its waits before and after a limit, and its attempts.
    MeshClientSettings {
        /// How many attempts a call may make, the first included. 1 is no retry.
        max_attempts: u32 = 5, Kind::Count { min: 1, max: 100 }, Restart;
        /// Below which part of a limit calls are slowed down. 0%: they wait only once nothing is left.
        pace_below: u32 = 10, PERCENT, Restart;
        /// The longest wait of a call that is slowed down or paused.
        ///
        /// A call that would wait longer fails at once. Unset: until its deadline, or `max_wait` without one.
        max_pacing_wait: Option<Duration> = None, WAIT, Restart;
        /// The longest wait after a refusal, whatever the service asks for.
        max_wait: Duration = Duration::from_secs(5 * 60), WAIT, Restart;
        /// The part of a wait that may be added to it by chance.
        jitter: u32 = 10, PERCENT, Restart;
        /// How long a call may take with its waits and attempts. Unset: as long as the request that it serves.
        timeout: Option<Duration> = None, WAIT, Restart;
        /// The largest response, in bytes.
        max_response: u32 = 4 << 20, SIZE, Restart;
    }
}
