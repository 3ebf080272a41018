//! A service whose calls are retried.

use super::BorrowedCallee;
use super::attempts_service::{AttemptBody, AttemptsService, CallInAttempts};
use super::call::{BegunCall, Call};
use super::future::CallAttempts;
use super::layer::RetrySettings;
use super::pace::ByBackoff;
use super::{Budgets, GiveUp, RetryProtocol, RetryingFuture};
use crate::Head;
use alloc::sync::Arc;
use damper_core::internal::AttemptsFuture;
use damper_core::retry::GaveUp;
#[cfg(doc)]
use damper_core::retry::RetryError;
use damper_core::time::{Clock, Sleep};
use http::{Request, Response};
use tower_service::Service;

/// A client's service whose calls are retried, created by [`RetryLayer`](super::RetryLayer).
///
/// It is ready when the service behind it is, which makes the first attempt. A clone of that service makes the other attempts, and is
/// polled for readiness before each. An error of the readiness ends the call.
///
/// # Errors
///
/// A future's error is a [`RetryError`], where the last attempt ended with an error, or the deadline passed during it; or what the
/// [protocol](super::GiveUp) makes of that, such as a status of gRPC.
///
/// # Cancel safety
///
/// Dropping a future drops the attempt in flight. No other attempt is made. A retry that the budget allowed for that attempt is spent.
pub type Retrying<S, C, B, P, Z> = AttemptsService<S, Arc<RetrySettings<C, B, P, Z>>>;

impl<C, B, P: RetryProtocol<Q>, Z, Q> AttemptBody<Q> for Arc<RetrySettings<C, B, P, Z>> {
    type Body = P::Body;
}

impl<S, C, B, P, Z, Q, R> CallInAttempts<Q, S> for Arc<RetrySettings<C, B, P, Z>>
where
    S: Service<Request<P::Body>, Response = Response<R>>,
    C: Clock + Clone + Send + Sync + 'static,
    B: Budgets,
    P: RetryProtocol<Q> + GiveUp<S::Error>,
    Z: Sleep,
{
    type Response = Response<R>;
    type Error = <P as GiveUp<S::Error>>::Error;
    type Future = RetryingFuture<S, Q, C, B, P, Z>;

    fn not_ready(&self, error: S::Error) -> Self::Error {
        self.not_begun(GaveUp::NotRetryable, Some(error))
    }

    #[inline]
    fn call<T: BorrowedCallee<Request<P::Body>, Later = S>>(&self, service: T, request: Request<Q>) -> Self::Future {
        let begun = BegunCall::new::<Q, _, _>(self, &Head::of(&request));
        let attempts = |call, service| CallAttempts { call, service, pace: ByBackoff };
        if begun.is_too_late() {
            let error = self.not_begun(GaveUp::Deadline { hint: None }, None);
            return AttemptsFuture::not_begun(attempts(Call::new(self, begun, None), None), error);
        }
        let (first, kept) = begun.first_request(self, request);
        // This service is ready, so it makes the first attempt. Its clone has to be polled for readiness first.
        let again = kept.is_some().then(|| service.later());
        let attempt = service.call(first);
        AttemptsFuture::calling(attempts(Call::new(self, begun, kept), again), attempt)
    }
}
