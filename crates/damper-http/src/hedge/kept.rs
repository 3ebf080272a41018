//! The request of other attempts, and what the outcomes so far say about the next one.

use crate::retry::{ClassifyFailure, ReplayableBody, RetryProtocol, copy, deadline_of};
use crate::{Head, ResponseHead};
use damper_core::deadline::Deadline;
use damper_core::retry::Failure;
use damper_core::time::Clock;
use http::{Request, Response};

/// The request of other attempts.
pub(super) struct Kept<K, C> {
    request: Request<K>,
    deadline: Option<Deadline<C>>,
    /// Attempts that no server can have processed.
    unprocessed: u32,
}

impl<K: ReplayableBody, C: Clock + Clone + Send + Sync + 'static> Kept<K, C> {
    /// Returns the first attempt's request, and what is kept of it; `None` if it must be sent once.
    #[inline]
    pub(super) fn begin<Q, P>(protocol: &P, clock: &C, request: Request<Q>) -> (Request<P::Body>, Option<Self>)
    where
        P: RetryProtocol<Q, Kept = K>,
    {
        let head = Head::of(&request);
        let may_repeat = protocol.may_repeat(&head);
        let deadline = deadline_of(protocol, &head, clock);
        let request = request.map(|body| protocol.keep(body));
        let other = if may_repeat { copy(&request) } else { None };
        let first = prepare(protocol, request, 0, deadline.as_ref());
        (first, other.map(|request| Self { request, deadline, unprocessed: 0 }))
    }

    /// Returns whether there can be another attempt.
    pub(super) fn may_start(&self) -> bool {
        !self.deadline.as_ref().is_some_and(Deadline::is_expired) && self.request.body().is_replayable()
    }

    /// Returns the request of the attempt with this number; `None` if there cannot be one after all.
    pub(super) fn request<Q, P>(&self, protocol: &P, number: u32) -> Option<Request<P::Body>>
    where
        P: RetryProtocol<Q, Kept = K>,
    {
        let previous = (number - 1).saturating_sub(self.unprocessed);
        Some(prepare(protocol, copy(&self.request)?, previous, self.deadline.as_ref()))
    }

    /// Returns which failure an outcome is; `None` for the response that the caller gets.
    #[inline]
    pub(super) fn judge<P, R, E>(&mut self, protocol: &P, outcome: &Result<Response<R>, E>) -> Option<Failure>
    where
        P: ClassifyFailure<E>,
    {
        let failure = protocol.failure(outcome.as_ref().map(ResponseHead::of).as_ref().map_err(|error| *error))?;
        self.unprocessed += u32::from(failure.is_unprocessed());
        // Once one attempt has taken the body beyond what is kept, the others end with errors that say nothing about it.
        if outcome.is_err() && !self.request.body().is_replayable() {
            return Some(Failure::TRANSIENT.declined());
        }
        Some(failure)
    }
}

/// Makes a request of the service out of one that was kept.
#[inline]
fn prepare<Q, P, C: Clock>(
    protocol: &P,
    mut request: Request<P::Kept>,
    previous_attempts: u32,
    deadline: Option<&Deadline<C>>,
) -> Request<P::Body>
where
    P: RetryProtocol<Q>,
{
    let time_left = deadline.filter(|deadline| !deadline.is_never()).map(Deadline::remaining);
    protocol.prepare(request.headers_mut(), previous_attempts, time_left);
    request.map(|body| protocol.send(body))
}
