//! damper-metrics through its public API, and its documents.

mod exporter;
mod generated;
#[cfg(feature = "opentelemetry")]
mod opentelemetry;
mod unchanged_decisions;
