//! The server's half: one script that decides, what is sent to it and what comes back.
//!
//! Nothing here knows a connection or a clock. Times are microseconds of the server's clock since 1970, amounts are whole tokens.

// | file | idea |
// |---|---|
// | `decide.lua` | the script, with the rules and what they protect |
// | `rate` | `Rate`: p tokens in q µs, reduced |
// | `terms` | `Terms`: a quota as the script counts it; `Seen`: what a process last saw of a limit |
// | `command` | `Command`: what is asked; `Frame`: what holds for the whole of it; their arguments |
// | `lease` | `Ask` and `Grant`: a holder's request and its response |
// | `reply` | `Reply`: parsed, whatever the server sent |
// | `level` | `Level`: a limit as the server counts it, and how long until it has tokens |
// | `keys` | `Keys`: the names under which a subject is stored |
// | `slots` | the slot of a key in a cluster; `SlotTags`: a text for each slot |

mod command;
mod keys;
mod lease;
mod level;
mod rate;
mod reply;
mod slots;
mod terms;
#[cfg(test)]
mod tests;

pub use command::{Command, Frame, Limit, Take};
pub use keys::Keys;
pub(crate) use keys::with_kept;
pub use lease::{Ask, Grant};
pub use level::{Level, NEVER};
pub use rate::{Rate, RateError};
pub use reply::{Reply, ReplyError, Status};
pub use slots::SlotTags;
pub use terms::{Seen, Terms};

/// The script, to be run with the keys and arguments of a [`Command`].
pub const SOURCE: &str = include_str!("decide.lua");
