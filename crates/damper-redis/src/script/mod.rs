//! The script that decides on the server, its commands and its replies.
//!
//! This module knows no connection and no clock. Times are microseconds of the server's clock since 1970, amounts are whole tokens.
//!
//! The bucket is a string on the server. The script decides on it with the server's own time, in whole numbers below 2^53. Leased
//! tokens count as still in the bucket, so bucket and holders never have more than the burst together, whichever process dies.
//!
//! A marker without expiry distinguishes a server that lost its memory from one that never had this limit. After a loss, a phantom holder
//! has all tokens that may have been leased, and new leases are smaller and shorter. So even several losses within one lease admit
//! no more. `decide.lua` has the rules, and the purpose of each.

// | file | idea |
// |---|---|
// | `decide.lua` | the script, with the rules and what they protect |
// | `rate` | `Rate`: p tokens in q µs, in lowest terms |
// | `terms` | `Terms`: a quota as the script counts it; `Sighting`: what a process last saw of a limit |
// | `command` | `Command`: an operation on the limits of a subject; `Frame`: its common arguments |
// | `lease` | `LeaseRequest` and `Grant`: a holder's request and its response |
// | `reply` | `Reply`: the parsed reply |
// | `level` | `Level`: the state of a limit on the server, and the time until it has tokens |
// | `keys` | `Keys` and `PathKeys`: the names under which a subject is stored, and the buckets of a path |
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

pub use command::{Command, Frame, Limit, PARTS_PER_BURST, PlannedTake, PlannedTakes, Take};
pub(crate) use keys::with_kept;
pub use keys::{Keys, PathKeys};
pub use lease::{Grant, LeaseRequest};
pub use level::{Level, NEVER};
pub use rate::Rate;
pub use reply::{Reply, ReplyError, Status};
pub use slots::SlotTags;
pub use terms::{Sighting, Terms};

/// The script, to be run with the keys and arguments of a [`Command`].
pub const SOURCE: &str = include_str!("decide.lua");
