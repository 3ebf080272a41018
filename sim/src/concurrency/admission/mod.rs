//! Admission control: a gate with classes, tenants and deadlines before a simulated server.
// traffic.rs  the callers: classes, tenants, deadlines
// gate.rs     damper's gate, whole or in parts, on a simulated clock
// run.rs      traffic at a gate before a server, event by event
// tally.rs    counts of each tenant's calls by outcome

pub mod gate;
pub mod run;
pub mod tally;
pub mod traffic;
