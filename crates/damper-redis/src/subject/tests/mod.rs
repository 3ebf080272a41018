//! Tests of the state machine in a simulated fleet: its promises about commands, use and fairness.

#![allow(clippy::cast_precision_loss, reason = "shares of counts that are far below 2^52")]

// | file | idea |
// |---|---|
// | `server` | a slow, obvious model of the script, for one limit |
// | `fleet` | processes, the server and the network on one clock |
// | `promises` | commands per second, admitted per command, use under saturation |
// | `steps` | single steps of the state machine |
// | `day` | a day of ordinary traffic |
// | `ordinary` | uneven traffic below the limit, beside one exact bucket |
// | `memory` | the memory of denials, losses and resets |

mod day;
mod fleet;
mod memory;
mod ordinary;
mod promises;
mod server;
mod steps;
