//! The sections, and the tree of them.

// | file | sections |
// |---|---|
// | `mod` | `Settings`: the tree |
// | `rate_limit` | `ratelimit`, of servers and of clients |
// | `circuit_breaker` | `circuit_breaker` |
// | `retry` | `retry`, `retry_budget`, `hedge` |
// | `deadline` | `deadline`, of servers and of clients |
// | `concurrency` | `bulkhead`, `adaptive_limit`, `admission` |
// | `throttle` | `throttle` |

mod circuit_breaker;
mod concurrency;
mod deadline;
mod rate_limit;
mod retry;
mod throttle;

pub use circuit_breaker::CircuitBreakerSettings;
pub use concurrency::{AdaptiveLimitSettings, AdmissionSettings, BulkheadSettings};
pub use deadline::{ClientDeadlineSettings, ServerDeadlineSettings};
pub use rate_limit::{ClientRateLimitSettings, LimitKey, RateLimitSettings};
pub use retry::{HedgeSettings, RetryBudgetSettings, RetrySettings};
pub use throttle::ThrottleSettings;

use crate::section::{Key, Section, Tree, group};
use crate::setting::Written;
use std::fmt::Write as _;
use std::time::Duration;

const DAY: Duration = Duration::from_hours(24);

group! {
    /// All settings: a value of each key that is in its range.
    ///
    /// Only the functions that read files and variables make other values than the defaults, and they check each. So everything
    /// that is built from settings can be built.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
    /// use damper::config::Sources;
    ///
    /// let settings = Sources::new().toml("example", "[client.http.circuit_breaker]\ncooldown = \"10s\"").load()?;
    /// let breaker = damper::CircuitBreaker::new(settings.client.http.circuit_breaker.config());
    /// # Ok::<(), damper_config::ConfigError>(())
    /// ```
    Settings {
        /// The settings of servers: `server`.
        server: ServerSettings,
        /// The settings of clients: `client`.
        client: ClientSettings,
    }
}

group! {
    /// The settings of servers, by protocol.
    ServerSettings {
        /// Of HTTP: `server.http`.
        http: ServerLayers,
        /// Of gRPC: `server.grpc`.
        grpc: ServerLayers,
    }
}

group! {
    /// The settings of clients, by protocol.
    ClientSettings {
        /// Of HTTP: `client.http`.
        http: ClientLayers,
        /// Of gRPC: `client.grpc`.
        grpc: ClientLayers,
    }
}

group! {
    /// The settings of a server's layers.
    ServerLayers {
        /// Requests per second.
        ratelimit: RateLimitSettings,
        /// Requests in flight, a fixed number.
        bulkhead: BulkheadSettings,
        /// Requests in flight, as the latency says.
        adaptive_limit: AdaptiveLimitSettings,
        /// Requests in flight, by class and tenant.
        admission: AdmissionSettings,
        /// The time of a request.
        deadline: ServerDeadlineSettings,
    }
}

group! {
    /// The settings of a client's layers.
    ClientLayers {
        /// When calls stop to a server that fails.
        circuit_breaker: CircuitBreakerSettings,
        /// How calls are tried again.
        retry: RetrySettings,
        /// How many retries there may be.
        retry_budget: RetryBudgetSettings,
        /// Attempts beside slow ones.
        hedge: HedgeSettings,
        /// Calls that a server would reject.
        throttle: ThrottleSettings,
        /// Calls per second.
        ratelimit: ClientRateLimitSettings,
        /// Calls in flight, a fixed number.
        bulkhead: BulkheadSettings,
        /// Calls in flight, as the latency says.
        adaptive_limit: AdaptiveLimitSettings,
        /// The time of a call.
        deadline: ClientDeadlineSettings,
    }
}

/// A key with its path and its default, for a reference of your own.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KeyDescription {
    /// The whole name: `server.http.ratelimit.burst`.
    pub path: String,
    /// Its description.
    pub key: Key,
    /// The default as TOML writes it; `None` if the key is unset.
    pub default: Option<String>,
}

impl Settings {
    /// Returns the description of every key, in the order of the reference.
    #[must_use]
    pub fn keys() -> Vec<KeyDescription> {
        let defaults = Self::default();
        let mut all = Vec::new();
        for (path, section) in defaults.all_sections() {
            all.extend(section.keys().iter().map(|key| KeyDescription {
                path: format!("{path}.{}", key.name),
                key: *key,
                default: section.written(key.name).literal(),
            }));
        }
        all
    }

    /// Writes the settings as TOML, those of every key that has a value.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for (path, section) in self.all_sections() {
            let separator = if text.is_empty() { "" } else { "\n" };
            _ = writeln!(text, "{separator}[{path}]");
            // A key that stands instead of others is written without them.
            let is_set = |key: &str| section.written(key) != Written::Unset;
            let conflict = section.conflict(&is_set);
            let instead = conflict.and_then(|conflict| conflict.keys.get(1..)).unwrap_or_default();
            for key in section.keys().iter().filter(|key| !instead.contains(&key.name)) {
                if let Some(literal) = section.written(key.name).literal() {
                    _ = writeln!(text, "{} = {literal}", key.name);
                }
            }
        }
        text
    }

    pub(crate) fn all_sections(&self) -> Vec<(String, &dyn Section)> {
        let mut found = Vec::new();
        self.sections("", &mut found);
        found
    }

    pub(crate) fn section_at(&mut self, path: &str) -> Option<&mut dyn Section> {
        self.section_mut(path)
    }
}
