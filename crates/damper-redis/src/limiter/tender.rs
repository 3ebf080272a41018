//! The task of a subject, which keeps its lease and sends charges and refunds; the end of a limiter.

use super::shared::Shared;
use super::subject_limit::{Delivery, SubjectLimit};
use crate::server::random_between;
use crate::subject::NextStep;
use core::pin::pin;
use core::time::Duration;
use damper_core::{Clock, Monotonic};
use futures_util::future::select;
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

/// The range of the time that a task waits for the server to come back before it sends anyway, in ms.
const PATIENCE: [u64; 2] = [1_000, 3_000];

/// The range of the random pause once the server is back, in ms. It keeps the tasks apart.
const SPREAD: [u64; 2] = [0, 200];

/// Starts the task of a subject, or wakes it, because a charge or a refund is booked.
///
/// The task may wait for a later time than that at which the booking has to be sent.
pub(crate) fn tend_booking(shared: &Arc<Shared>, limit: &Arc<SubjectLimit>) {
    tend(shared, limit);
    limit.booked.notify_waiters();
}

/// Starts the task of a subject, if a step is due and no task runs.
///
/// Without a runtime, the step waits for the next command.
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

/// Starts the task of a subject for which a step may be due, without making a command.
///
/// It is called when a command ends without a reply. The runtime may be about to end and drop each new task at once. A command made
/// here would end in the same way, and again call this function.
pub(crate) fn tend_later(shared: &Arc<Shared>, limit: &Arc<SubjectLimit>) {
    let Ok(runtime) = Handle::try_current() else { return };
    if limit.subject.is_settled() || !limit.claim() {
        return;
    }
    let tender = Tender { shared: Arc::clone(shared), limit: Arc::clone(limit), is_claimed: true };
    drop(runtime.spawn(tender.run(None)));
}

/// Returns the leases of these limits, sends what is pending, and reports that this process leaves.
///
/// It does so in a task of its own. Without a runtime it does nothing: leases then end by themselves, and pending charges are lost.
pub(crate) fn retire(shared: &Arc<Shared>, limits: Vec<Arc<SubjectLimit>>) {
    let Ok(runtime) = Handle::try_current() else { return };
    if !shared.fleet.server.is_connected() {
        return;
    }
    let shared = Arc::clone(shared);
    runtime.spawn(async move {
        for limit in limits {
            if let Some(dispatch) = limit.subject.retire() {
                let until = Instant::now() + shared.fleet.server.deadline();
                // A lease that cannot be returned expires.
                _ = shared.send(Delivery::new(&shared, &limit, dispatch), until).await;
            }
        }
        shared.fleet.heartbeat.leave(&shared.fleet).await;
    });
}

/// A step that no check asks for.
enum Job {
    /// Send this command.
    Send(Delivery),
    /// Wait until this tick of the subject's clock.
    At(u64),
}

/// A task that has claimed the place of its subject's tender.
///
/// Dropping it releases the place, also at the end of its runtime.
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
    /// Does one job after another until none is left.
    async fn run(mut self, mut first: Option<Delivery>) {
        while self.is_claimed || first.is_some() {
            let limit = Arc::clone(&self.limit);
            // The waits are registered before the subject is asked, so that they miss nothing that changes the next step.
            let (mut outcome, mut booked) = (pin!(limit.outcome.notified()), pin!(limit.booked.notified()));
            outcome.as_mut().enable();
            booked.as_mut().enable();
            match first.take().map(Job::Send).or_else(|| self.next()) {
                // Either the time has come, or an outcome or a booking has changed the next step.
                Some(Job::At(tick)) => drop(timeout(until(tick), select(outcome, booked)).await),
                Some(Job::Send(delivery)) => {
                    if !self.send(delivery).await {
                        return;
                    }
                }
                None => return,
            }
        }
    }

    /// Returns the next job; `None` if there is none, or another task does it.
    ///
    /// A command is returned even if another task has claimed the place, because it must be sent.
    fn next(&mut self) -> Option<Job> {
        if let Some(job) = self.job() {
            return Some(job);
        }
        // A thread that makes a step due now finds the place claimed. So this task releases it and looks once more.
        self.release();
        let job = self.job()?;
        self.is_claimed = self.limit.claim();
        if self.is_claimed || matches!(job, Job::Send(_)) { Some(job) } else { None }
    }

    /// Returns the job that the subject has now.
    fn job(&self) -> Option<Job> {
        match self.limit.subject.due() {
            NextStep::Send(dispatch) => Some(Job::Send(Delivery::new(&self.shared, &self.limit, dispatch))),
            NextStep::At(tick) => Some(Job::At(tick)),
            NextStep::Nothing => None,
        }
    }

    /// Releases the place of the tender.
    fn release(&mut self) {
        self.is_claimed = false;
        self.limit.release();
    }

    /// Sends a command. If the server does not answer, waits until it is back, or for a while.
    ///
    /// Returns false if the server does not answer and the subject was evicted or its limiter dropped. The task then abandons what is
    /// pending. Otherwise a flood of keys would fill the memory while the server is gone.
    async fn send(&self, delivery: Delivery) -> bool {
        let back = self.shared.fleet.back.notified();
        let until = Instant::now() + self.shared.fleet.server.deadline();
        let (shard, _) = self.shared.fleet.server.shard(self.limit.keys.slot());
        if self.shared.send(delivery, until).await.is_ok() || !self.shared.fleet.authority.is_silent(shard) {
            return true;
        }
        // `self` and `run` have one reference each.
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

/// Returns the time until a tick of the subject's clock.
fn until(tick: u64) -> Duration {
    let ahead = tick.saturating_sub(Monotonic.now());
    let nanos = u128::from(ahead) * 1_000_000_000 / u128::from(Monotonic.frequency().max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
