//! Limits that follow the latency of calls.

// | file | type |
// |---|---|
// | `adaptive_limit` | `AdaptiveLimit`: constructors, permits, learned state |
// | `outcome` | `Outcome`: the outcome of a call; how a permit records it |
// | `rule` | `LimitRule` and `BoundedRule`, the traits of rules; `WindowSummary`, their input; `WindowPlan`, their decision |
// | `probed_gradient` | `ProbedGradient`, the default rule |
// | `sampler` | `Sampler`: measures windows without a lock, and asks the rule; its tests |
// | `bounds` | `LimitBounds`: the bounds of a limit, and their error |
// | `log2` | binary logarithms without `std` |

// First, so that the documentation begins with how to create a limit.
mod adaptive_limit;

mod bounds;
pub(super) mod log2;
mod outcome;
mod probed_gradient;
pub(super) mod rule;
pub(super) mod sampler;

#[cfg(all(test, feature = "compared"))]
mod tests;

pub use adaptive_limit::AdaptiveLimit;
pub use bounds::LimitBounds;
pub use outcome::Outcome;
pub use probed_gradient::ProbedGradient;
pub use rule::{BoundedRule, LimitRule, WindowPlan, WindowSummary};
