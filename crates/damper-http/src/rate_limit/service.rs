//! A service behind a limit.

use super::costs::Unsettled;
use super::shadow::CandidateAnswer;
use super::{Body, RateLimitFuture, RateLimitLayer};
use crate::Head;
use crate::call_once::Callee;
#[cfg(feature = "hyper")]
use crate::call_once::HyperService;
#[cfg(feature = "tower")]
use crate::call_once::TowerService;
use crate::limit::{Decision, Limit, Standing};
use alloc::boxed::Box;
use bytes::Bytes;
use core::fmt;
use http::{Request, Response};

/// A service behind a limit. Made by [`RateLimitLayer`](super::RateLimitLayer).
///
/// Ready whenever the service behind it is, which has to be `Clone` for requests that wait for their decision. A
/// response has the service's body, whose data have to be `Bytes`, or that of a refusal.
///
/// # Cancel safety
///
/// The tokens are taken in `call`; dropping the future afterwards does not give them back.
pub struct RateLimit<S, L> {
    service: S,
    layer: RateLimitLayer<L>,
}

impl<S, L> RateLimit<S, L> {
    pub(super) fn new(service: S, layer: RateLimitLayer<L>) -> Self {
        Self { service, layer }
    }

    /// The service behind the limit.
    pub fn get_ref(&self) -> &S {
        &self.service
    }

    /// The service behind the limit.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// The service without the limit.
    pub fn into_inner(self) -> S {
        self.service
    }
}

/// The course that a service takes with a request.
enum NextStep<L: Limit> {
    /// Calls the service behind the limit.
    Call,
    /// Calls the service behind the limit, and writes headers on its response.
    CallAndReport(Standing),
    /// Calls the service behind the limit, and corrects the cost by its response.
    CallAndSettle(Box<Unsettled<L>>),
    /// Refuses the request with this response.
    Respond(Box<Response<Bytes>>),
    /// Waits for the decision on this cost, beside which a candidate gave this answer.
    Wait(L::Future, u32, CandidateAnswer),
}

impl<L: Limit> RateLimitLayer<L> {
    /// Lets the limit decide on a request.
    #[inline]
    fn admit<B>(&self, request: &Request<B>) -> NextStep<L> {
        let head = Head::of(request).with_peer(self.peer.as_ref());
        let settings = &*self.settings;
        let Some(cost) = settings.cost_of(&head) else { return NextStep::Call };
        match settings.limit.decide(&head, cost, settings.detail) {
            // An arm of its own, so that an answer without a standing is not moved.
            Decision::Now(Ok(None)) => {
                settings.record(&head, cost, &Ok(None));
                NextStep::Call
            }
            Decision::Now(answer) => match settings.conclude(&head, cost, answer) {
                Ok(Some(standing)) => match Unsettled::of(&head, cost, standing, &self.settings) {
                    Some(unsettled) => NextStep::CallAndSettle(unsettled),
                    None => NextStep::CallAndReport(standing),
                },
                Ok(None) => NextStep::Call,
                Err(response) => NextStep::Respond(response),
            },
            Decision::Later(decision) => NextStep::Wait(decision, cost, settings.ask_candidate(&head, cost)),
        }
    }

    /// Calls a service with a request, as the limit decides.
    #[inline]
    fn call<S: Callee<Request<B>>, B>(&self, service: S, request: Request<B>) -> RateLimitFuture<S::Kept, B, L> {
        match self.admit(&request) {
            NextStep::Call => RateLimitFuture::call(service.call(request)),
            NextStep::CallAndReport(standing) => {
                RateLimitFuture::call_and_report(service.call(request), standing, &self.settings)
            }
            NextStep::CallAndSettle(unsettled) => RateLimitFuture::call_and_settle(service.call(request), unsettled),
            NextStep::Respond(response) => RateLimitFuture::respond(response),
            NextStep::Wait(decision, cost, candidate) => {
                RateLimitFuture::wait(decision, cost, candidate, service.keep(), request, self.clone())
            }
        }
    }
}

#[cfg(feature = "tower")]
impl<S, L, B, R> tower_service::Service<Request<B>> for RateLimit<S, L>
where
    S: tower_service::Service<Request<B>, Response = Response<R>> + Clone,
    L: Limit,
{
    type Response = Response<Body<R>>;
    type Error = S::Error;
    type Future = RateLimitFuture<TowerService<S>, B, L>;

    fn poll_ready(&mut self, context: &mut core::task::Context<'_>) -> core::task::Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.layer.call(&mut self.service, request)
    }
}

#[cfg(feature = "hyper")]
impl<S, L, B, R> hyper::service::Service<Request<B>> for RateLimit<S, L>
where
    S: hyper::service::Service<Request<B>, Response = Response<R>> + Clone,
    L: Limit,
{
    type Response = Response<Body<R>>;
    type Error = S::Error;
    type Future = RateLimitFuture<HyperService<S>, B, L>;

    #[inline]
    fn call(&self, request: Request<B>) -> Self::Future {
        self.layer.call(&self.service, request)
    }
}

/// Clones share the limit; they do not share readiness.
impl<S: Clone, L> Clone for RateLimit<S, L> {
    fn clone(&self) -> Self {
        Self::new(self.service.clone(), self.layer.clone())
    }
}

impl<S: fmt::Debug, L: fmt::Debug> fmt::Debug for RateLimit<S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("service", &self.service).field("layer", &self.layer).finish()
    }
}

/// The name of the service behind the limit.
#[cfg(feature = "tonic")]
impl<S: tonic::server::NamedService, L> tonic::server::NamedService for RateLimit<S, L> {
    const NAME: &'static str = S::NAME;
}
