//! A service that paces its calls.

use super::{PacingFuture, PacingLayer};
use core::fmt;
use core::task::{Context, Poll};
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::gate::{PacerOf, TimeLeft};
use damper_core::retry::{Budget, GaveUp, RetryError};
use damper_core::throttle::ReadHints;
use damper_core::time::Sleep;
use tower_service::Service;

/// A service that paces its calls. Made by [`PacingLayer`].
///
/// Ready whenever the service behind it is, which makes a call that need not sleep. A call that sleeps, and one that is made again, is made by
/// a clone of it, which is polled for readiness after the sleep. The service that was ready is replaced by a clone then, which gives its
/// readiness back. So a sleep reserves nothing of the service.
///
/// # Cancel safety
///
/// A future that is dropped while it sleeps leaves nothing behind, except that a strategy with a
/// [schedule](damper_core::throttle::Strategy::schedule) has lost the place. Dropped later, it drops the call, of which the pacer learns
/// nothing.
#[derive(Clone)]
pub struct PacingService<S, P, H, B, Z, D = ()> {
    service: S,
    layer: PacingLayer<P, H, B, Z, D>,
}

impl<S, P, H, B, Z, D> PacingService<S, P, H, B, Z, D> {
    pub(super) fn new(service: S, layer: PacingLayer<P, H, B, Z, D>) -> Self {
        Self { service, layer }
    }

    /// The service whose calls are paced.
    pub fn get_ref(&self) -> &S {
        &self.service
    }

    /// The service whose calls are paced.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// The service without pacing.
    pub fn into_inner(self) -> S {
        self.service
    }
}

impl<S, P, H, B, Z, D, R> Service<R> for PacingService<S, P, H, B, Z, D>
where
    S: Service<R> + Clone,
    P: PacerOf<R>,
    H: ReadHints<Result<S::Response, S::Error>> + Clone,
    B: Budget + Clone,
    Z: Sleep + Clone,
    D: TimeLeft<R>,
    R: Repeatable,
{
    type Response = S::Response;
    type Error = RetryError<S::Error>;
    type Future = PacingFuture<S, R, P::Pacer, H, B, Z>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let not_ready = |error| RetryError::new(GaveUp::NotRetryable, 0, Duration::ZERO, Some(error));
        self.service.poll_ready(context).map_err(not_ready)
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        let PacingLayer { pacers, hints, retry, sleep, time_left } = &self.layer;
        let retry = match time_left.left(&request) {
            Some(left) => retry.clone().deadline(&Deadline::after(left)),
            None => retry.clone(),
        };
        let pacer = pacers.pacer(&request);
        PacingFuture::begin(&mut self.service, request, pacer, hints.clone(), retry, sleep.clone())
    }
}

/// A request that can be made again.
#[diagnostic::on_unimplemented(
    message = "a rejected `{Self}` cannot be made again, because it is not `Clone`",
    note = "`PacingLayer::without_retries` paces requests of any type"
)]
pub trait Repeatable: Clone {}

#[diagnostic::do_not_recommend]
impl<R: Clone> Repeatable for R {}

impl<S: fmt::Debug, P, H, B, Z, D> fmt::Debug for PacingService<S, P, H, B, Z, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacingService").field("service", &self.service).finish_non_exhaustive()
    }
}
