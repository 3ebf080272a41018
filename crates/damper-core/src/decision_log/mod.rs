//! A log of decisions, to compute what another quota would have refused: [`DecisionLog`].

// | file | idea |
// |---|---|
// | `decision` | one decision, and its text form |
// | `decision_log` | the bounded log: its writers |
// | `entry` | the three words of an entry, each of which says to which decision it belongs |
// | `time_unit` | the unit of an entry's time |
// | `reader` | its readers |
// | `logged` | limiters whose decisions are logged |

mod decision;
mod decision_log;
mod entry;
mod logged;
mod reader;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod time_unit;

pub use decision::{Decision, DecisionAnswer, ParseDecisionError};
pub use decision_log::DecisionLog;
pub use logged::Logged;
pub use reader::DecisionReader;
