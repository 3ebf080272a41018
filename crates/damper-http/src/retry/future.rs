//! The attempts of a call, as their future makes them.

use super::call::Call;
use super::pace::{ByBackoff, Pace};
use super::{Budgets, GiveUp, RetryProtocol};
use core::fmt;
use core::task::{Context, Poll};
use core::time::Duration;
use damper_core::internal::{AttemptsFuture, MakeAttempts, Next};
use damper_core::retry::{GaveUp, RetryError};
use damper_core::time::{Clock, Sleep};
use http::{Request, Response};
use tower_service::Service;

/// The future of [`Retrying`](super::Retrying).
///
/// The first attempt was begun by the service's `call`.
pub(crate) type RetryingFuture<S, Q, C, B, P, Z, A = ByBackoff> = AttemptsFuture<CallAttempts<S, Q, C, B, P, Z, A>>;

/// The attempts of a call: its state, and the service that makes them.
pub struct CallAttempts<S, Q, C, B: Budgets, P: RetryProtocol<Q>, Z, A> {
    pub(crate) call: Call<P::Kept, C, B, P, Z>,
    /// The service for other attempts; `None` if there cannot be one.
    pub(crate) service: Option<S>,
    pub(crate) pace: A,
}

impl<S, Q, C, B, P, Z, A, R> MakeAttempts for CallAttempts<S, Q, C, B, P, Z, A>
where
    S: Service<Request<P::Body>, Response = Response<R>>,
    C: Clock + Clone + Send + Sync + 'static,
    B: Budgets,
    P: RetryProtocol<Q> + GiveUp<S::Error>,
    Z: Sleep,
    A: Pace,
{
    type Value = Response<R>;
    type Error = S::Error;
    type Attempt = S::Future;
    type GivenUp = <P as GiveUp<S::Error>>::Error;
    type Sleep = Z;

    #[inline]
    fn sleep(&self) -> &Z {
        &self.call.settings.sleep
    }

    fn after_wait(&mut self) -> Result<Option<Duration>, GaveUp> {
        let longer = self.pace.after_wait();
        self.call.after_wait(longer)?;
        Ok(longer)
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.as_mut().map_or(Poll::Pending, |service| service.poll_ready(context))
    }

    fn attempt(&mut self) -> Option<S::Future> {
        let service = self.service.as_mut()?;
        self.call.next_request::<Q>().map(|request| service.call(request))
    }

    #[inline]
    fn judge(&mut self, outcome: &mut Result<Response<R>, S::Error>) -> Next {
        let next = self.call.judge(&mut self.pace, outcome);
        // Once, because the SDK keeps each value of an attribute.
        #[cfg(feature = "opentelemetry")]
        if !matches!(next, Next::Again(_)) {
            crate::telemetry::set_attempts(self.call.begun());
        }
        next
    }

    fn time_to_begin(&self) -> Duration {
        self.call.time_to_begin()
    }

    #[inline]
    fn time_to_end(&self) -> Duration {
        self.call.deadline().remaining()
    }

    #[cold]
    fn give_up(&self, reason: GaveUp, error: Option<S::Error>, previous: Option<S::Error>) -> Self::GivenUp {
        let error = RetryError::new(reason, self.call.begun(), self.call.elapsed(), error);
        self.call.settings.protocol.give_up(error.with_previous_error(previous))
    }
}

impl<S, Q, C, B: Budgets, P: RetryProtocol<Q>, Z, A> fmt::Debug for CallAttempts<S, Q, C, B, P, Z, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallAttempts").finish_non_exhaustive()
    }
}
