//! damper-redis through its public API, with a server that fails in the ways that a test asks for.

// The real server is in `redis-tests/`.

mod allocations;
mod by_plan;
mod fake;
mod faults;
mod gate;
#[cfg(feature = "http")]
mod http;
mod limiter;
#[cfg(feature = "metrics")]
mod metrics;
