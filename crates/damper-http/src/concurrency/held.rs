//! A call of a server that has its slot, and has no response yet.

use crate::completion::{
    ClassifyResponse, HeldCall, HeldPermit, ObservedBody, OverloadInTrailers, Pending, WhileBodyLasts,
};
use crate::timed_body::BodyLimits;
use core::convert::Infallible;
use core::time::Duration;
use damper_core::CallError;
use damper_core::gate::{Permit, Verdict};
use http::Response;
use http_body::Body;

/// A call that has its slot, until its response is there.
#[derive(Debug)]
pub struct Held<P: Permit, V> {
    /// There until the response is, unless the request is exempt.
    call: Pending<P, WhileBodyLasts<V>>,
    /// The longest time for which a frame of the response may wait for its reader, if there is one.
    stall_limit: Option<Duration>,
}

/// A response whose body holds a slot.
type Answer<R, P> = Response<ObservedBody<R, P, OverloadInTrailers>>;

impl<P: Permit, V> Held<P, V> {
    #[inline]
    pub(super) const fn new(
        permit: HeldPermit<P>,
        completion: WhileBodyLasts<V>,
        stall_limit: Option<Duration>,
    ) -> Self {
        Self { call: Some(HeldCall::new(permit, completion)), stall_limit }
    }

    /// The call of an exempt request.
    pub(super) const fn exempt() -> Self {
        Self { call: None, stall_limit: None }
    }

    /// Tells the permit what the head of the response says.
    #[inline]
    pub(super) fn judge<R: Body, E>(&mut self, result: &Result<Response<R>, E>)
    where
        V: ClassifyResponse<E, Verdict>,
    {
        if let Ok(response) = result {
            HeldCall::judge::<R, E, Infallible>(&mut self.call, response);
        }
    }

    /// Returns the response, and the times after which its body is dropped and the slot is free.
    #[inline]
    pub(super) fn respond<R: Body, E>(
        &mut self,
        result: Result<Response<R>, E>,
    ) -> (Result<Answer<R, P>, E>, Option<BodyLimits>)
    where
        V: ClassifyResponse<E, Verdict>,
    {
        let stall = self.stall_limit;
        // An absent limit has no slot that a body has to free.
        let permit = self.call.as_ref().map(HeldCall::permit).filter(|permit| permit.was_asked());
        let limits = permit.map(|permit| BodyLimits { deadline: permit.deadline(), stall });
        let result = match HeldCall::finish::<R, E, Infallible>(&mut self.call, result) {
            Ok(response) => Ok(response),
            Err(CallError::Failed(error)) => Err(error),
            Err(CallError::Refused(never)) => match never {},
        };
        (result, limits)
    }

    #[inline]
    pub(super) fn abandoned(self) {
        if let Some(call) = self.call {
            call.abandoned();
        }
    }
}

impl<P: Permit, V> Permit for Held<P, V> {
    const LEARNS: bool = P::LEARNS;
    const HOLDS: bool = P::HOLDS;

    #[inline]
    fn end(self, verdict: &Verdict) {
        self.call.end(verdict);
    }

    #[inline]
    fn panicked(self) {
        self.call.panicked();
    }
}
