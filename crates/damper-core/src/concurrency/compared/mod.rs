//! Rules of adaptive limits that other libraries have, to compare with.
//!
//! `damper-sim concurrency` compares them with [`ProbedGradient`](super::ProbedGradient), the default.

// | file | idea |
// |---|---|
// | `aimd` | `Aimd`: adds one after a window without overload, and multiplies down after one with it |
// | `vegas` | `Vegas`: keeps an estimated queue between two bounds |
// | `gradient2` | `Gradient2`: follows the ratio of a long-term and a short-term latency |
// | `unloaded` | `Unloaded`: the latency without load that `vegas` and `gradient2` compare with |

mod aimd;
mod gradient2;
mod unloaded;
mod vegas;

pub use aimd::Aimd;
pub use gradient2::Gradient2;
pub use vegas::Vegas;
