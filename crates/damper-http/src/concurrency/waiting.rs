//! Requests that wait for their permits.

use super::{Acquisition, Bulkheads, ConcurrencyLimit, ConcurrencyPermit, PermitOrWait};
use crate::Head;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use damper_core::concurrency::{AcquirePermit, AcquirePermitFuture, BulkheadFull, BulkheadPermit};
use damper_core::deadline::Deadline;
use damper_core::internal::timed_out;
use damper_core::time::Sleep;

/// Bulkheads or adaptive limits in whose queues requests wait.
///
/// Made by [`ConcurrencyLayer::waiting`](super::ConcurrencyLayer::waiting) and
/// [`ClientConcurrencyLayer::waiting`](super::ClientConcurrencyLayer::waiting).
pub struct Waiting<B, S> {
    bulkheads: Arc<B>,
    longest: Duration,
    sleep: S,
}

impl<B: Bulkheads, S: Sleep + Clone> Waiting<B, S> {
    /// Lets requests wait in the queues of these bulkheads, for `longest` at most.
    ///
    /// A request with a `Deadline` in its extensions waits no longer than that. Waits sleep by `sleep`.
    ///
    /// A request whose deadline has passed is refused, even if a slot is free.
    pub fn new(bulkheads: B, longest: Duration, sleep: S) -> Self {
        Self::of(Arc::new(bulkheads), longest, sleep)
    }

    pub(super) fn of(bulkheads: Arc<B>, longest: Duration, sleep: S) -> Self {
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
        if head.extensions.get::<Deadline>().is_some_and(Deadline::is_expired) {
            return Acquisition::Now(Err(timed_out(&self.bulkheads.acquire(head))));
        }
        // Cannot overtake a waiter: no slot is free while calls are queued.
        match self.bulkheads.try_acquire_or_wait(head) {
            Ok(PermitOrWait::Permit(permit)) => Acquisition::Now(Ok(permit)),
            Ok(PermitOrWait::Wait(wait)) => Acquisition::Later(self.bounded(wait, head)),
            Err(full) => Acquisition::Now(Err(full)),
        }
    }
}

impl<B: Bulkheads, S: Sleep + Clone> Waiting<B, S> {
    /// Bounds a wait by the setting and by the request's deadline.
    #[cold]
    fn bounded(&self, wait: AcquirePermit<B::Bulkhead>, head: &Head<'_>) -> AcquirePermitFuture<B::Bulkhead, S> {
        let acquire = wait.within(self.longest);
        let acquire = match head.extensions.get::<Deadline>() {
            Some(deadline) => acquire.by(deadline),
            None => acquire,
        };
        acquire.sleeping_by(self.sleep.clone())
    }
}

#[cfg(feature = "metrics")]
impl<B: damper_metrics::Source, S> damper_metrics::Source for Waiting<B, S> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.bulkheads.read(readings);
    }
}

/// Clones share the bulkheads.
impl<B, S: Clone> Clone for Waiting<B, S> {
    fn clone(&self) -> Self {
        Self { bulkheads: Arc::clone(&self.bulkheads), longest: self.longest, sleep: self.sleep.clone() }
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
