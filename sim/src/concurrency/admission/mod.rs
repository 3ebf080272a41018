//! Admission: one gate that knows classes, tenants and deadlines, on plain values, before damper's own is built.
// traffic.rs  who calls: classes, tenants, deadlines
// gate.rs     the rule: who runs next, who gives way, what is refused
// run.rs      traffic at a gate before a server, event by event
// tally.rs    what became of each tenant's calls

pub mod gate;
pub mod run;
pub mod tally;
pub mod traffic;
