//! Settings of [damper](https://docs.rs/damper)'s limits, breakers, retries and stacks, checked and reloaded live.
//!
//! They come from TOML, JSON, YAML and environment variables.
//!
//! The crate [`damper`](https://docs.rs/damper) has it as `damper::config`, and the primitives of
//! [`damper-core`](https://docs.rs/damper-core) beside it.
//!
//! # Reading settings
//!
//! A file has a section for each limit, breaker and policy. A key that is missing has its default.
//!
//! ```toml
//! [server.http.ratelimit]
//! quota = "5000/h burst 100"
//!
//! [client.http]
//! circuit_breaker.cooldown = "10s"
//! stack.concurrency = "bulkhead_per_host"
//! ```
//!
//! [`Sources`] are read in their order, and a later one overrides an earlier one, key by key. A section builds the limit or policy it
//! describes:
//!
//! ```
//! # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
//! use damper::CircuitBreaker;
//! use damper::config::Sources;
//!
//! # let file = std::env::temp_dir().join(format!("damper-config-front-{}.toml", std::process::id()));
//! # std::fs::write(&file, "[server.http.ratelimit]\nquota = \"5000/h burst 100\"")?;
//! let settings = Sources::new().file(&file).environment("APP").load()?;
//! # std::fs::remove_file(&file)?;
//! let limiter = settings.server.http.ratelimit.limiter();
//! let breaker = CircuitBreaker::new(settings.client.http.circuit_breaker.config());
//! # assert_eq!(limiter.quota().to_string(), "5000/h burst 100");
//! # let _ = breaker;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Finding mistakes
//!
//! [`Sources::load`] lists all mistakes at once, each with its place, the value, and the allowed values:
//!
//! ```
//! # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
//! use damper::config::Sources;
//!
//! let text = "[client.http.retry]\nmax_attempts = 1000\nbase_dealy = '50ms'";
//! let error = Sources::new().toml("app.toml", text).load().unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "app.toml:2:1: client.http.retry.max_attempts is 1000, it must be a whole number from 1 to 100\n\
//!      app.toml:3:1: client.http.retry.base_dealy is no known key, did you mean client.http.retry.base_delay?"
//! );
//! ```
//!
//! [`Sources::normalized`] is for a program that must start in spite of mistakes. It leaves bad values out, and returns the mistakes for
//! the log.
//!
//! # Building stacks
//!
//! With the features `tower` and `tokio`, a stack has the parts that the section `stack` enables, in the right order:
//!
//! ```
//! # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
//! # #[cfg(all(feature = "tower", feature = "tokio"))] {
//! use damper::config::Sources;
//! use http_body_util::Empty;
//! use hyper_util::{client::legacy::Client, rt::TokioExecutor};
//!
//! let text = "[client.http]\nstack = { pacing = true, hedge = true }\npacing.quota = '4500/h'";
//! let settings = Sources::new().toml("app.toml", text).load()?;
//! let transport = Client::builder(TokioExecutor::new()).build_http();
//! let client = settings.client.http.client_stack()?.boxed::<_, Empty<bytes::Bytes>, _>(transport);
//! let server = settings.server.http.server_stack()?; // a layer: Router::new().layer(server)
//! # let _ = (client, server);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Changing settings while the program runs
//!
//! A [`Reloader`] reads the sources again and applies the changes to the [bound](Reloader::bind) limits, which keep their state. All
//! changes of a file are applied, or none:
//!
//! ```
//! # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
//! use damper::config::{Reloader, Sources};
//! use std::sync::Arc;
//!
//! # let file = std::env::temp_dir().join(format!("damper-config-reload-{}.toml", std::process::id()));
//! # std::fs::write(&file, "")?;
//! let reloader = Reloader::new(Sources::new().file(&file))?;
//! let limiter = Arc::new(reloader.settings().server.http.ratelimit.limiter());
//! let reloader = reloader.bind(|settings| &settings.server.http.ratelimit, Arc::clone(&limiter));
//!
//! std::fs::write(&file, "server.http.ratelimit.quota = '20/s burst 40'")?;
//! for change in reloader.reload()? {
//!     println!("{change}"); // server.http.ratelimit.quota changed from unset to "20/s burst 40"
//! }
//! # std::fs::remove_file(&file)?;
//! assert_eq!(limiter.quota().to_string(), "20/s burst 40");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Reloader::watch`] starts a thread that does so when the file changes.
//!
//! # Which function
//!
//! | to | use |
//! |---|---|
//! | read settings, and refuse any mistake | [`Sources::load`], or [`load`] for one file |
//! | read settings, and leave mistakes out | [`Sources::normalized`] |
//! | build a stack from settings | `ServerLayers::server_stack`, `ClientLayers::client_stack` (features `tower` and `tokio`) |
//! | apply changed settings to running limits | [`Reloader`]; with a thread that watches the file: [`Reloader::watch`] |
//! | check a file before it is deployed | `damper-config check FILE` |
//! | see every key | [the reference](https://github.com/damper-rs/damper/blob/main/crates/damper-config/reference.md), [`Settings::keys`], [`reference()`], [`json_schema`], [`sample`] |
//!
//! All settings implement [`serde::Deserialize`], each section by itself too, with the same checks. So a program that reads its files with
//! `config` or `figment` can read them that way. It then loses the positions in files, and which source gave a value: a burst in a file and
//! a quota in a variable contradict each other there.
//!
//! # Ranges
//!
//! Each key has a range. There is no value for "no limit". A value out of its range is an error or is left out, never replaced by the
//! nearest bound. Values in their ranges can still be far looser than intended: a range excludes slips such as 0 or a cooldown of a
//! microsecond, but does not judge a limit.
//!
//! # Limits of a reload
//!
//! Among the keys that need a restart are those of pacing, of Mesh clients, and of the parts and classes of stacks; the algorithms, keys,
//! proxies, headers and marks of limits; the sizes of tables; the growth and jitter of retries; the order of queues and the first
//! adaptive limit. A reload that finds such a change applies nothing. [`KeyDescription::is_live`] says which keys are live. Your own
//! [`Reload`] can take any key.
//!
//! Some changes of a live quota may need a restart too, if the limit counts all requests together by another algorithm than a token
//! bucket. Then the reload applies nothing either, and says so. The first quota is that of the program's start.
//!
//! | algorithm | changes that a reload may refuse |
//! |---|---|
//! | `leaky_bucket` | a rate of more than 1,000 times the first one; a burst that takes more than 100 days at the first rate |
//! | `fixed_window` | a window of less than a 1,000th of the first one |
//! | `sliding_counter` | such a window; a limit above 65,535 with more binary digits than the first limit |
//! | `sliding_log` | such a window; any other limit |
//!
//! A reload may also refuse a floor of a retry budget of more than 1,000 times the first one.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `http` | layers of HTTP from settings: `RateLimitSettings::layer`, `CircuitBreakerSettings::layer` |
//! | `tokio` | layers that wait by tokio's timer: deadlines, retries, hedges, pacing, limits of calls in flight |
//! | `tower` | with `tokio`, stacks of all parts: `settings.server.http.server_stack()`, `settings.client.http.client_stack()` |
//! | `mesh` | scopes of Mesh: `settings.server.mesh.scopes()`; with `tokio`, clients: `settings.client.mesh.builder(http, uri)` |
//! | `tracing` | a log line at `warn` for each value that `normalized` leaves out |
#![cfg_attr(docsrs, feature(doc_cfg))]

// | file | what |
// |---|---|
// | `value` | values with their positions, before any check |
// | `document/` | the formats |
// | `kind`, `setting` | types and ranges; reading and writing of a type |
// | `section` | the macros that generate a section from one list of keys |
// | `settings/` | the sections and their tree |
// | `bind`, `problem` | from values to settings; mistakes |
// | `sources` | files, texts, variables |
// | `live/` | reload and watch |
// | `plans` | plans of a quota tree by name |
// | `reference` | the reference, the schema and the sample |
// | `http/` | limits, layers and stacks of HTTP and gRPC |
// | `mesh` | limits of Mesh |

mod bind;
mod document;
#[cfg(feature = "http")]
mod http;
mod kind;
mod live;
#[cfg(feature = "mesh")]
mod mesh;
mod plans;
mod problem;
mod reference;
mod section;
mod setting;
mod settings;
mod sources;
mod value;

#[cfg(all(feature = "tower", feature = "tokio"))]
pub use crate::http::{ConfiguredClientParts, ConfiguredClientStack, ConfiguredServerParts, ConfiguredServerStack};
#[cfg(feature = "http")]
pub use crate::http::{ConfiguredLimit, ConfiguredLimitError, ConfiguredPacers};
pub use document::Format;
pub use kind::Kind;
pub use live::{Reload, ReloadError, Reloader, SettingChange, Watch};
#[cfg(feature = "mesh")]
pub use mesh::ConfiguredScopes;
pub use plans::{Plans, PlansError};
pub use problem::{ConfigError, Problem, ProblemCause};
pub use reference::{json_schema, reference, sample};
pub use settings::{
    AdaptiveLimitSettings, AdmissionSettings, BulkheadSettings, CircuitBreakerSettings, ClientDeadlineSettings,
    ClientLayers, ClientRateLimitSettings, ClientSettings, ClientStackSettings, HedgeSettings, KeyDescription,
    MeshClientSettings, MeshSettings, PacingSettings, RateLimitSettings, RetryBudgetSettings, RetrySettings,
    ServerDeadlineSettings, ServerLayers, ServerSettings, ServerStackSettings, Settings, ThrottleSettings, Tiers,
    TreeSettings,
};
pub use sources::Sources;

use std::path::PathBuf;

/// Reads the settings of one file, and accepts no mistake.
///
/// # Errors
///
/// [`ConfigError`], which lists all mistakes.
pub fn load(path: impl Into<PathBuf>) -> Result<Settings, ConfigError> {
    Sources::new().file(path).load()
}

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
