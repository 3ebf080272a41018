//! Answers, commands to be sent, and their outcomes.

use crate::script::Command;
use damper_core::{Allowed, Denied};

/// The answer to a check.
#[derive(Debug)]
#[must_use]
pub enum Answer {
    /// The tokens were taken from the lease.
    Allowed(Allowed),
    /// The same, and the lease runs low: [`Subject::ask_ahead`](super::Subject::ask_ahead) may have a command to send.
    Low(Allowed),
    /// The tokens are of a joint take, by which the server decided on all checks that waited.
    Taken(Allowed),
    /// Denied by what the process knows, without the server.
    Denied(Denied),
    /// The server has to decide, or to grant tokens: send this.
    Ask(Box<Dispatch>),
    /// A request for tokens is in flight: check again when it has an outcome.
    Join,
    /// The last command was lost, and it is too early for the next one.
    Down,
}

/// The outcome of a command, for the check that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The server took the tokens.
    Allowed(Allowed),
    /// The server denied the take.
    Denied(Denied),
    /// The lease may hold tokens now: check again.
    Again,
    /// The command had no effect, because it arrived too late.
    Late,
}

/// The next thing to do without a check.
#[derive(Debug)]
#[must_use]
pub enum NextStep {
    /// Send this now.
    Send(Box<Dispatch>),
    /// Call again at this tick of the subject's clock, or after the next outcome.
    At(u64),
    /// Nothing, until a command is sent, or a charge or refund is booked.
    Nothing,
}

/// A command to be sent.
///
/// It has to end with [`Subject::replied`](super::Subject::replied), [`Subject::lost`](super::Subject::lost),
/// [`Subject::cancelled`](super::Subject::cancelled) or [`Subject::unsent`](super::Subject::unsent).
#[derive(Debug)]
#[must_use = "a command that is neither sent nor lost keeps others from being sent for the length of a lease"]
pub struct Dispatch {
    pub(super) command: Command,
    pub(super) ticket: Ticket,
}

impl Dispatch {
    /// The command, without its frame.
    #[must_use]
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// Whether more than one check may wait for this, so that it has to reach the server whoever goes away.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        matches!(self.ticket.kind, CommandKind::Lease { .. } | CommandKind::JointTake { .. })
    }

    /// Whether this asks for leased tokens.
    ///
    /// The frame of such a command has to end its effect at most 7/8 of a lease after it is sent. Later the server may have forgotten
    /// the request's number, and would book one that arrives twice again, with what it refunds.
    #[must_use]
    pub fn is_lease(&self) -> bool {
        matches!(self.ticket.kind, CommandKind::Lease { .. })
    }
}

/// The subject's notes on a command, for when its reply comes.
///
/// It is used up by the outcome, of which there is one.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) kind: CommandKind,
    /// The tick at which the command was made, which is no later than its sending.
    pub(super) sent: u64,
    /// The charge and the refund that the command carries.
    pub(super) charge: u64,
    pub(super) refund: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum CommandKind {
    Take {
        cost: u32,
    },
    /// For all checks that wait.
    JointTake {
        seq: u64,
        cost: u32,
        /// Beyond the usual commands: see `CommandBudget`.
        is_extra: bool,
    },
    Lease {
        seq: u64,
        unspent: u32,
        wanted: u32,
    },
    Reset,
}
