//! The limit of one subject in this process.

use super::local_share::LocalShare;
use super::shared::Shared;
use super::{Unavailable, tender};
use crate::script::{Command, Grant, Keys};
use crate::server::random;
use crate::subject::{Dispatch, NextStep, Outcome, Plan, Subject};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use damper_core::Monotonic;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// The limit of one subject: its state in this process, its keys, and the checks that wait.
#[derive(Debug)]
pub(crate) struct SubjectLimit {
    pub(crate) subject: Subject<Monotonic>,
    pub(crate) keys: Keys,
    /// The number by which the server knows this value as the holder of a lease.
    pub(crate) holder: u64,
    /// This process's shares while the server does not answer: a bucket for each quota.
    pub(crate) shares: Mutex<Vec<LocalShare>>,
    /// The local time in µs at which the shares start empty, unless the server replied later.
    shares_from: u64,
    /// Wakes the checks that wait for the command in flight.
    pub(crate) outcome: Notify,
    /// Wakes the task that tends the subject, when a charge or a refund is booked.
    pub(crate) booked: Notify,
    /// Whether a task tends the subject.
    is_tended: AtomicBool,
    /// The tokens of the lease at the last count.
    counted: AtomicU64,
}

impl SubjectLimit {
    /// Creates the limit of a subject that is stored under these keys.
    pub(crate) fn new(plan: &Arc<Plan>, keys: Keys) -> Self {
        let shares = vec![LocalShare::default(); plan.terms().len()];
        Self {
            subject: Subject::new(Arc::clone(plan), random(), Monotonic),
            keys,
            holder: random(),
            shares: Mutex::new(shares),
            shares_from: 0,
            outcome: Notify::new(),
            booked: Notify::new(),
            is_tended: AtomicBool::new(false),
            counted: AtomicU64::new(0),
        }
    }

    /// Sets the local time in µs at which the shares start empty, unless the server replied later.
    pub(crate) fn with_shares_from(self, shares_from: u64) -> Self {
        Self { shares_from, ..self }
    }

    /// Returns the local time in µs at which the shares were empty, given the time of the last reply.
    pub(crate) fn shares_since(&self, replied_at: u64) -> u64 {
        replied_at.max(self.shares_from)
    }

    /// Returns whether a task tends the subject, which has a lease or something to send.
    pub(crate) fn is_tended(&self) -> bool {
        // ORDERING: Relaxed. The value is a hint for evictions, and for callers that try to claim the place next.
        self.is_tended.load(Ordering::Relaxed)
    }

    /// Claims the place of the tending task, and returns whether it was vacant.
    pub(crate) fn claim(&self) -> bool {
        // ORDERING: Relaxed. The subject's own lock orders the work of its tasks.
        !self.is_tended() && !self.is_tended.swap(true, Ordering::Relaxed)
    }

    /// Releases the place of the tending task.
    pub(crate) fn release(&self) {
        // ORDERING: Relaxed, as in `claim`.
        self.is_tended.store(false, Ordering::Relaxed);
    }

    /// Counts the tokens that left the lease, as a request for more tokens reports them.
    ///
    /// One request is in flight at a time, so one thread counts at a time.
    pub(crate) fn count_spent(&self, shared: &Shared, command: &Command) {
        let Command::Lease(_, ask) = command else { return };
        let reported = u64::from(ask.unspent) + u64::from(ask.back);
        // ORDERING: Relaxed. The count publishes nothing.
        let before = self.counted.swap(ask.unspent.into(), Ordering::Relaxed);
        shared.fleet.counters.tokens_by_lease.add(before.saturating_sub(reported));
    }

    /// Counts the tokens of a grant.
    pub(crate) fn count_grant(&self, shared: &Shared, grant: Grant) {
        // ORDERING: Relaxed, as in `count_spent`.
        self.counted.store(u64::from(grant.kept) + u64::from(grant.granted), Ordering::Relaxed);
        if grant.granted > 0 {
            shared.fleet.counters.grants.add(1);
            shared.fleet.counters.tokens_granted.add(grant.granted.into());
        }
    }

    /// Returns the tokens that left the lease since the last request.
    pub(crate) fn uncounted(&self) -> u64 {
        // ORDERING: Relaxed, as in `count_spent`.
        self.counted.load(Ordering::Relaxed).saturating_sub(self.subject.holdings().tokens.into())
    }
}

/// A command on its way to its outcome.
///
/// Dropping it reports the command as unsent, cancelled, lost or undeliverable.
///
/// A command without an outcome would block further ones for the length of a lease, and its charge would be lost. Its future may be
/// dropped before the first poll, or with its runtime. So the command is wrapped as soon as it is made.
pub(crate) struct Delivery {
    shared: Arc<Shared>,
    limit: Arc<SubjectLimit>,
    dispatch: Option<Box<Dispatch>>,
    stage: Stage,
}

/// The progress of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Made,
    Sent,
    Failed,
    Undeliverable,
}

impl Delivery {
    /// Wraps a command that was just made.
    pub(crate) fn new(shared: &Arc<Shared>, limit: &Arc<SubjectLimit>, dispatch: Box<Dispatch>) -> Self {
        Self { shared: Arc::clone(shared), limit: Arc::clone(limit), dispatch: Some(dispatch), stage: Stage::Made }
    }

    /// Returns the command, and notes that the server may have it from now on.
    pub(crate) fn send(&mut self) -> Option<&Command> {
        self.stage = Stage::Sent;
        self.dispatch.as_deref().map(Dispatch::command)
    }

    /// Returns the limit of the command.
    pub(crate) fn limit(&self) -> &Arc<SubjectLimit> {
        &self.limit
    }

    /// Returns whether several checks may wait for the command.
    pub(crate) fn is_joint(&self) -> bool {
        self.dispatch.as_deref().is_some_and(Dispatch::is_joint)
    }

    /// Returns whether the command asks for leased tokens.
    pub(crate) fn is_lease(&self) -> bool {
        self.dispatch.as_deref().is_some_and(Dispatch::is_lease)
    }

    /// Ends the command without a reply.
    pub(crate) fn failed(mut self, error: &Unavailable) {
        self.stage = if error.was_sent() { Stage::Failed } else { Stage::Undeliverable };
    }

    /// Ends the command with a reply, and returns its outcome.
    pub(crate) fn replied(mut self, reply: &crate::script::Reply) -> Outcome {
        match self.dispatch.take() {
            Some(dispatch) => {
                let outcome = self.limit.subject.replied(*dispatch, reply);
                self.limit.outcome.notify_waiters();
                outcome
            }
            // The command is there until `replied` or `drop` takes it.
            None => Outcome::Late,
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(dispatch) = self.dispatch.take() {
            match self.stage {
                Stage::Made => self.limit.subject.unsent(*dispatch),
                Stage::Sent => self.limit.subject.cancelled(*dispatch),
                Stage::Failed => self.limit.subject.lost(*dispatch),
                Stage::Undeliverable => self.limit.subject.undeliverable(*dispatch),
            }
            self.limit.outcome.notify_waiters();
            tender::tend_later(&self.shared, &self.limit);
        }
    }
}

/// A check that this process cannot decide, and what it needs.
pub(crate) enum OpenCheck {
    /// It needs the outcome of this command.
    Ask(Delivery),
    /// It needs the outcome of the command in flight.
    Join,
    /// It needs the policy.
    Down,
}

/// Returns whether a step has to be taken.
pub(crate) fn is_something(due: &NextStep) -> bool {
    !matches!(due, NextStep::Nothing)
}
