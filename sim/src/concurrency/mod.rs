//! Concurrency limits on a simulated server: what calls get through, how long they take, and what an overload, a drop or a
//! slow release does to that.
//!
//! Time is in seconds, work in seconds of one worker at speed 1. Nothing reads a clock, and the same seed gives the same
//! bytes.
// random.rs        random numbers of a seed
// service_time.rs  distributions of service times
// server.rs        workers, shared cores, a knee
// scenario.rs      a server, its clients and its trouble
// scenarios.rs     those that a limit is judged by
// limit.rs         what a limit is to the simulation
// rules/           damper's rule and those of others
// run.rs           one scenario under one limit, event by event
// histogram.rs     latencies
// record.rs        the record of a run, and its summary
// silence.rs       the longest time without an answer
// worst.rs         the worst of several figures
// parallel.rs      runs by two threads
// admission/       classes, tenants and deadlines at one gate
// bars/            the figures that damper's limits have to reach
// report.rs        the tables and charts, and those of the guide

pub mod admission;
pub mod bars;
pub mod histogram;
pub mod limit;
mod parallel;
pub mod random;
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
