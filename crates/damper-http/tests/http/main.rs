//! damper-http through its public API: layers and services of servers and clients.

mod admission;
mod allocations;
mod breaker_support;
mod buffered_body;
#[path = "../../../damper-core/tests/core/models/cases.rs"]
mod cases;
mod circuit_breaker;
mod completion;
mod concurrency;
mod costs;
mod criticality;
mod deadline;
mod decision_log;
mod explain;
mod hedge;
mod keyed_limits;
mod marking;
mod network_prefixes;
mod opentelemetry;
mod pacing;
mod pacing_experiment;
mod rate_limit;
mod retry;
mod shadow;
mod slow_readers;
mod support;
mod throttle;
#[path = "../../../damper-core/tests/core/models/tokio_clock.rs"]
mod tokio_clock;
mod tree;
mod waiting;
mod wire;
