//! A service that paces its calls.

use super::{PacingFuture, PacingLayer, PacingMode, SelectPacer};
use core::fmt;
use core::task::{Context, Poll};
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::gate::TimeLeft;
use damper_core::retry::{GaveUp, RetryError};
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
pub struct PacingService<S, T, H, M, Z, D = ()> {
    service: S,
    layer: PacingLayer<T, H, M, Z, D>,
}

impl<S, T, H, M, Z, D> PacingService<S, T, H, M, Z, D> {
    pub(super) fn new(service: S, layer: PacingLayer<T, H, M, Z, D>) -> Self {
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

impl<S, T, H, M, Z, D, R> Service<R> for PacingService<S, T, H, M, Z, D>
where
    S: Service<R> + Clone,
    T: SelectPacer<R>,
    H: ReadHints<Result<S::Response, S::Error>> + Clone,
    M: PacingMode<R>,
    Z: Sleep + Clone,
    D: TimeLeft<R>,
{
    type Response = S::Response;
    type Error = M::Error<S::Error>;
    type Future = PacingFuture<S, R, T::Pacer, H, M, Z>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let not_ready = |error| M::give_up(RetryError::new(GaveUp::NotRetryable, 0, Duration::ZERO, Some(error)));
        self.service.poll_ready(context).map_err(not_ready)
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        let PacingLayer { pacers, hints, mode, sleep, time_left } = &self.layer;
        let policy = match time_left.left(&request) {
            Some(left) => mode.policy().deadline(&Deadline::after(left)),
            None => mode.policy(),
        };
        let pacer = pacers.pacer(&request);
        PacingFuture::begin(&mut self.service, request, pacer, hints.clone(), policy, sleep.clone())
    }
}

impl<S: fmt::Debug, T, H, M, Z, D> fmt::Debug for PacingService<S, T, H, M, Z, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacingService").field("service", &self.service).finish_non_exhaustive()
    }
}
