//! A service that paces its calls.

use super::paced_attempt::{PacedAttempt, Reader};
use super::paced_service::PacedService;
use super::{PacedRetries, Pacers, PacingLayer, Repeating};
#[cfg(feature = "hyper")]
use crate::retry::HyperService;
#[cfg(feature = "tower")]
use crate::retry::TowerService;
use crate::retry::{BegunCall, Budgets, Call, Callee, RetryProtocol, RetrySettings, RetryingFuture, deadline_of};
#[cfg(any(feature = "hyper", feature = "tower"))]
use crate::retry::{BorrowedCallee, GiveUp};
use crate::{Head, ResponseHead};
use core::fmt;
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::internal::SeenPause;
use damper_core::retry::GaveUp;
#[cfg(feature = "tower")]
use damper_core::retry::RetryError;
use damper_core::throttle::{PaceTooSlow, ReadHints};
use damper_core::time::{DefaultClock, Sleep};
use http::{Request, Response};

/// A client's service that paces its calls and retries rejected ones, created by [`PacingLayer`](super::PacingLayer).
///
/// It is ready when the service behind it is, which makes a call that need not sleep. A clone of that service makes a call that sleeps, and
/// each retry. The clone is polled for readiness after the sleep. The service that was ready is then replaced by a clone, which gives its
/// readiness back. So a sleep reserves nothing of the service.
///
/// # Cancel safety
///
/// Dropping a future while it sleeps leaves nothing behind, except that a strategy with a
/// [schedule](damper_core::throttle::Strategy::schedule) has lost the place. Dropping it later drops the attempt in flight, from which the
/// pacer learns nothing. A retry that the budget allowed for that attempt is spent.
pub struct PacingService<S, T, H, M> {
    service: S,
    layer: PacingLayer<T, H, M>,
}

impl<S, T, H, M> PacingService<S, T, H, M> {
    pub(super) fn new(service: S, layer: PacingLayer<T, H, M>) -> Self {
        Self { service, layer }
    }

    /// Returns the service whose calls are paced.
    pub fn get_ref(&self) -> &S {
        &self.service
    }

    /// Returns the service whose calls are paced.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// Returns the service without pacing.
    pub fn into_inner(self) -> S {
        self.service
    }
}

/// The call of a service that retries rejected calls.
type RepeatingCall<S, Q, T, H, B, K, Z> =
    RetryingFuture<PacedService<S, <T as Pacers>::Pacer, H>, Q, DefaultClock, B, PacedRetries<K>, Z>;

#[cfg(any(feature = "hyper", feature = "tower"))]
impl<T, H, B, K, Z> PacingLayer<T, H, Repeating<B, K, Z>>
where
    T: Pacers,
    H: for<'a> ReadHints<ResponseHead<'a>> + Clone,
    B: Budgets,
    Z: Sleep,
{
    /// Returns the call of a request, which is made at once or after a sleep.
    #[inline]
    fn call<S, Q, R>(&self, service: S, request: Request<Q>) -> RepeatingCall<S::Later, Q, T, H, B, K, Z>
    where
        S: BorrowedCallee<Request<K::Body>, Later: Callee<Request<K::Body>, Response = Response<R>>>,
        K: RetryProtocol<Q>,
    {
        let settings = &self.mode.0;
        let head = Head::of(&request);
        let pacer = self.pacers.pacer(&head);
        // Read before the sleep is chosen, so that no later pause is missed.
        let pause = SeenPause::of(&pacer);
        let sleep = pacer.before_call_within(|| {
            let RetrySettings { retry, protocol, .. } = &**settings;
            let left = deadline_of::<Q, _, _>(protocol, &head, retry.clock())
                .map_or(Duration::MAX, |deadline| deadline.remaining());
            left.min(protocol.longest)
        });
        let reader = Reader { pacer, hints: self.hints.clone(), telemetry: self.telemetry.clone() };
        let longest = Deadline::after(settings.protocol.longest);
        if sleep.is_zero() {
            let begun = BegunCall::new::<Q, _, _>(settings, &head);
            if begun.is_too_late() {
                service.release();
                return RetryingFuture::not_begun(Call::new(settings, begun, None), GaveUp::Deadline { hint: None });
            }
            let (first, kept) = begun.first_request(settings, request);
            let until = begun.deadline().earlier(longest);
            self.telemetry.record_unslept();
            let again =
                kept.is_some().then(|| PacedService { service: service.later(), reader: reader.clone(), until, pause });
            let attempt = PacedAttempt::new(service.call(first), reader, until);
            RetryingFuture::calling(Call::new(settings, begun, kept).begins_until(until), attempt, again)
        } else {
            let call = Call::begin_later(settings, request);
            let until = call.deadline().earlier(longest);
            let call = call.begins_until(until);
            let left = until.remaining();
            let service = service.release();
            if sleep < left {
                self.telemetry.record_slept(sleep);
                RetryingFuture::waiting(call, sleep, PacedService { service, reader, until, pause })
            } else {
                RetryingFuture::not_begun(call, GaveUp::Paced(self.refuse(PaceTooSlow::new(sleep, left))))
            }
        }
    }
}

impl<T, H, M> PacingLayer<T, H, M> {
    /// Records a call that is not made.
    #[cold]
    fn refuse(&self, too_slow: PaceTooSlow) -> PaceTooSlow {
        self.telemetry.record_refused(too_slow.retry_after(), too_slow);
        too_slow
    }
}

#[cfg(feature = "tower")]
impl<S, T, H, B, K, Z, Q, R> tower_service::Service<Request<Q>> for PacingService<S, T, H, Repeating<B, K, Z>>
where
    S: tower_service::Service<Request<K::Body>, Response = Response<R>> + Clone,
    T: Pacers,
    H: for<'a> ReadHints<ResponseHead<'a>> + Clone,
    B: Budgets,
    K: RetryProtocol<Q> + GiveUp<S::Error>,
    Z: Sleep,
{
    type Response = Response<R>;
    type Error = <K as GiveUp<S::Error>>::Error;
    type Future = RepeatingCall<TowerService<S>, Q, T, H, B, K, Z>;

    fn poll_ready(&mut self, context: &mut core::task::Context<'_>) -> core::task::Poll<Result<(), Self::Error>> {
        let not_ready = |error| RetryError::new(GaveUp::NotRetryable, 0, Duration::ZERO, Some(error));
        self.service.poll_ready(context).map_err(|error| self.layer.mode.0.protocol.give_up(not_ready(error)))
    }

    #[inline]
    fn call(&mut self, request: Request<Q>) -> Self::Future {
        self.layer.call(&mut self.service, request)
    }
}

#[cfg(feature = "hyper")]
impl<S, T, H, B, K, Z, Q, R> hyper::service::Service<Request<Q>> for PacingService<S, T, H, Repeating<B, K, Z>>
where
    S: hyper::service::Service<Request<K::Body>, Response = Response<R>> + Clone,
    T: Pacers,
    H: for<'a> ReadHints<ResponseHead<'a>> + Clone,
    B: Budgets,
    K: RetryProtocol<Q> + GiveUp<S::Error>,
    Z: Sleep,
{
    type Response = Response<R>;
    type Error = <K as GiveUp<S::Error>>::Error;
    type Future = RepeatingCall<HyperService<S>, Q, T, H, B, K, Z>;

    #[inline]
    fn call(&self, request: Request<Q>) -> Self::Future {
        self.layer.call(&self.service, request)
    }
}

/// Clones share the pacers, but not readiness.
impl<S: Clone, T: Clone, H: Clone, M: Clone> Clone for PacingService<S, T, H, M> {
    fn clone(&self) -> Self {
        Self::new(self.service.clone(), self.layer.clone())
    }
}

impl<S: fmt::Debug, T: fmt::Debug, H, M> fmt::Debug for PacingService<S, T, H, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacingService")
            .field("service", &self.service)
            .field("pacers", &self.layer.pacers)
            .finish_non_exhaustive()
    }
}
