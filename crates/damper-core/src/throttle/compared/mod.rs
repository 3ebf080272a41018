//! Strategies of pacing that other libraries and papers use, to compare with.
//!
//! `damper-sim throttling` compares them with [`Level`](super::Level), the default.

// | file | idea |
// |---|---|
// | `decreases` | `ProportionalDecrease`, `GradualDecrease`: how successes shorten a sleep that rejections multiply |
// | `exponential_backoff` | `ExponentialBackoff`: only rejected calls sleep |
// | `cubic_rate` | `CubicRate`: a rate of calls that grows along a cubic curve |

mod cubic_rate;
mod decreases;
mod exponential_backoff;

pub use cubic_rate::CubicRate;
pub use decreases::{GradualDecrease, ProportionalDecrease};
pub use exponential_backoff::ExponentialBackoff;
