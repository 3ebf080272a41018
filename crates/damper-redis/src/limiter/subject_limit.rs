//! The limit of one subject, as this process has it.

use super::local_share::LocalShare;
use super::shared::Shared;
use super::tender;
use crate::script::{Command, Grant, Keys};
use crate::server::random;
use crate::subject::{Dispatch, NextStep, Outcome, Plan, Subject};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use damper_core::Monotonic;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// The limit of one subject: what the process knows of it, where it is stored, and who waits for it.
#[derive(Debug)]
pub(crate) struct SubjectLimit {
    pub(crate) subject: Subject<Monotonic>,
    pub(crate) keys: Keys,
    /// Names this value to the server, as the holder of a lease.
    pub(crate) holder: u64,
    /// This process's shares, a bucket for each quota, while the server does not answer.
    pub(crate) shares: Mutex<Vec<LocalShare>>,
    /// The local time in µs before which the shares have nothing, whenever the server last replied.
    shares_from: u64,
    /// Wakes the checks that wait for the command in flight.
    pub(crate) outcome: Notify,
    /// Whether a task does what is due.
    is_tended: AtomicBool,
    /// The tokens of the lease as far as they were counted.
    counted: AtomicU64,
}

impl SubjectLimit {
    pub(crate) fn new(plan: &Arc<Plan>, keys: Keys) -> Self {
        let shares = vec![LocalShare::default(); plan.terms().len()];
        Self {
            subject: Subject::new(Arc::clone(plan), random(), Monotonic),
            keys,
            holder: random(),
            shares: Mutex::new(shares),
            shares_from: 0,
            outcome: Notify::new(),
            is_tended: AtomicBool::new(false),
            counted: AtomicU64::new(0),
        }
    }

    /// Lets the shares begin empty at a local time in µs, if the server last replied before it.
    pub(crate) fn with_shares_from(self, shares_from: u64) -> Self {
        Self { shares_from, ..self }
    }

    /// The local time in µs at which the shares were empty, if the server last replied at `replied_at`.
    pub(crate) fn shares_since(&self, replied_at: u64) -> u64 {
        replied_at.max(self.shares_from)
    }

    /// Whether a task works for it: it has a lease, or something that the server has to know.
    pub(crate) fn is_tended(&self) -> bool {
        // ORDERING: Relaxed. A hint, for evictions and for callers that try to claim it next.
        self.is_tended.load(Ordering::Relaxed)
    }

    /// Claims the place of the task that tends it.
    pub(crate) fn claim(&self) -> bool {
        // ORDERING: Relaxed. The subject's own lock orders the work of its tasks.
        !self.is_tended() && !self.is_tended.swap(true, Ordering::Relaxed)
    }

    /// Gives up the place of the task that tends it.
    pub(crate) fn release(&self) {
        // ORDERING: Relaxed, as in `claim`.
        self.is_tended.store(false, Ordering::Relaxed);
    }

    /// Counts the tokens that left the lease, as a request for more reports them.
    ///
    /// One request is in flight at a time, so one thread counts at a time.
    pub(crate) fn count_spent(&self, shared: &Shared, command: &Command) {
        let Command::Lease(_, ask) = command else { return };
        let reported = u64::from(ask.unspent) + u64::from(ask.back);
        // ORDERING: Relaxed. A count, which publishes nothing.
        let before = self.counted.swap(ask.unspent.into(), Ordering::Relaxed);
        shared.counters.tokens_by_lease.add(before.saturating_sub(reported));
    }

    /// Counts the tokens that a lease got.
    pub(crate) fn count_grant(&self, shared: &Shared, grant: Grant) {
        // ORDERING: Relaxed, as in `count_spent`.
        self.counted.store(u64::from(grant.kept) + u64::from(grant.granted), Ordering::Relaxed);
        if grant.granted > 0 {
            shared.counters.grants.add(1);
            shared.counters.tokens_granted.add(grant.granted.into());
        }
    }

    /// The tokens that left the lease since the last request.
    pub(crate) fn uncounted(&self) -> u64 {
        // ORDERING: Relaxed, as in `count_spent`.
        self.counted.load(Ordering::Relaxed).saturating_sub(self.subject.holdings().tokens.into())
    }
}

/// A command that was made and has no outcome yet: unsent, cancelled or lost if it is dropped.
///
/// A command that vanishes without an outcome keeps others from being sent for the length of a lease, and takes its charge along. So
/// it is wrapped where it is made: a future that is dropped before it is polled may have it, or a task of a runtime that ends.
pub(crate) struct Delivery {
    shared: Arc<Shared>,
    limit: Arc<SubjectLimit>,
    dispatch: Option<Box<Dispatch>>,
    stage: Stage,
}

/// How far a command has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Made,
    Sent,
    Failed,
}

impl Delivery {
    pub(crate) fn new(shared: &Arc<Shared>, limit: &Arc<SubjectLimit>, dispatch: Box<Dispatch>) -> Self {
        Self { shared: Arc::clone(shared), limit: Arc::clone(limit), dispatch: Some(dispatch), stage: Stage::Made }
    }

    /// Notes that the server may have it from now on.
    pub(crate) fn send(&mut self) -> Option<&Command> {
        self.stage = Stage::Sent;
        self.dispatch.as_deref().map(Dispatch::command)
    }

    pub(crate) fn limit(&self) -> &Arc<SubjectLimit> {
        &self.limit
    }

    /// Whether more than one check may wait for it.
    pub(crate) fn is_joint(&self) -> bool {
        self.dispatch.as_deref().is_some_and(Dispatch::is_joint)
    }

    /// Whether it asks for leased tokens.
    pub(crate) fn is_lease(&self) -> bool {
        self.dispatch.as_deref().is_some_and(Dispatch::is_lease)
    }

    /// Ends it without a reply.
    pub(crate) fn failed(mut self) {
        self.stage = Stage::Failed;
    }

    /// Ends it with a reply.
    pub(crate) fn replied(mut self, reply: &crate::script::Reply) -> Outcome {
        match self.dispatch.take() {
            Some(dispatch) => {
                let outcome = self.limit.subject.replied(*dispatch, reply);
                self.limit.outcome.notify_waiters();
                outcome
            }
            // It has its command until it ends.
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
            }
            self.limit.outcome.notify_waiters();
            tender::tend_later(&self.shared, &self.limit);
        }
    }
}

/// A check that the process cannot decide by itself, with what it needs.
pub(crate) enum OpenCheck {
    /// The outcome of this command.
    Ask(Delivery),
    /// That of the command in flight.
    Join,
    /// The policy.
    Down,
}

/// Whether something is due.
pub(crate) fn is_something(due: &NextStep) -> bool {
    !matches!(due, NextStep::Nothing)
}
