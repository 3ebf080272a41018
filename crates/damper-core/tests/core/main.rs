//! damper-core through its public API.
//!
//! A module per concept. Those in `models` are slow and obvious, and other crates' tests and the fuzz targets use them too.

extern crate damper_core as damper;

#[cfg(feature = "alloc")]
mod assertions;
mod circuit_breaker;
mod clock;
mod concurrency;
mod conformance;
mod deadline;
#[cfg(feature = "std")]
mod decision_log;
mod error_messages;
mod extreme_clocks;
#[cfg(feature = "std")]
mod fast_seed;
#[cfg(feature = "std")]
mod forecasts;
#[cfg(feature = "std")]
mod gate_forwarding;
#[cfg(feature = "std")]
mod gates;
mod keyed;
mod limit;
mod models;
mod out_of_range;
#[cfg(feature = "std")]
mod refusal;
mod retry;
mod shadow;
#[cfg(feature = "std")]
mod status;
mod store;
mod throttle;
mod waiting;
mod word32;
mod word32_breaker;
#[cfg(target_has_atomic = "64")]
mod words;
