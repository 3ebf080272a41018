//! damper-tower through its public API: gates before services of any request.

mod breaker;
mod bulkhead;
mod gate;
mod limit;
mod pacing;
mod throttle;
#[path = "../../../damper-core/tests/core/models/tokio_clock.rs"]
mod tokio_clock;
