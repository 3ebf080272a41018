//! damper-io through its public API.

#[path = "../../../damper-core/tests/core/models/cases.rs"]
mod cases;

mod adapters;
mod bodies;
mod connections;
mod embedded;
mod fairness;
mod families;
mod line_model;
mod pacer;
mod scripted;
