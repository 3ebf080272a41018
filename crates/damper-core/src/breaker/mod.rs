//! Circuit breaking: [`CircuitBreaker`] stops calling what keeps failing.
//!
//! ```text
//!            too many failures              cooldown over: the next call is a probe
//!  CLOSED ───────────────────────▶ OPEN ──────────────────────────────────────────▶ HALF-OPEN
//!    ▲                              ▲                                                │    │
//!    │                              └───────────── a probe fails or is slow ─────────┘    │
//!    └──────────────────────────── enough probes succeed ─────────────────────────────────┘
//! ```

// | file | idea |
// |---|---|
// | `word` | the one atomic word |
// | `policy`, `chance` | the state machine, apart from atomics, and the jitter of its cooldowns |
// | `window` | the outcomes that rates are taken of |
// | `circuit_breaker` | puts them together |
// | `admission`, `outcome` | the way through it: whether a call may be made, and what comes of it |
// | `permit`, `verdict` | the permission to make a call, and how that went |
// | `call`, `run` | a call behind a breaker, and a future |
// | `unwind` | a panic in a call of the adapters |
// | `control` | what somebody asks for |
// | `change`, `status` | what others are told |
// | `config`, `config_error` | settings, and which of them is out of range |
// | `error` | refusals |

// First, so that the documentation begins with how a breaker is made.
mod circuit_breaker;

mod admission;
mod call;
mod chance;
mod change;
mod config;
mod config_error;
mod control;
mod error;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod keyed_circuit_breaker;
mod outcome;
mod permit;
mod policy;
mod run;
mod status;
pub(crate) mod unwind;
mod verdict;
mod window;
mod word;

pub use change::{Cause, OnStateChange, StateChange};
pub use circuit_breaker::CircuitBreaker;
pub use config::{BreakerConfig, BreakerConfigBuilder};
pub use config_error::BreakerConfigError;
pub use error::{CallError, CircuitOpen};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use keyed_circuit_breaker::KeyedCircuitBreaker;
pub use permit::{BreakerRef, Permit};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use run::Run;
pub use status::BreakerStatus;
pub use verdict::Verdict;
pub use window::{Window, WindowError};
pub use word::State;
