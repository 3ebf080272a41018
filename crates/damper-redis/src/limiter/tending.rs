//! The task of a subject: it renews and returns leases, and tells the server of charges and refunds.

use super::shared::Shared;
use super::subject_limit::SubjectLimit;
use crate::server::chance;
use crate::subject::{Due, Outgoing};
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
    match limit.subject.due() {
        Due::Nothing => limit.release(),
        due => {
            let tending = Tending { shared: Arc::clone(shared), limit: Arc::clone(limit), is_claimed: true };
            drop(runtime.spawn(tending.run(due)));
        }
    }
}

/// A task that has claimed its subject; the claim ends with it, or with its runtime.
struct Tending {
    shared: Arc<Shared>,
    limit: Arc<SubjectLimit>,
    is_claimed: bool,
}

impl Drop for Tending {
    fn drop(&mut self) {
        if self.is_claimed {
            self.limit.release();
        }
    }
}

impl Tending {
    async fn run(mut self, first: Due) {
        let mut first = Some(first);
        loop {
            let limit = Arc::clone(&self.limit);
            // Before the subject is asked, so that no outcome is missed that changes what is due.
            let mut outcome = pin!(limit.outcome.notified());
            outcome.as_mut().enable();
            match first.take().unwrap_or_else(|| limit.subject.due()) {
                // Either time has come, or something has changed.
                Due::At(tick) => drop(timeout(until(tick), outcome).await),
                Due::Send(outgoing) => self.send(outgoing).await,
                Due::Nothing => {
                    // Something that comes due now finds this task, which is about to end. So this task does it, or another
                    // one that claims the subject first.
                    self.release();
                    let due = limit.subject.due();
                    if matches!(due, Due::Nothing) {
                        return;
                    }
                    self.is_claimed = limit.claim();
                    match due {
                        due if self.is_claimed => first = Some(due),
                        Due::Send(outgoing) => return self.send(outgoing).await,
                        Due::At(_) | Due::Nothing => return,
                    }
                }
            }
        }
    }

    fn release(&mut self) {
        self.is_claimed = false;
        self.limit.release();
    }

    /// Sends a command. If the server does not answer, waits until it is back, or a while.
    async fn send(&self, outgoing: Box<Outgoing>) {
        let back = self.shared.back.notified();
        let until = Instant::now() + self.shared.server.deadline();
        if self.shared.send(&self.limit, outgoing, until).await.is_ok() || !self.shared.authority.is_policy() {
            return;
        }
        let [least, most] = PATIENCE;
        drop(timeout(Duration::from_millis(chance::between(least, most)), back).await);
        let [least, most] = SPREAD;
        sleep(Duration::from_millis(chance::between(least, most))).await;
    }
}

/// The time until a tick of the subject's clock.
fn until(tick: u64) -> Duration {
    let ahead = tick.saturating_sub(Monotonic.now());
    let nanos = u128::from(ahead) * 1_000_000_000 / u128::from(Monotonic.frequency().max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
