//! A service that paces its calls.

use super::by_pacer::ByPacer;
use super::paced_requests::refuse;
use super::{PacingLayer, Repeating};
use crate::deadline::SentTimeout;
use crate::retry::BorrowedCallee;
use crate::retry::{
    AttemptBody, AttemptsService, BegunCall, Budgets, Call, CallAttempts, CallInAttempts, GiveUp, RetryProtocol,
    RetryingFuture, deadline_of,
};
use crate::telemetry::Event;
use crate::{Head, ResponseHead};
use core::time::Duration;
use damper_core::Reads;
use damper_core::deadline::Deadline;
use damper_core::gate::PacerSource;
use damper_core::internal::{AttemptsFuture, SeenPause};
use damper_core::retry::GaveUp;
use damper_core::throttle::{Hints, PaceTooSlow};
use damper_core::time::{DefaultClock, Sleep};
use http::{Request, Response};
use tower_service::Service;

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
    S: Service<Request<K::Body>, Response = Response<R>>,
    T: PacerSource + for<'a> Reads<Head<'a>, <T as PacerSource>::Pacer>,
    H: for<'a> Reads<ResponseHead<'a>, Hints> + Clone,
    B: Budgets,
    K: RetryProtocol<Q> + GiveUp<S::Error>,
    Z: Sleep,
{
    type Response = Response<R>;
    type Error = <K as GiveUp<S::Error>>::Error;
    type Future = RetryingFuture<S, Q, DefaultClock, B, K, Z, ByPacer<T::Pacer, H>>;

    fn not_ready(&self, error: S::Error) -> Self::Error {
        self.mode.settings.not_begun(GaveUp::NotRetryable, Some(error))
    }

    /// Returns the call of a request, which is made at once or after a sleep.
    #[inline]
    fn call<X: BorrowedCallee<Request<K::Body>, Later = S>>(&self, service: X, request: Request<Q>) -> Self::Future {
        let Repeating { settings, longest } = &self.mode;
        let head = Head::of(&request);
        let sent_left = || SentTimeout::left_in(head.extensions);
        let pacer = self.pacers.read_from(&head);
        // Read before the sleep is chosen, so that no later pause is missed.
        let pause = SeenPause::of(&pacer);
        let sleep = pacer.before_call_within(|| {
            let deadline = deadline_of::<Q, _, _>(&settings.protocol, &head, settings.retry.clock());
            deadline.map_or(Duration::MAX, |deadline| deadline.remaining()).min(sent_left()).min(*longest)
        });
        let pace = ByPacer { pacer, hints: self.hints.clone(), telemetry: self.telemetry.clone(), pause };
        let begun = BegunCall::new::<Q, _, _>(settings, &head).repeats_rejections();
        let until = begun.deadline().earlier(Deadline::after(*longest));
        if sleep.is_zero() && !begun.is_too_late() {
            let (first, kept) = begun.first_request(settings, request);
            self.telemetry.count(Event::Allowed);
            let again = kept.is_some().then(|| service.later());
            let attempt = service.call(first);
            let call = Call::new(settings, begun, kept).begins_until(until);
            return AttemptsFuture::calling(CallAttempts { call, service: again, pace }, attempt);
        }
        let service = Some(service.release());
        let left = until.remaining().min(sent_left());
        let call = Call::begin_later(settings, begun, request).begins_until(until);
        let attempts = CallAttempts { call, service, pace };
        if sleep.is_zero() {
            let error = settings.not_begun(GaveUp::Deadline { hint: None }, None);
            AttemptsFuture::not_begun(attempts, error)
        } else if sleep < left {
            self.telemetry.record_slept(sleep);
            AttemptsFuture::waiting(attempts, sleep)
        } else {
            let refusal = refuse(&self.telemetry, PaceTooSlow::new(sleep, left));
            AttemptsFuture::not_begun(attempts, settings.not_begun(GaveUp::Paced(refusal), None))
        }
    }
}
