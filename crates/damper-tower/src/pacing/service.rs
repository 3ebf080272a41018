//! A service that paces its calls.

use super::PacingLayer;
use core::fmt;
use core::task::{Context, Poll};
use core::time::Duration;
use damper_core::Reads;
use damper_core::deadline::Deadline;
use damper_core::gate::{PacerSource, keep};
use damper_core::internal::{PacedCalls, PacedFuture, PacedOperation};
use damper_core::retry::{Budget, GaveUp, RetryError};
use damper_core::throttle::Hints;
use damper_core::time::Sleep;
use tower_service::Service;

/// A service that paces its calls. Made by [`PacingLayer`].
///
/// Ready whenever the service behind it is, which makes a call that need not sleep. A clone takes its place. A call that sleeps is made by
/// another clone, which is polled for readiness after the sleep, and the service that was ready gives its readiness back. So a sleep reserves
/// nothing of the service.
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
}

impl<S, P, H, B, Z, D, R> Service<R> for PacingService<S, P, H, B, Z, D>
where
    S: Service<R> + Clone,
    P: PacerSource + Reads<R, <P as PacerSource>::Pacer>,
    H: Reads<Result<S::Response, S::Error>, Hints> + Clone,
    B: Budget + Clone,
    Z: Sleep + Clone,
    D: Reads<R, Option<Duration>>,
    R: Clone,
{
    type Response = S::Response;
    type Error = RetryError<S::Error>;
    type Future = PacedFuture<P::Pacer, B, H, ServiceAttempts<S, R>, Z>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let not_ready = |error| RetryError::new(GaveUp::NotRetryable, 0, Duration::ZERO, Some(error));
        self.service.poll_ready(context).map_err(not_ready)
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        let PacingLayer { pacers, hints, retry, sleep, time_left } = &self.layer;
        let retry = match time_left.read_from(&request) {
            Some(left) => retry.clone().deadline(&Deadline::after(left)),
            None => retry.clone(),
        };
        let pacer = pacers.read_from(&request);
        let attempts = ServiceAttempts { service: keep(&mut self.service), request: Some(request) };
        PacedCalls::new(pacer, retry, hints.clone(), attempts, sleep.clone()).begin()
    }
}

/// The attempts of a call of a service, which is ready for the first.
pub struct ServiceAttempts<S, R> {
    service: S,
    // For the next attempt, if there can be one.
    request: Option<R>,
}

impl<S: Service<R> + Clone, R: Clone> PacedOperation for ServiceAttempts<S, R> {
    type Value = S::Response;
    type Error = S::Error;
    type Attempt = S::Future;

    #[inline]
    fn attempt(&mut self, _: u32, is_last: bool) -> Option<S::Future> {
        let request = if is_last { self.request.take() } else { self.request.clone() };
        request.map(|request| self.service.call(request))
    }

    #[inline]
    fn is_repeatable(&self) -> bool {
        self.request.is_some()
    }

    /// The readiness may hold a permit, which a sleep must not keep from other calls.
    fn release(&mut self) {
        self.service = self.service.clone();
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }
}

impl<S: fmt::Debug, R> fmt::Debug for ServiceAttempts<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAttempts").field("service", &self.service).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, P, H, B, Z, D> fmt::Debug for PacingService<S, P, H, B, Z, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacingService").field("service", &self.service).finish_non_exhaustive()
    }
}
