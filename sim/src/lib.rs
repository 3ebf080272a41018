//! Simulations of damper on a manual clock: what ordinary clients get on bad days.
//!
//! An envelope says what a limiter never exceeds. It does not say which clients are refused, or how long the others wait. These simulations
//! do, and their bounds are tests (`cargo test -p damper-sim`). `cargo run --release -p damper-sim` prints the table of client-side
//! throttling, `-- crowd` and `-- tiers` those of keyed limiters, `-- concurrency` those of concurrency limits, `-- outage` that of breakers that return. `-- replay LOGFILE` finds a quota for the calls in a log
//! of decisions.

#![allow(clippy::cast_precision_loss, reason = "counts are far below 2^52 here")]

pub mod chart;
pub mod concurrency;
pub mod crowd;
pub mod look_first;
pub mod outage;
mod parallel;
pub mod random;
pub mod refunds;
pub mod replay;
pub mod table;
pub mod throttling;
pub mod tier_flood;
