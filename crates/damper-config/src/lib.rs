//! Settings of damper's limits, breakers and retries: from TOML, JSON, YAML and environment variables, checked, and reloaded live in part.
//!
//! ```
//! # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
//! use damper::config::Sources;
//!
//! # let file = std::env::temp_dir().join(format!("damper-config-front-{}.toml", std::process::id()));
//! # std::fs::write(&file, "[server.http.ratelimit]\nquota = \"5000/h burst 100\"")?;
//! let settings = Sources::new().file(&file).environment("APP").load()?; // errors name key, value, range and line
//! # std::fs::remove_file(&file)?;
//! let limiter = settings.server.http.ratelimit.limiter();
//! let breaker = damper::CircuitBreaker::new(settings.client.http.circuit_breaker.config());
//! # assert_eq!(limiter.quota().to_string(), "5000/h burst 100");
//! # let _ = breaker;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to | use |
//! |---|---|
//! | read settings, and refuse any mistake | [`Sources::load`], or [`load`] for one file |
//! | read settings, and leave mistakes out | [`Sources::normalized`] |
//! | apply changed quotas, tiers, limits of bulkheads and of fixed gates to what runs | [`Reloader`]; by a thread that watches the file: [`Reloader::watch`] |
//! | check a file before it is deployed | `damper-config check FILE` |
//! | see every key | [the reference](https://github.com/damper-rs/damper/blob/main/crates/damper-config/reference.md), [`Settings::keys`], [`reference()`], [`json_schema`], [`sample`] |
//!
//! A key that a program of yours reads with another crate, such as `config` or `figment`: all settings are [`serde::Deserialize`], each
//! section by itself too, with the same checks. Only positions in files are lost on that way.
//!
//! Each key has a range. There is no value for "no limit", and a value out of its range is an error or is left out, never replaced by the
//! nearest bound. Values in their ranges can still be far looser than what you mean: a range excludes slips such as 0 or a cooldown of a
//! microsecond, and is no judgement of a limit.
//!
//! # What a reload does not change
//!
//! Circuit breakers, adaptive limits and the bounds of adaptive gates are **not reloaded yet**, nor are bulkheads per key, retries,
//! budgets, hedges and deadlines: a changed key of theirs needs a restart, and the reload that finds one changes nothing else either. What
//! is yours can take such keys by its own [`Reload`].
//!
//! The program applies waits and deadlines itself: no limit that is built here applies `max_wait` or a deadline.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `http` | layers of HTTP from settings: `RateLimitSettings::layer` |

// | file | what |
// |---|---|
// | `value` | values with their positions, before any check |
// | `document/` | the formats |
// | `kind`, `setting` | types and ranges; how a type is read and written |
// | `section` | the macros that make a section of one list of keys |
// | `settings/` | the sections and their tree |
// | `bind`, `problem` | values to settings; what is wrong with them |
// | `sources` | files, texts, variables |
// | `live/` | reload and watch |
// | `reference` | the reference, the schema and the sample |
// | `limit` | limits and layers of HTTP |

mod bind;
mod document;
mod kind;
#[cfg(feature = "http")]
mod limit;
mod live;
mod problem;
mod reference;
mod section;
mod setting;
mod settings;
mod sources;
mod value;

pub use document::Format;
pub use kind::Kind;
#[cfg(feature = "http")]
pub use limit::{ConfiguredLimit, ConfiguredLimitError};
pub use live::{Reload, ReloadError, Reloader, SettingChange, Watch};
pub use problem::{ConfigError, Problem, ProblemCause};
pub use reference::{json_schema, reference, sample};
pub use section::{Change, Key};
pub use settings::{
    AdaptiveLimitSettings, AdmissionSettings, BulkheadSettings, CircuitBreakerSettings, ClientDeadlineSettings,
    ClientLayers, ClientRateLimitSettings, ClientSettings, HedgeSettings, KeyDescription, LimitKey, RateLimitSettings,
    RetryBudgetSettings, RetrySettings, ServerDeadlineSettings, ServerLayers, ServerSettings, Settings,
    ThrottleSettings,
};
pub use sources::Sources;
pub use value::Origin;

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
