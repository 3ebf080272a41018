//! The task of a subject: it renews and returns leases, and tells the server of charges and refunds.

use super::shared::Shared;
use super::subject_limit::{Delivery, SubjectLimit};
use crate::server::random_between;
use crate::subject::NextStep;
use core::pin::pin;
use core::time::Duration;
use damper_core::{Clock, Monotonic};
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

/// How long a task waits for the server to come back before it tries by itself, in ms.
const PATIENCE: [u64; 2] = [1_000, 3_000];

/// How long it waits once the server is back, in ms: by chance, so that not all come at once.
const SPREAD: [u64; 2] = [0, 200];

/// Starts the task of a subject, if something is due and there is none.
///
/// Without a runtime, all that is due waits for the next command.
pub(crate) fn tend(shared: &Arc<Shared>, limit: &Arc<SubjectLimit>) {
    let Ok(runtime) = Handle::try_current() else { return };
    if !limit.claim() {
        return;
    }
    let mut tender = Tender { shared: Arc::clone(shared), limit: Arc::clone(limit), is_claimed: true };
    match tender.next() {
        Some(Job::Send(delivery)) => drop(runtime.spawn(tender.run(Some(delivery)))),
        Some(Job::At(_)) => drop(runtime.spawn(tender.run(None))),
        None => {}
    }
}

/// Starts the task of a subject that may have something due, without asking it.
///
/// For a command that ended without a reply. It may end with a runtime that drops all new tasks at once, so this makes no other one.
pub(crate) fn tend_later(shared: &Arc<Shared>, limit: &Arc<SubjectLimit>) {
    let Ok(runtime) = Handle::try_current() else { return };
    if limit.subject.is_settled() || !limit.claim() {
        return;
    }
    let tender = Tender { shared: Arc::clone(shared), limit: Arc::clone(limit), is_claimed: true };
    drop(runtime.spawn(tender.run(None)));
}

/// Returns the leases of these limits to the server, and says that this process leaves.
///
/// Pending charges and refunds go along. In a task of its own. Without a runtime it does nothing: leases end by themselves, and pending charges are lost.
pub(crate) fn retire(shared: &Arc<Shared>, limits: Vec<Arc<SubjectLimit>>) {
    let Ok(runtime) = Handle::try_current() else { return };
    if !shared.server.is_connected() {
        return;
    }
    let shared = Arc::clone(shared);
    runtime.spawn(async move {
        for limit in limits {
            if let Some(dispatch) = limit.subject.retire() {
                let until = Instant::now() + shared.server.deadline();
                // A lease that cannot be returned ends by itself.
                _ = shared.send(Delivery::new(&shared, &limit, dispatch), until).await;
            }
        }
        shared.heartbeat.leave(&shared).await;
    });
}

/// Something to be done without a check.
enum Job {
    Send(Delivery),
    /// At this tick of the subject's clock.
    At(u64),
}

/// A task that has claimed its subject; the claim ends with it, or with its runtime.
struct Tender {
    shared: Arc<Shared>,
    limit: Arc<SubjectLimit>,
    is_claimed: bool,
}

impl Drop for Tender {
    fn drop(&mut self) {
        if self.is_claimed {
            self.limit.release();
        }
    }
}

impl Tender {
    async fn run(mut self, mut first: Option<Delivery>) {
        while self.is_claimed || first.is_some() {
            let limit = Arc::clone(&self.limit);
            // Before the subject is asked, so that no outcome is missed that changes what is due.
            let mut outcome = pin!(limit.outcome.notified());
            outcome.as_mut().enable();
            match first.take().map(Job::Send).or_else(|| self.next()) {
                // Either time has come, or something has changed.
                Some(Job::At(tick)) => drop(timeout(until(tick), outcome).await),
                Some(Job::Send(delivery)) => {
                    if !self.send(delivery).await {
                        return;
                    }
                }
                None => return,
            }
        }
    }

    /// Returns what is to be done next; none if there is nothing, or another task does it.
    ///
    /// A command is returned even if another task has claimed the subject, because it has to be sent.
    fn next(&mut self) -> Option<Job> {
        if let Some(job) = self.job() {
            return Some(job);
        }
        // Whoever makes something due now finds the place taken. So this looks once more after it has left it.
        self.release();
        let job = self.job()?;
        self.is_claimed = self.limit.claim();
        if self.is_claimed || matches!(job, Job::Send(_)) { Some(job) } else { None }
    }

    fn job(&self) -> Option<Job> {
        match self.limit.subject.due() {
            NextStep::Send(dispatch) => Some(Job::Send(Delivery::new(&self.shared, &self.limit, dispatch))),
            NextStep::At(tick) => Some(Job::At(tick)),
            NextStep::Nothing => None,
        }
    }

    fn release(&mut self) {
        self.is_claimed = false;
        self.limit.release();
    }

    /// Sends a command. If the server does not answer, waits until it is back, or a while.
    ///
    /// Returns false if the subject is given up with what is pending, because it was evicted or its limiter was dropped. Otherwise a
    /// flood of keys would fill the memory for as long as the server is gone.
    async fn send(&self, delivery: Delivery) -> bool {
        let back = self.shared.back.notified();
        let until = Instant::now() + self.shared.server.deadline();
        if self.shared.send(delivery, until).await.is_ok() || !self.shared.authority.is_policy() {
            return true;
        }
        // This value has one, and `run` has one.
        if Arc::strong_count(&self.limit) <= 2 {
            return false;
        }
        let [least, most] = PATIENCE;
        drop(timeout(Duration::from_millis(random_between(least, most)), back).await);
        let [least, most] = SPREAD;
        sleep(Duration::from_millis(random_between(least, most))).await;
        true
    }
}

/// The time until a tick of the subject's clock.
fn until(tick: u64) -> Duration {
    let ahead = tick.saturating_sub(Monotonic.now());
    let nanos = u128::from(ahead) * 1_000_000_000 / u128::from(Monotonic.frequency().max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
