//! damper-metrics through its public API, and its documents.

mod exporter;
mod generated;
mod unchanged_decisions;
