//! Circuit breaking: [`CircuitBreaker`] stops calls to a service that keeps failing.
//!
//! ```text
//!            too many failures              cooldown over: the next call is a probe
//!  CLOSED ───────────────────────▶ OPEN ──────────────────────────────────────────▶ HALF-OPEN
//!    ▲                              ▲                                                │    │
//!    │                              └───────────── a probe fails or is slow ─────────┘    │
//!    └──────────────────────────── enough probes succeed ─────────────────────────────────┘
//! ```

// | file | type |
// |---|---|
// | `circuit_breaker` | `CircuitBreaker`: constructors, calls and permits, controls, state |
// | `circuit` | `Circuit`, the inside of a breaker: admits calls, records outcomes, notifies the listener |
// | `transitions` | `Transitions`: the loops around the compare-and-swap, of breakers of either width |
// | `state_machine` | `StateMachine`, the rules: the next snapshot, without atomics or a clock; `Settings`, their inputs |
// | `live_settings` | `LiveSettings`: settings that can be changed while they are used, in two records and an epoch |
// | `settings` | `Record`, `BreakerSettings`: the settings and times of 64 bits, and their packed words |
// | `claim` | `Claim`: the right to change settings |
// | `breaker_state` | `BreakerState`: the word of 64 bits, and the times beside it |
// | `wrapping_micros` | `WrappingMicros`: times in few bits |
// | `state_word` | `StateWord`: the atomic word of 64 or 32 bits, its fields, and the compare-and-swap |
// | `window` | the outcomes from which rates are computed |
// | `permit` | `Permit`, `BreakerRef`, `Verdict`, and `FailOnUnwind`, which records a panic as a failure |
// | `run` | `Run`: a future behind a breaker |
// | `status` | `BreakerStatus` |
// | `state_change` | `StateChange`, `Cause`, `OnStateChange` |
// | `recent_changes` | `RecentChanges`, `PastChange`: the last changes, for those who look afterwards |
// | `config` | `BreakerConfig`, its builder and its error |
// | `error` | `CircuitOpen` |
// | `set_config_error` | `SetConfigError` |
// | `keyed_circuit_breaker` | `KeyedCircuitBreaker`: one breaker per key; its template; `KeyListener`, which knows the key |

// First, so that the documentation begins with how to create a breaker.
mod circuit_breaker;

mod breaker_state;
mod circuit;
mod claim;
mod config;
mod error;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod keyed_circuit_breaker;
mod live_settings;
pub(crate) mod permit;
mod recent_changes;
mod run;
mod set_config_error;
mod settings;
mod state_change;
pub(crate) mod state_machine;
pub(crate) mod state_word;
mod status;
pub(crate) mod transitions;
mod window;
mod wrapping_micros;

pub use crate::call_error::CallError;
pub use circuit_breaker::CircuitBreaker;
pub use config::{BreakerConfig, BreakerConfigBuilder};
pub use error::CircuitOpen;
pub(crate) use error::source_of;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use keyed_circuit_breaker::{BreakerTemplate, KeyListener, KeyedCircuitBreaker};
pub use permit::{BreakerRef, Permit, Verdict};
pub use recent_changes::{PastChange, RecentChanges};
pub use run::Run;
pub use set_config_error::SetConfigError;
pub use state_change::{Cause, OnStateChange, StateChange};
pub use state_word::State;
pub use status::BreakerStatus;
pub use window::Window;
