//! The sections, and the tree of them.

// | file | sections |
// |---|---|
// | `mod` | `Settings`: the tree |
// | `rate_limit` | `ratelimit`, of servers and of clients |
// | `tiers` | the quotas of tiers, by name |
// | `circuit_breaker` | `circuit_breaker` |
// | `retry` | `retry`, `retry_budget`, `hedge` |
// | `deadline` | `deadline`, of servers and of clients |
// | `concurrency` | `bulkhead`, `adaptive_limit`, `admission` |
// | `throttle` | `throttle` |
// | `pacing` | `pacing` |
// | `stack` | `stack`, of servers and of clients |
// | `mesh` | `mesh`, of servers and of clients |
// | `tree` | `server.tree`: a quota tree and its plans |
// | `buildable` | a check that everything the settings describe can be built |

mod buildable;
mod circuit_breaker;
mod concurrency;
mod deadline;
mod mesh;
mod pacing;
mod rate_limit;
mod retry;
mod stack;
mod throttle;
mod tiers;
mod tree;

pub use circuit_breaker::CircuitBreakerSettings;
pub use concurrency::{AdaptiveLimitSettings, AdmissionSettings, BulkheadSettings};
pub use deadline::{ClientDeadlineSettings, ServerDeadlineSettings};
#[cfg(feature = "mesh")]
pub(crate) use mesh::MeshAlgorithm;
pub use mesh::{MeshClientSettings, MeshSettings};
#[cfg(feature = "http")]
pub(crate) use pacing::ConfiguredStrategy;
pub use pacing::PacingSettings;
pub use rate_limit::{ClientRateLimitSettings, RateLimitSettings};
pub(crate) use rate_limit::{LimitAlgorithm, ROOM};
#[cfg(feature = "http")]
pub(crate) use rate_limit::{LimitHeaders, LimitKey, ProxyHeader};
pub use retry::{HedgeSettings, RetryBudgetSettings, RetrySettings};
#[cfg(all(feature = "tower", feature = "tokio"))]
pub(crate) use stack::{ClientConcurrency, ServerConcurrency};
pub use stack::{ClientStackSettings, ServerStackSettings};
pub use throttle::ThrottleSettings;
pub use tiers::Tiers;
pub use tree::TreeSettings;

use crate::kind::Kind;
use crate::section::{Change, Section, Tree, group};
use crate::setting::Written;
use std::fmt::Write as _;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

group! {
    /// All settings, with a value in its range for each key.
    ///
    /// Only the functions that read sources create values other than the defaults, and they check each one. So everything that is built
    /// from settings can be built.
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
        /// Of Mesh: `server.mesh`.
        mesh: MeshSettings,
        /// Settings of a quota tree, which may serve several protocols: `server.tree`.
        tree: TreeSettings,
    }
}

group! {
    /// The settings of clients, by protocol.
    ClientSettings {
        /// Of HTTP: `client.http`.
        http: ClientLayers,
        /// Of gRPC: `client.grpc`.
        grpc: ClientLayers,
        /// Of Mesh: `client.mesh`.
        mesh: MeshClientSettings,
    }
}

group! {
    /// The settings of a server's layers.
    ServerLayers {
        /// The parts that a stack has.
        stack: ServerStackSettings,
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
        /// The parts that a stack has.
        stack: ClientStackSettings,
        /// The circuit breakers of failing servers.
        circuit_breaker: CircuitBreakerSettings,
        /// The retries of calls.
        retry: RetrySettings,
        /// The budget of the retries.
        retry_budget: RetryBudgetSettings,
        /// Attempts beside slow ones.
        hedge: HedgeSettings,
        /// Calls that a server would reject.
        throttle: ThrottleSettings,
        /// The sleeps before calls to a server with a limit.
        pacing: PacingSettings,
        /// Calls per second.
        ratelimit: ClientRateLimitSettings,
        /// Calls in flight, a fixed number.
        bulkhead: BulkheadSettings,
        /// Calls in flight, as the latency says.
        adaptive_limit: AdaptiveLimitSettings,
        /// The time of a call.
        deadline: ClientDeadlineSettings,
    }
    // The check compares `attempt_timeout` with `timeout`, which is not in force without the deadline.
    unchecked |layers, section| section == "deadline" && !layers.stack.deadline();
}

/// A key with its path, its rules and its default, for a reference of your own.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KeyDescription {
    /// The full name: `server.http.ratelimit.burst`.
    pub path: String,
    /// Its effect.
    pub doc: &'static str,
    /// Its type and its range.
    pub kind: Kind,
    /// Whether a reload applies a change of it. Otherwise a change needs a restart.
    pub is_live: bool,
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
                doc: key.doc(),
                kind: key.kind,
                is_live: key.change == Change::Live,
                default: section.written(key.name).literal(),
            }));
        }
        all
    }

    /// Returns the value of the key with this full name, as TOML writes it.
    ///
    /// `None` if the key has no value, or does not exist.
    ///
    /// # Examples
    ///
    /// ```
    /// let settings = damper_config::Settings::default();
    /// assert_eq!(settings.value("server.http.ratelimit.algorithm").as_deref(), Some("\"token_bucket\""));
    /// ```
    #[must_use]
    pub fn value(&self, path: &str) -> Option<String> {
        let (section, key) = path.rsplit_once('.')?;
        let sections = self.all_sections();
        let (_, section) = sections.into_iter().find(|(path, _)| path == section)?;
        section.written(key).literal()
    }

    /// Writes the settings of every key that has a value, as TOML.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for (path, section) in self.all_sections() {
            let separator = if text.is_empty() { "" } else { "\n" };
            _ = writeln!(text, "{separator}[{path}]");
            // A key that replaces others is written without them.
            let instead = section.instead().filter(|instead| section.written(instead.key) != Written::Unset);
            let others = instead.map(|instead| instead.others).unwrap_or_default();
            for key in section.keys().iter().filter(|key| !others.contains(&key.name)) {
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
