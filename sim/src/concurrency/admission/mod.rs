//! Admission: one gate that knows classes, tenants and deadlines, damper's own, on a simulated server.
// traffic.rs  the callers: classes, tenants, deadlines
// gate.rs     damper's gate on a clock that the simulation moves, or less of it
// run.rs      traffic at a gate before a server, event by event
// tally.rs    what became of each tenant's calls

pub mod gate;
pub mod run;
pub mod tally;
pub mod traffic;
