//! Tests of the state machine, alone and in a simulated fleet.

#![allow(clippy::cast_precision_loss, reason = "shares of counts that are far below 2^52")]

// | file | idea |
// |---|---|
// | `server` | a slow, obvious model of the script, for one limit |
// | `fleet` | processes, the server and the network on one clock |
// | `promises` | commands per second, tokens per command, and how much of a saturated limit is used |
// | `steps` | single steps of the state machine |
// | `day` | a day of ordinary traffic |
// | `ordinary` | uneven traffic below the limit, compared with one exact bucket |
// | `memory` | how long a process acts on a denial, a loss or a reset |

mod day;
mod fleet;
mod memory;
mod ordinary;
mod promises;
mod server;
mod steps;
