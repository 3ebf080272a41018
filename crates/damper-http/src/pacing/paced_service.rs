//! A service from whose attempts a pacer learns.

use super::paced_attempt::{PacedAttempt, Reader};
use crate::ResponseHead;
use crate::retry::Callee;
use core::ops::Deref;
use core::task::{Context, Poll};
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::internal::SeenPause;
use damper_core::throttle::{Pacer, ReadHints, Strategy};
use damper_core::time::Clock;
use http::{Request, Response};

/// A service for the attempts of one call. The call's pacer learns from each of them.
#[derive(Clone, Debug)]
pub struct PacedService<S, G, H> {
    pub(super) service: S,
    pub(super) reader: Reader<G, H>,
    /// The time beyond which no retry sleeps.
    pub(super) until: Deadline,
    /// The pause for which the current sleep accounts.
    pub(super) pause: SeenPause,
}

impl<S, G, H, T, C, Q, R> Callee<Request<Q>> for PacedService<S, G, H>
where
    S: Callee<Request<Q>, Response = Response<R>>,
    G: Deref<Target = Pacer<T, C>> + Clone,
    H: for<'a> ReadHints<ResponseHead<'a>> + Clone,
    T: Strategy,
    C: Clock,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = PacedAttempt<S::Future, G, H>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        PacedAttempt::new(self.service.call(request), self.reader.clone(), self.until)
    }

    fn after_wait(&mut self) -> Option<Duration> {
        self.pause.extension(&self.reader.pacer)
    }
}
