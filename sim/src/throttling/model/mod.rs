//! Strategies as slow and obvious models in `f64`, which damper's are compared with.
// kept.rs   strategies 2 to 4: a sleep that is kept between calls
// level.rs  damper's own

mod kept;
mod level;

pub use kept::{Decrease, KeptSleep};
pub use level::Level;
