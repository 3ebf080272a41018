//! What all gates share: how a call went, what a gate gives to a call, and why it refuses one.
//!
//! A gate decides whether a call may pass, and most gates learn from how it went. Limiters, breakers, throttles and concurrency limits are
//! gates. [`Verdict`] says how a call went in facts, and each gate reads from it what it needs.

// | file | type |
// |---|---|
// | `ending` | `Ending`: how a call ended, and the tables of HTTP's statuses and gRPC's codes |
// | `verdict` | `Verdict`: the ending, and what else is known of the call |
// | `permit` | `Permit`: what a gate gives to a call that may pass |
// | `refusal` | `Refusal`: why a call may not pass; `is_refusal`: among all errors |
// | `refusals` | the refusals of damper's own gates |
// | `standing` | `Standing`: how much of a quota is left |

mod ending;
mod permit;
mod refusal;
mod refusals;
mod standing;
mod verdict;

pub use ending::Ending;
pub use permit::Permit;
pub use refusal::{NotSent, Refusal, RefusalKind, is_refusal};
pub use standing::Standing;
pub use verdict::Verdict;
