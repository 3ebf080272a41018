//! The answers to checks, the commands to send, and the outcomes of commands.

use crate::script::Command;
use damper_core::{Allowed, Denied};

/// The answer to a check.
#[derive(Debug)]
#[must_use]
pub enum Answer {
    /// Allowed: the lease had the tokens.
    Allowed(Allowed),
    /// Allowed, and the lease runs low: [`Subject::ask_ahead`](super::Subject::ask_ahead) may have a command to send.
    Low(Allowed),
    /// Allowed by a joint take, in which the server took tokens for all waiting checks.
    Taken(Allowed),
    /// Denied by this process, without the server.
    Denied(Denied),
    /// Undecided: the server has to decide the check, or to grant tokens for it. Send this command.
    Ask(Box<Dispatch>),
    /// Undecided: a request for tokens is in flight. Check again when it has an outcome.
    Join,
    /// Undecided: the last command was lost, and it is too early for the next one.
    Down,
}

/// The outcome of a command, for the checks that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The server took the tokens.
    Allowed(Allowed),
    /// The server denied the take.
    Denied(Denied),
    /// The lease may hold tokens now, so check again.
    Again,
    /// The command had no effect, because it arrived too late.
    Late,
}

/// The next step that a subject needs even if no check comes.
#[derive(Debug)]
#[must_use]
pub enum NextStep {
    /// Send this command now.
    Send(Box<Dispatch>),
    /// Call [`Subject::due`](super::Subject::due) again at this tick of the subject's clock, or after the next outcome.
    At(u64),
    /// Do nothing until a command is sent, or a charge or refund is booked.
    Nothing,
}

/// A command to send, with the subject's notes on it.
///
/// Its outcome must be reported to [`Subject::replied`](super::Subject::replied), [`Subject::lost`](super::Subject::lost),
/// [`Subject::cancelled`](super::Subject::cancelled) or [`Subject::unsent`](super::Subject::unsent).
#[derive(Debug)]
#[must_use = "a command that is neither sent nor lost keeps others from being sent for the length of a lease"]
pub struct Dispatch {
    pub(super) command: Command,
    pub(super) ticket: Ticket,
}

impl Dispatch {
    /// Returns the command, without the `Frame` that the caller adds.
    #[must_use]
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// Returns whether several checks may wait for this command.
    ///
    /// Then it must be sent even if one of these checks is cancelled.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        matches!(self.ticket.kind, CommandKind::Lease { .. } | CommandKind::JointTake { .. })
    }

    /// Returns whether this command asks for leased tokens.
    ///
    /// The frame of such a command must make the server ignore it if it arrives more than 7/8 of a lease after it was sent. By then
    /// the server may have forgotten the request's number. If the request arrived twice, the server would then book its charge and
    /// its refund twice.
    #[must_use]
    pub fn is_lease(&self) -> bool {
        matches!(self.ticket.kind, CommandKind::Lease { .. })
    }
}

/// The subject's notes on a command, by which it applies the reply.
///
/// A command has one outcome, which consumes the ticket.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) kind: CommandKind,
    /// The tick at which the command was made; it is sent at that tick or later.
    pub(super) sent: u64,
    /// The charge that the command carries.
    pub(super) charge: u64,
    /// The refund that the command carries.
    pub(super) refund: u64,
}

/// The kind of a command, with the values to which its reply is compared.
#[derive(Clone, Copy, Debug)]
pub(super) enum CommandKind {
    /// A take for one check.
    Take { cost: u32 },
    /// A take for all waiting checks.
    JointTake {
        seq: u64,
        cost: u32,
        /// Whether the take counts as an extra take in the `CommandBudget`.
        is_extra: bool,
    },
    /// A request for leased tokens.
    Lease { seq: u64, unspent: u32, wanted: u32 },
    /// A reset of all limits.
    Reset,
}
