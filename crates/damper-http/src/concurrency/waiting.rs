//! Requests that wait for their permits.

use super::{Acquisition, Bulkheads, ConcurrencyLimit, ConcurrencyPermit, ConcurrencyStatus};
use crate::Head;
use core::fmt;
use core::time::Duration;
use damper_core::concurrency::{AcquirePermitFuture, BulkheadFull, BulkheadPermit, FullCause};
use damper_core::deadline::Deadline;
use damper_core::time::Sleep;

/// Bulkheads or adaptive limits in whose queues requests wait.
///
/// Made by [`ConcurrencyLayer::waiting`](super::ConcurrencyLayer::waiting) and
/// [`ClientConcurrencyLayer::waiting`](super::ClientConcurrencyLayer::waiting).
#[derive(Clone)]
pub struct Waiting<B, S> {
    bulkheads: B,
    longest: Duration,
    sleep: S,
}

impl<B: Bulkheads, S: Sleep + Clone> Waiting<B, S> {
    /// Lets requests wait in the queues of these bulkheads, sleeping by `sleep`.
    ///
    /// They wait for `longest` at most, and no longer than the `Deadline` in a request's extensions leaves.
    pub fn new(bulkheads: B, longest: Duration, sleep: S) -> Self {
        Self { bulkheads, longest, sleep }
    }
}

impl<B: Bulkheads, S: Sleep + Clone> ConcurrencyLimit for Waiting<B, S>
where
    BulkheadPermit<B::Bulkhead>: ConcurrencyPermit,
{
    type Permit = BulkheadPermit<B::Bulkhead>;
    type Refusal = BulkheadFull;
    type Future = AcquirePermitFuture<B::Bulkhead, S>;

    #[inline]
    fn acquire(&self, head: &Head<'_>) -> Acquisition<Self::Permit, BulkheadFull, Self::Future> {
        // This overtakes no waiter: while there are some, no slot is free.
        match self.bulkheads.try_acquire(head) {
            Err(full) if full.cause() == FullCause::NoSlot => Acquisition::Later(self.wait(head)),
            taken => Acquisition::Now(taken),
        }
    }

    fn status(&self) -> Option<ConcurrencyStatus> {
        self.bulkheads.status()
    }
}

impl<B: Bulkheads, S: Sleep + Clone> Waiting<B, S> {
    #[cold]
    fn wait(&self, head: &Head<'_>) -> AcquirePermitFuture<B::Bulkhead, S> {
        let acquire = self.bulkheads.acquire(head).within(self.longest);
        let acquire = match head.extensions.get::<Deadline>() {
            Some(deadline) => acquire.by(deadline),
            None => acquire,
        };
        acquire.sleeping_by(self.sleep.clone())
    }
}

impl<B: fmt::Debug, S> fmt::Debug for Waiting<B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("bulkheads", &self.bulkheads)
            .field("longest", &self.longest)
            .finish_non_exhaustive()
    }
}
