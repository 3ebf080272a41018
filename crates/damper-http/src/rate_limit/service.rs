//! A service behind a limit.

use super::RateLimitFuture;
use super::policy::{Admission, Policy};
use crate::limit::Limit;
use crate::{Body, Head, call};
use alloc::sync::Arc;
use core::fmt;
use core::net::SocketAddr;
use http::{Request, Response};

/// A service behind a limit. Made by [`RateLimitLayer`](super::RateLimitLayer).
///
/// Ready whenever the service behind it is, which has to be `Clone` for requests that wait for their decision. The
/// bodies of its answers are the service's, which have to have `Bytes` as their data, or that of a refusal.
///
/// # Cancel safety
///
/// The token is taken in `call`; dropping the future afterwards does not give it back.
pub struct RateLimit<S, L> {
    service: S,
    policy: Arc<Policy<L>>,
    peer: Option<SocketAddr>,
}

impl<S, L> RateLimit<S, L> {
    pub(super) fn new(service: S, policy: Arc<Policy<L>>, peer: Option<SocketAddr>) -> Self {
        Self { service, policy, peer }
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

#[cfg(feature = "tower")]
impl<S, L, B, R> tower_service::Service<Request<B>> for RateLimit<S, L>
where
    S: tower_service::Service<Request<B>, Response = Response<R>> + Clone,
    L: Limit,
{
    type Response = Response<Body<R>>;
    type Error = S::Error;
    type Future = RateLimitFuture<call::Tower<S>, B, L>;

    fn poll_ready(&mut self, context: &mut core::task::Context<'_>) -> core::task::Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.policy.admit(&Head::of(&request).told(self.peer.as_ref())) {
            Admission::Pass => RateLimitFuture::pass(self.service.call(request)),
            Admission::PassAndTell(standing) => {
                RateLimitFuture::pass_and_tell(self.service.call(request), standing, &self.policy)
            }
            Admission::Refuse(response) => RateLimitFuture::refuse(response),
            Admission::Wait(later) => {
                // The one that is ready is called; a clone is not, before it is polled for that.
                let clone = self.service.clone();
                let ready = core::mem::replace(&mut self.service, clone);
                RateLimitFuture::wait(later, call::Tower(ready), request, &self.policy, self.peer)
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
    type Future = RateLimitFuture<call::Hyper<S>, B, L>;

    #[inline]
    fn call(&self, request: Request<B>) -> Self::Future {
        match self.policy.admit(&Head::of(&request).told(self.peer.as_ref())) {
            Admission::Pass => RateLimitFuture::pass(self.service.call(request)),
            Admission::PassAndTell(standing) => {
                RateLimitFuture::pass_and_tell(self.service.call(request), standing, &self.policy)
            }
            Admission::Refuse(response) => RateLimitFuture::refuse(response),
            Admission::Wait(later) => {
                let service = call::Hyper(self.service.clone());
                RateLimitFuture::wait(later, service, request, &self.policy, self.peer)
            }
        }
    }
}

/// Clones share the limit; they do not share readiness.
impl<S: Clone, L> Clone for RateLimit<S, L> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), policy: Arc::clone(&self.policy), peer: self.peer }
    }
}

impl<S: fmt::Debug, L: fmt::Debug> fmt::Debug for RateLimit<S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("service", &self.service)
            .field("policy", &self.policy)
            .field("peer", &self.peer)
            .finish()
    }
}
