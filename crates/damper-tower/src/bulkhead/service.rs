//! A service behind bulkheads.

use super::{BulkheadFuture, SelectBulkhead, SharedBulkhead};
use crate::{FindDeadline, Refusing, Waiting, WaitingService};
use core::fmt;
use core::mem;
use core::task::{Context, Poll};
use damper_core::CallError;
use damper_core::concurrency::{AcquirePermitFuture, BulkheadFull};
use damper_core::deadline::Deadline;
use damper_core::internal::timed_out;
use damper_core::time::Sleep;
use tower_service::Service;

/// A service behind bulkheads. Made by [`BulkheadLayer`](super::BulkheadLayer).
///
/// Ready whenever the service behind it is. A call that waits for a permit is made by the service that was ready, and a clone of
/// it takes its place. Until then it holds what that service reserved in `poll_ready`.
///
/// # Cancel safety
///
/// A future that is dropped gives its permit back at once, or leaves its place in the queue. The others stay in their order.
#[derive(Clone)]
pub struct BulkheadService<S, A> {
    service: S,
    admission: A,
}

impl<S, A> BulkheadService<S, A> {
    pub(super) fn new(service: S, admission: A) -> Self {
        Self { service, admission }
    }

    /// The service behind the bulkheads.
    pub fn get_ref(&self) -> &S {
        &self.service
    }

    /// The service behind the bulkheads.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// The service without the bulkheads.
    pub fn into_inner(self) -> S {
        self.service
    }
}

impl<S: Service<R>, P: SelectBulkhead<R>, R> Service<R> for BulkheadService<S, Refusing<P>> {
    type Response = S::Response;
    type Error = CallError<S::Error, BulkheadFull>;
    type Future = BulkheadFuture<S, R, P::Bulkhead>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(context).map_err(CallError::Failed)
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        let Refusing(bulkheads) = &self.admission;
        match bulkheads.bulkhead(&request).and_then(SharedBulkhead::try_acquire) {
            Ok(permit) => BulkheadFuture::calling(self.service.call(request), permit),
            Err(full) => BulkheadFuture::refused(full),
        }
    }
}

impl<S, P, Z, D, R> Service<R> for BulkheadService<S, Waiting<P, Z, D>>
where
    S: Service<R> + WaitingService,
    P: SelectBulkhead<R>,
    Z: Sleep + Clone,
    D: FindDeadline<R>,
{
    type Response = S::Response;
    type Error = CallError<S::Error, BulkheadFull>;
    type Future = BulkheadFuture<S, R, P::Bulkhead, AcquirePermitFuture<P::Bulkhead, Z>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(context).map_err(CallError::Failed)
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        let Waiting { limit: bulkheads, longest, sleep, find_deadline } = &self.admission;
        let bulkhead = match bulkheads.bulkhead(&request) {
            Ok(bulkhead) => bulkhead,
            Err(full) => return BulkheadFuture::refused(full),
        };
        let deadline = find_deadline.deadline(&request);
        if deadline.as_ref().is_some_and(Deadline::is_expired) {
            return BulkheadFuture::refused(timed_out(&bulkhead.acquire()));
        }
        if let Ok(permit) = bulkhead.clone().try_acquire() {
            return BulkheadFuture::calling(self.service.call(request), permit);
        }
        let mut wait = bulkhead.acquire().within(*longest);
        if let Some(deadline) = &deadline {
            wait = wait.by(deadline);
        }
        // This service is the one that is ready. Its clone has to be polled first.
        let clone = self.service.clone();
        let service = mem::replace(&mut self.service, clone);
        BulkheadFuture::waiting(wait.sleeping_by(sleep.clone()), service, request)
    }
}

impl<S: fmt::Debug, A> fmt::Debug for BulkheadService<S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkheadService").field("service", &self.service).finish_non_exhaustive()
    }
}
