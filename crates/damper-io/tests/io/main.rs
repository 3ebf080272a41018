//! damper-io through its public API.

#[path = "../../../damper-core/tests/core/models/cases.rs"]
mod cases;

mod adapters;
mod blocking;
mod bodies;
mod connections;
mod embedded;
mod fairness;
mod line_model;
mod pacer;
