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
// | `circuit_breaker` | `CircuitBreaker`: constructors, calls and permits, and the way of a call through it |
// | `controls` | the state as an operator sees it, and the controls that change it |
// | `rates` | the outcomes in the window, and the rates at which they trip the breaker |
// | `transitions` | `Transitions`: the loops around the compare-and-swap, of breakers of either width |
// | `state_machine` | `Settings`: the settings and the rules, which give the next snapshot without atomics or a clock |
// | `live_settings` | `LiveSettings`: settings that can be changed while they are used |
// | `settings` | `Record`, `BreakerSettings`: the settings and times of 64 bits, and their packed words |
// | `breaker_state` | `BreakerState`: the word of 64 bits, and the times beside it |
// | `wrapping_micros` | `WrappingMicros`: times in few bits |
// | `state_word` | `StateWord`: the atomic word of 64 or 32 bits, its fields, and the compare-and-swap |
// | `tally` | `Tally`: a window of calls in the word of a breaker that the program places |
// | `window` | the outcomes from which rates are computed |
// | `permit` | `Permit`, `BreakerRef`, `Verdict`; `Breaker`, the methods of a breaker that permits call |
// | `run` | `Run`: a future behind a breaker |
// | `status` | `BreakerStatus` |
// | `state_change` | `StateChange`, `Cause`, `OnStateChange` |
// | `recent_changes` | `RecentChanges`: the last changes, for those who look afterwards |
// | `config` | `BreakerConfig`, its builder and its error |
// | `error` | `CircuitOpen`, `SetConfigError` |
// | `keyed_circuit_breaker` | `KeyedCircuitBreaker`: one breaker per key; its template; `KeyListener`, which knows the key |
//
// | trait | implemented by | says |
// |---|---|---|
// | `Breaker` | the breakers of 64 and 32 bits, and two in shadow mode | how a call is admitted and its outcome recorded |
// | `Transitions` | the breakers of 64 and 32 bits | where the word, the settings and the clock are |
// | `Settings` | the settings of either width | what the rules read, and the rules |
// | `Word` | `u64`, `u32`, and the words of `words` | where the fields of the word are |
// | `BreakerRef` | pointers to a `Breaker` | what a permit can hold |
// | `OnStateChange` | listeners of users | what is called after a change |
//
// A call that changes no state ends in `CircuitBreaker::admit` and `record`. Otherwise `Transitions` asks `Settings` for the next
// snapshot, and swaps the `StateWord`.

// First, so that the documentation begins with how to create a breaker.
mod circuit_breaker;

mod breaker_state;
mod config;
mod controls;
mod error;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod keyed_circuit_breaker;
mod live_settings;
pub(crate) mod permit;
mod rates;
mod recent_changes;
mod run;
mod settings;
mod state_change;
pub(crate) mod state_machine;
pub(crate) mod state_word;
mod status;
#[cfg(target_has_atomic = "64")]
mod tally;
pub(crate) mod transitions;
mod window;
mod wrapping_micros;

pub use crate::call_error::CallError;
pub use circuit_breaker::CircuitBreaker;
pub(crate) use circuit_breaker::{OnUnwind, guarded_call};
pub use config::{BreakerConfig, BreakerConfigBuilder};
pub(crate) use error::source_of;
pub use error::{CircuitOpen, SetConfigError};
#[cfg(feature = "std")]
pub(crate) use keyed_circuit_breaker::BreakerTemplate;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use keyed_circuit_breaker::{KeyListener, KeyedCircuitBreaker};
pub(crate) use permit::BreakerRef;
pub use permit::{Permit, Verdict};
pub use recent_changes::RecentChanges;
pub use run::Run;
pub use state_change::{Cause, OnStateChange, StateChange};
pub use state_word::State;
pub use status::BreakerStatus;
#[cfg(target_has_atomic = "64")]
pub(crate) use tally::Tally;
pub use window::Window;
