//! The server's half: one script that decides, what is sent to it and what comes back.
//!
//! Nothing here knows a connection or a clock. Times are microseconds of the server's clock since 1970, amounts are whole tokens.
//!
//! The bucket is a string on the server. The script decides on it with the server's own time, in whole numbers below 2^53. Leased
//! tokens count as still in the bucket, so bucket and holders never have more than the burst together, whichever process dies.
//!
//! A marker without expiry tells a server that lost its memory from one that never had this limit. After a loss a phantom holder
//! has all tokens that may have been leased, and new leases are fewer and short. So even several losses within one lease give
//! nothing away. `decide.lua` has the rules, and what each of them protects.

// | file | idea |
// |---|---|
// | `decide.lua` | the script, with the rules and what they protect |
// | `rate` | `Rate`: p tokens in q µs, reduced |
// | `terms` | `Terms`: a quota as the script counts it; `Sighting`: what a process last saw of a limit |
// | `command` | `Command`: what is asked; `Frame`: what holds for the whole of it; their arguments |
// | `lease` | `LeaseRequest` and `Grant`: a holder's request and its response |
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
pub use lease::{Grant, LeaseRequest};
pub use level::{Level, NEVER};
pub use rate::{Rate, RateError};
pub use reply::{Reply, ReplyError, Status};
pub use slots::SlotTags;
pub use terms::{Sighting, Terms};

/// The script, to be run with the keys and arguments of a [`Command`].
pub const SOURCE: &str = include_str!("decide.lua");
