//! The answers to checks, the commands to send, and the outcomes of commands.

use crate::script::Command;
use damper_core::{Allowed, Denied};

/// The answer to a check.
#[derive(Debug)]
#[must_use]
pub enum Answer {
    /// Allowed: the leased tokens of this process covered the check.
    Allowed(Allowed),
    /// Allowed, but few leased tokens are left.
    ///
    /// [`Subject::ask_ahead`](super::Subject::ask_ahead) may have a command to send.
    Low(Allowed),
    /// Allowed by tokens that the server took for all waiting checks together.
    Taken(Allowed),
    /// Denied by this process, without the server.
    Denied(Denied),
    /// Undecided: the server has to decide the check, or to grant tokens for it. Send this command.
    Ask(Box<Dispatch>),
    /// Undecided: a command that may bring tokens is in flight. Check again when it has an outcome.
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
    /// This process may have tokens for the check now, so check again.
    Again,
    /// The command had no effect: it arrived after its time limit or after a later command.
    Late,
}

/// The next step that a subject needs even if no check comes.
#[derive(Debug)]
#[must_use]
pub enum NextStep {
    /// Send this command now.
    Send(Box<Dispatch>),
    /// Call [`Subject::due`](super::Subject::due) again at this tick of the subject's clock.
    ///
    /// Call it earlier after the next outcome, and when a charge or a refund is booked.
    At(u64),
    /// Do nothing until another command is sent, or a charge or refund is booked.
    Nothing,
}

/// A command to send, with what the subject needs to apply its reply.
///
/// The caller must report its outcome to exactly one of [`Subject::replied`](super::Subject::replied),
/// [`Subject::lost`](super::Subject::lost), [`Subject::undeliverable`](super::Subject::undeliverable),
/// [`Subject::cancelled`](super::Subject::cancelled) and [`Subject::unsent`](super::Subject::unsent).
#[derive(Debug)]
#[must_use = "a command that is neither sent nor lost keeps others from being sent for the length of a lease"]
pub struct Dispatch {
    pub(super) command: Command,
    pub(super) ticket: Ticket,
}

impl Dispatch {
    /// Returns the command. The caller adds its `Frame`, the arguments for the command as a whole.
    #[must_use]
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// Returns whether several checks may wait for this command.
    ///
    /// Such a command must be sent even if one of these checks is cancelled.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        matches!(self.ticket.kind, CommandKind::Lease { .. } | CommandKind::JointTake { .. })
    }

    /// Returns whether this command asks for leased tokens.
    ///
    /// Such a command must not take effect if it arrives more than 7/8 of a lease after it was sent. The caller must
    /// set this time limit in the command's `Frame`. After that time the server may have forgotten the number of the
    /// request. A request that arrives twice would then book its charge and its refund twice.
    #[must_use]
    pub fn is_lease(&self) -> bool {
        matches!(self.ticket.kind, CommandKind::Lease { .. })
    }
}

/// The facts about a command that the subject needs to apply the reply.
///
/// A command has one outcome, which consumes the ticket.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) kind: CommandKind,
    /// The tick at which the command was made. It is sent at that tick or later.
    pub(super) sent: u64,
    /// The charge that the command carries, without that of lost requests.
    pub(super) charge: u64,
    /// The refund that the command carries.
    pub(super) refund: u64,
}

/// The kind of a command, with the values that are needed to apply its reply.
#[derive(Clone, Copy, Debug)]
pub(super) enum CommandKind {
    /// A command that takes tokens for one check.
    Take { cost: u32 },
    /// A command that takes tokens for all waiting checks.
    JointTake {
        seq: u64,
        cost: u32,
        /// Whether the take counts as an extra take in the `CommandBudget`.
        is_extra: bool,
    },
    /// A request for `wanted` leased tokens, from a process that keeps `unspent` ones.
    Lease {
        seq: u64,
        unspent: u32,
        wanted: u32,
        /// The charge of lost requests, which this one carries too.
        repeated: u64,
        /// When the first request with any of the charge was sent, in µs.
        charged_since: u64,
    },
    /// A reset of all limits.
    Reset,
}
