//! A service that paces its calls.

use super::paced_attempt::{PacedAttempt, Reader};
use super::paced_requests::refuse;
use super::paced_service::PacedService;
use super::{PacedRetries, PacingLayer, Repeating};
#[cfg(any(feature = "hyper", feature = "tower"))]
use crate::retry::BorrowedCallee;
use crate::retry::{
    AttemptBody, AttemptsService, BegunCall, Budgets, Call, CallInAttempts, Callee, GiveUp, RetryProtocol,
    RetrySettings, RetryingFuture, deadline_of,
};
use crate::telemetry::Event;
use crate::{Head, ResponseHead};
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::gate::PacerOf;
use damper_core::internal::SeenPause;
use damper_core::retry::{GaveUp, RetryError};
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
pub type PacingService<S, T, H, M> = AttemptsService<S, PacingLayer<T, H, M>>;

impl<T, H, B, K: RetryProtocol<Q>, Z, Q> AttemptBody<Q> for PacingLayer<T, H, Repeating<B, K, Z>> {
    type Body = K::Body;
}

impl<S, T, H, B, K, Z, Q, R> CallInAttempts<Q, S> for PacingLayer<T, H, Repeating<B, K, Z>>
where
    S: Callee<Request<K::Body>, Response = Response<R>>,
    T: for<'a> PacerOf<Head<'a>>,
    H: for<'a> ReadHints<ResponseHead<'a>> + Clone,
    B: Budgets,
    K: RetryProtocol<Q> + GiveUp<S::Error>,
    Z: Sleep,
{
    type Response = Response<R>;
    type Error = <K as GiveUp<S::Error>>::Error;
    type Future = RetryingFuture<PacedService<S, T::Pacer, H>, Q, DefaultClock, B, PacedRetries<K>, Z>;

    fn not_ready(&self, error: S::Error) -> Self::Error {
        self.mode.0.protocol.give_up(RetryError::new(GaveUp::NotRetryable, 0, Duration::ZERO, Some(error)))
    }

    /// Returns the call of a request, which is made at once or after a sleep.
    #[cfg(any(feature = "hyper", feature = "tower"))]
    #[inline]
    fn call<X: BorrowedCallee<Request<K::Body>, Later = S>>(&self, service: X, request: Request<Q>) -> Self::Future {
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
            self.telemetry.count(Event::Allowed);
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
                RetryingFuture::not_begun(call, GaveUp::Paced(refuse(&self.telemetry, PaceTooSlow::new(sleep, left))))
            }
        }
    }
}
