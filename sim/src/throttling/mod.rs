//! Client-side throttling under every strategy.
//!
//! Clients share a server's quota and cannot talk to each other.
//!
//! Time is in seconds. Nothing reads a clock, and the same seed gives the same bytes.
// experiment.rs  the clients, the server and its trouble
// server.rs      damper's limiters on a manual clock
// throttle.rs    what a throttle is to the simulation; damper's pacer
// contender.rs   the strategies that are compared
// run.rs         one experiment under one strategy, event by event
// record.rs      the record of a run, and its figures
// published.rs   the published figures
// report.rs      the table and the charts
// settings.rs    the settings that damper's own strategy is judged by
// bars.rs        the figures that it has to reach
// options.rs     the arguments of the command
// model/         strategies in `f64`, which damper's are compared with

pub mod bars;
pub mod contender;
pub mod experiment;
pub mod model;
pub mod options;
pub mod published;
pub mod record;
pub mod report;
pub mod run;
pub mod server;
pub mod settings;
pub mod throttle;
