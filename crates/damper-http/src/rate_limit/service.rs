//! A service behind a limit.

use super::settings::RateLimitSettings;
use super::{Body, RateLimitFuture, call_once};
use crate::Head;
use crate::limit::{Decision, Limit, Standing};
use alloc::boxed::Box;
use alloc::sync::Arc;
use bytes::Bytes;
use core::fmt;
use core::net::SocketAddr;
use http::{Request, Response};

/// A service behind a limit. Made by [`RateLimitLayer`](super::RateLimitLayer).
///
/// Ready whenever the service behind it is, which has to be `Clone` for requests that wait for their decision. A
/// response has the service's body, whose data have to be `Bytes`, or that of a refusal.
///
/// # Cancel safety
///
/// The token is taken in `call`; dropping the future afterwards does not give it back.
pub struct RateLimit<S, L> {
    service: S,
    settings: Arc<RateLimitSettings<L>>,
    peer: Option<SocketAddr>,
}

impl<S, L> RateLimit<S, L> {
    pub(super) fn new(service: S, settings: Arc<RateLimitSettings<L>>, peer: Option<SocketAddr>) -> Self {
        Self { service, settings, peer }
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

/// What a service does with a request.
enum NextStep<F> {
    /// Calls the service behind the limit.
    Call,
    /// Calls the service behind the limit, and writes headers on its response.
    CallAndReport(Standing),
    /// Refuses the request with this response.
    Respond(Box<Response<Bytes>>),
    /// Waits for the decision.
    Wait(F),
}

impl<S, L: Limit> RateLimit<S, L> {
    /// Lets the limit decide on a request.
    #[inline]
    fn admit<B>(&self, request: &Request<B>) -> NextStep<L::Future> {
        let head = Head::of(request).with_peer(self.peer.as_ref());
        let settings = &*self.settings;
        if settings.exempts(&head) {
            return NextStep::Call;
        }
        match settings.limit.decide(&head, settings.headers.detail()) {
            // An arm of its own, so that an answer without a standing is not moved.
            Decision::Now(Ok(None)) => {
                settings.record_allowed();
                NextStep::Call
            }
            Decision::Now(answer) => match settings.conclude(&head, answer) {
                Ok(Some(standing)) => NextStep::CallAndReport(standing),
                Ok(None) => NextStep::Call,
                Err(response) => NextStep::Respond(response),
            },
            Decision::Later(decision) => NextStep::Wait(decision),
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
    type Future = RateLimitFuture<call_once::TowerService<S>, B, L>;

    fn poll_ready(&mut self, context: &mut core::task::Context<'_>) -> core::task::Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.admit(&request) {
            NextStep::Call => RateLimitFuture::call(self.service.call(request)),
            NextStep::CallAndReport(standing) => {
                RateLimitFuture::call_and_report(self.service.call(request), standing, &self.settings)
            }
            NextStep::Respond(response) => RateLimitFuture::respond(response),
            NextStep::Wait(decision) => {
                // This service is ready, so it is the one to be called. Its clone has to be polled first.
                let clone = self.service.clone();
                let ready = core::mem::replace(&mut self.service, clone);
                RateLimitFuture::wait(decision, call_once::TowerService(ready), request, &self.settings, self.peer)
            }
        }
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
    type Future = RateLimitFuture<call_once::HyperService<S>, B, L>;

    #[inline]
    fn call(&self, request: Request<B>) -> Self::Future {
        match self.admit(&request) {
            NextStep::Call => RateLimitFuture::call(self.service.call(request)),
            NextStep::CallAndReport(standing) => {
                RateLimitFuture::call_and_report(self.service.call(request), standing, &self.settings)
            }
            NextStep::Respond(response) => RateLimitFuture::respond(response),
            NextStep::Wait(decision) => {
                let service = call_once::HyperService(self.service.clone());
                RateLimitFuture::wait(decision, service, request, &self.settings, self.peer)
            }
        }
    }
}

/// Clones share the limit; they do not share readiness.
impl<S: Clone, L> Clone for RateLimit<S, L> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), settings: Arc::clone(&self.settings), peer: self.peer }
    }
}

impl<S: fmt::Debug, L: fmt::Debug> fmt::Debug for RateLimit<S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("service", &self.service)
            .field("settings", &self.settings)
            .field("peer", &self.peer)
            .finish()
    }
}

/// The name of the service behind the limit.
#[cfg(feature = "tonic")]
impl<S: tonic::server::NamedService, L> tonic::server::NamedService for RateLimit<S, L> {
    const NAME: &'static str = S::NAME;
}
