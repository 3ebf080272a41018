//! Circuit breaking: [`CircuitBreaker`] stops calling what keeps failing.
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
// | `state_machine` | `StateMachine`: computes the next snapshot, without atomics or a clock |
// | `state_word` | `StateWord`: the atomic word, its fields, and the compare-and-swap |
// | `window` | the outcomes from which rates are computed |
// | `permit` | `Permit`, `BreakerRef`, `Verdict`, and `FailOnUnwind`, which records a panic as a failure |
// | `run` | `Run`: a future behind a breaker |
// | `status` | `BreakerStatus` |
// | `state_change` | `StateChange`, `Cause`, `OnStateChange` |
// | `config` | `BreakerConfig`, its builder and its error |
// | `error` | `CircuitOpen` and `CallError` |
// | `keyed_circuit_breaker` | `KeyedCircuitBreaker`: one breaker per key |

// First, so that the documentation begins with how to create a breaker.
mod circuit_breaker;

mod circuit;
mod config;
mod error;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod keyed_circuit_breaker;
pub(crate) mod permit;
mod run;
mod state_change;
mod state_machine;
mod state_word;
mod status;
mod window;

pub use circuit_breaker::CircuitBreaker;
pub use config::{BreakerConfig, BreakerConfigBuilder, BreakerConfigError};
pub use error::{CallError, CircuitOpen};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use keyed_circuit_breaker::KeyedCircuitBreaker;
pub use permit::{BreakerRef, Permit, Verdict};
pub use run::Run;
pub use state_change::{Cause, OnStateChange, StateChange};
pub use state_word::State;
pub use status::BreakerStatus;
pub use window::Window;
