//! Concurrency limits on a simulated server.
//!
//! The simulation shows the throughput and the latencies, and how an overload, a drop or a slow release changes them.
//!
//! Time is in seconds, and work in seconds of one worker at speed 1. Nothing reads a clock, and the same seed gives the
//! same bytes.
// service_time.rs  distributions of service times
// server.rs        workers, shared cores, a knee
// scenario.rs      a server, its clients and its disturbance
// scenarios.rs     the scenarios for judging a limit
// limit.rs         the interface of a limit
// rules/           damper's rule and those of other projects
// run.rs           one scenario under one limit, event by event
// histogram.rs     latencies
// record.rs        the record of a run, and its summary
// silence.rs       the longest time without an answer
// worst.rs         the worst of several figures
// admission/       classes, tenants and deadlines at one gate
// minorities/      a few callers beside all others, before one limit
// bars/            the required figures of damper's limits
// report.rs        the tables and charts, including the guide's

pub mod admission;
pub mod bars;
pub mod histogram;
pub mod limit;
pub mod minorities;
pub mod record;
pub mod report;
pub mod rules;
pub mod run;
pub mod scenario;
pub mod scenarios;
pub mod server;
pub mod service_time;
pub mod silence;
pub mod worst;
