//! One subject as a process knows it: leased tokens, its own rate, and what it saw of the server.
//!
//! A state machine without I/O. It says what to send; the caller sends it, and says what came of it. One [`Subject`] is used by
//! any number of threads.
//!
//! A check that finds leased tokens takes them by one swap, without a lock. A check that a gate denies takes no lock either.
//! All else takes a short lock of the subject, under which nothing is allocated but the command.
//!
//! # The caller's part
//!
//! ```text
//! loop {
//!     match subject.check(n) {
//!         Answer::Allowed(allowed) => return Ok(allowed),
//!         Answer::Low(allowed)     => { if let Some(outgoing) = subject.ask_ahead() { send(outgoing) }; return Ok(allowed) }
//!         Answer::Taken(allowed)   => return Ok(allowed),
//!         Answer::Denied(denied)   => return Err(denied),
//!         Answer::Ask(outgoing)    => send(outgoing), and wait for the outcome: Allowed, Denied, or Again: check once more
//!         Answer::Join             => if subject.join(n), wait until the command in flight has an outcome; then check once more
//!         Answer::Down             => decide by the policy for a server that is gone
//!     }                            // whoever waits gives up at the check's deadline, and decides by the policy
//! }
//! ```
//!
//! - `send` passes `outgoing.command()` to the server in a task of its own, so that a caller that goes away cancels nothing. It ends
//!   with exactly one of [`Subject::replied`], [`Subject::lost`], [`Subject::cancelled`] and [`Subject::unsent`], and then wakes the joined
//!   checks.
//! - A task for each subject with something due calls [`Subject::due`]: after each outcome and each [`Due::At`], until it
//!   returns [`Due::Nothing`]. It starts again with the next command that is sent, and when [`Subject::charge`] or
//!   [`Subject::refund`] says so.

//!
//! # Leases
//!
//! A holder spends leased tokens until 7/8 of the lease have passed since it first sent its request, by its own clock. The server
//! counts the lease from the arrival of the request, so the holder stops first. The tokens and their end are one word:
//! `ExpiringLease` of damper-core (`limit/expiring_lease.rs`). Requests and replies are numbered, and a reply that is late changes
//! nothing.
//!
//! # Other callers of the same limit
//!
//! A process that floods a limit takes what the others would have had, as in any shared bucket; a limit for each client prevents
//! that. Leases make it less bad, because such a process comes for tokens some 50 times a second, and not with each check. In a
//! simulated day (`tests/day.rs`: 20 tokens a second, a burst of 200, four ordinary processes and a batch job that at times asks
//! for five times the limit) the ordinary callers are denied 40 % of their checks while the job runs, and 86 % where the server
//! decides each check. Without the job they are denied none.
//!
//! Busy processes share what may be leased: each holds at most nine tenths of what the others leave, and where that is little no more
//! than it spends until its next request. If each took what it can get, the first ones would renew it for ever, and others would
//! get nothing (seen with four processes of equal demand: two got all). In the simulation three processes that ask for a tenth of the
//! limit each get four fifths of that beside one that asks for five times the limit, and all of it where the burst is a second of the
//! rate (`tests/promises.rs`).

// | file | idea |
// |---|---|
// | `subject` | `Subject`: the state machine, and its fast path |
// | `settling` | what it learns from replies and losses |
// | `plan` | `Plan`: what all subjects of a limiter have in common; when to lease, how much and how often |
// | `ledger` | `Ledger`: what is under the lock |
// | `outgoing` | `Outgoing`: a command to be sent, and its ticket; `Answer`, `Outcome`, `Due` |
// | `command_budget` | `CommandBudget`: how many commands a leasing process may send |
// | `set_aside` | `SetAside`: tokens that the server took for checks that wait |
// | `gate` | `Gate`: until when checks are denied locally |
// | `own_rate` | `OwnRate`: how fast this process uses the limit |
// | `pending` | `Pending`: charges and refunds that the server does not know yet |
// | `instants` | `Instants`: a clock's ticks in microseconds |

mod command_budget;
mod gate;
mod instants;
mod ledger;
mod outgoing;
mod own_rate;
mod pending;
mod plan;
mod set_aside;
mod settling;
mod subject;
#[cfg(test)]
mod tests;

pub use outgoing::{Answer, Due, Outcome, Outgoing};
pub use plan::Plan;
pub use subject::{Holding, Left, Subject};
