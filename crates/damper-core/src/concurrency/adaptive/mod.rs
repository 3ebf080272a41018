//! Limits that follow the latency of calls.

// | file | type |
// |---|---|
// | `rule` | `LimitRule`, the trait of rules; `WindowSummary`, what they see; `WindowPlan`, what they decide |
// | `probed_gradient` | `ProbedGradient`, the default rule |
// | `aimd`, `vegas`, `gradient2` | a rule each |
// | `unloaded` | `Unloaded`: the latency that `vegas` and `gradient2` compare with |
// | `bounds` | `LimitBounds`: between which values a limit moves, and its error |
// | `log2` | binary logarithms without `std` |

mod aimd;
mod bounds;
mod gradient2;
mod log2;
mod probed_gradient;
mod rule;
mod unloaded;
mod vegas;

#[cfg(test)]
mod tests;

pub use aimd::Aimd;
pub use bounds::{LimitBounds, LimitBoundsError};
pub use gradient2::Gradient2;
pub use probed_gradient::ProbedGradient;
pub use rule::{LimitRule, WindowPlan, WindowSummary};
pub use vegas::Vegas;
