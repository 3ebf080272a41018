//! Circuit breaking: [`CircuitBreaker`] stops calling what keeps failing.
//!
//! ```text
//!            failures in a row              cooldown over: the next call is a probe
//!  CLOSED ───────────────────────▶ OPEN ──────────────────────────────────────────▶ HALF-OPEN
//!    ▲                              ▲                                                │    │
//!    │                              └───────────── a probe fails ────────────────────┘    │
//!    └──────────────────────────── enough probes succeed ─────────────────────────────────┘
//! ```
//!
//! `word` is the one atomic word, `policy` the state machine apart from atomics, `circuit_breaker` puts them together.

mod circuit_breaker;
mod config;
mod error;
mod permit;
mod policy;
mod word;

pub use circuit_breaker::CircuitBreaker;
pub use config::{BreakerConfig, BreakerConfigBuilder, BreakerConfigError};
pub use error::{CallError, CircuitOpen};
pub use permit::{BreakerRef, Permit};
pub use word::State;
