//! The script in an embedded Lua, at a time of the test's.

#[path = "script/arithmetic.rs"]
mod arithmetic;
#[path = "script/by_plan.rs"]
mod by_plan;
#[path = "script/cases.rs"]
mod cases;
#[path = "script/envelope.rs"]
mod envelope;
#[path = "script/model.rs"]
mod model;
#[path = "script/schedule.rs"]
mod schedule;
#[path = "../../crates/damper-core/tests/core/models/seed.rs"]
mod seed;
#[path = "script/weakened.rs"]
mod weakened;
