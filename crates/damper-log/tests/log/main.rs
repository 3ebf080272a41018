//! damper-log through its public API.

#[path = "../../../damper-core/tests/core/models/seed.rs"]
mod seed;
#[path = "../../../../tests/support/subscribers.rs"]
mod subscribers;

mod captured;
mod layer;
mod limits;
mod log_macro;
mod tracing_macro;
