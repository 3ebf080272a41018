//! The request of other attempts, and what the outcomes so far say about the next one.

use crate::deadline::SentTimeout;
use crate::retry::{Budgets, ReplayableBody, RetryProtocol, deadline_of};
use crate::{ClassifyResponse, Head, ResponseHead};
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::retry::Failure;
use damper_core::time::Clock;
use http::request::Parts;
use http::{Request, Response};

/// The request of other attempts.
pub(super) struct Kept<K, C> {
    head: Parts,
    body: K,
    deadline: Option<Deadline<C>>,
    /// Attempts that no server can have processed.
    unprocessed: u32,
}

/// A request that is kept, and the budget of its other attempts.
type Repeatable<T, N> = (T, <N as Budgets>::Choice);

impl<K: ReplayableBody, C: Clock + Clone + Send + Sync + 'static> Kept<K, C> {
    /// Returns the first attempt's request, and what is kept of it with the budget of other attempts.
    ///
    /// `None` if it must be sent once.
    #[inline]
    pub(super) fn begin<Q, P, N>(
        protocol: &P,
        budgets: &N,
        clock: &C,
        request: Request<Q>,
    ) -> (Request<P::Body>, Option<Repeatable<Self, N>>)
    where
        P: RetryProtocol<Q, Kept = K>,
        N: Budgets,
    {
        let head = Head::of(&request);
        // No budget is made or looked up for a request that is sent once.
        let budget = protocol.may_repeat(&head).then(|| budgets.choose(&head));
        let deadline = deadline_of(protocol, &head, clock);
        let (parts, body) = request.into_parts();
        let body = protocol.keep(body);
        let time_left = time_left(deadline.as_ref());
        let kept = budget.and_then(|budget| {
            let body = body.try_clone()?;
            Some((Self { head: parts.clone(), body, deadline, unprocessed: 0 }, budget))
        });
        (prepare(protocol, parts, body, 0, time_left), kept)
    }

    /// Returns whether there can be another attempt after a wait.
    pub(super) fn may_start(&self, wait: Duration) -> bool {
        self.deadline.as_ref().is_none_or(|deadline| wait < deadline.remaining())
            && wait < SentTimeout::left_in(&self.head.extensions)
            && self.body.is_replayable()
    }

    /// Returns the request of the attempt with this number; `None` if there cannot be one after all.
    pub(super) fn request<Q, P>(&self, protocol: &P, number: u32) -> Option<Request<P::Body>>
    where
        P: RetryProtocol<Q, Kept = K>,
    {
        let previous = (number - 1).saturating_sub(self.unprocessed);
        let body = self.body.try_clone()?;
        let time_left = time_left(self.deadline.as_ref());
        let mut request = prepare(protocol, self.head.clone(), body, previous, time_left);
        // A deadline layer around the hedge wrote the time left at the start of the call, so update it.
        if let Some(timeout) = self.head.extensions.get::<SentTimeout>() {
            timeout.write(request.headers_mut(), time_left.unwrap_or(Duration::MAX));
        }
        Some(request)
    }

    /// Returns which failure an outcome is; `None` for the response that the caller gets.
    #[inline]
    pub(super) fn judge<P, R, E>(&mut self, protocol: &P, outcome: &Result<Response<R>, E>) -> Option<Failure>
    where
        P: ClassifyResponse<E, Option<Failure>>,
    {
        let failure = protocol.classify(outcome.as_ref().map(ResponseHead::of).as_ref().map_err(|error| *error))?;
        self.unprocessed += u32::from(failure.is_unprocessed());
        // Once one attempt has taken the body beyond what is kept, the others end with errors that say nothing about it.
        if outcome.is_err() && !self.body.is_replayable() {
            return Some(Failure::TRANSIENT.declined());
        }
        Some(failure)
    }
}

fn time_left<C: Clock>(deadline: Option<&Deadline<C>>) -> Option<Duration> {
    deadline.filter(|deadline| !deadline.is_never()).map(Deadline::remaining)
}

/// Makes a request of the service.
#[inline]
fn prepare<Q, P: RetryProtocol<Q>>(
    protocol: &P,
    mut head: Parts,
    body: P::Kept,
    previous_attempts: u32,
    time_left: Option<Duration>,
) -> Request<P::Body> {
    protocol.prepare(&mut head.headers, previous_attempts, time_left);
    Request::from_parts(head, protocol.send(body))
}
