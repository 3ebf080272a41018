//! The bounds that the simulations hold.
//!
//! They are in one binary, so that the simulations of several files run at the same time.

mod admission;
mod bars;
#[path = "../../../crates/damper-core/tests/core/models/cases.rs"]
#[allow(dead_code)]
mod cases;
mod charts;
mod concurrency;
mod crowd;
mod look_first;
mod marks;
mod minorities;
mod outage;
mod refunds;
mod replay;
mod throttling;
