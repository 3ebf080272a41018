//! A service whose requests have deadlines.

use super::{DeadlineLayer, ServerDeadlineFuture};
use crate::deadline::{BoxError, DeadlineBody, Protocol};
use crate::{Body, Head};
use bytes::Bytes;
use core::fmt;
use damper_core::deadline::Deadline;
use damper_core::time::Sleep;
use http::{Request, Response};

/// A service whose requests have deadlines. Made by [`DeadlineLayer`].
///
/// Ready whenever the service behind it is. The data of its responses have to be `Bytes`.
///
/// # Cancel safety
///
/// Dropping the future drops the service's.
#[derive(Clone)]
pub struct ServerDeadline<T, S> {
    service: T,
    layer: DeadlineLayer<S>,
}

impl<T, S> ServerDeadline<T, S> {
    pub(super) fn new(service: T, layer: DeadlineLayer<S>) -> Self {
        Self { service, layer }
    }

    /// The service behind the deadlines.
    pub fn get_ref(&self) -> &T {
        &self.service
    }

    /// The service behind the deadlines.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.service
    }

    /// The service without the deadlines.
    pub fn into_inner(self) -> T {
        self.service
    }
}

impl<S: Sleep + Clone> DeadlineLayer<S> {
    /// Calls a service with a request, unless its deadline has passed.
    #[inline]
    fn call<B, F>(&self, mut request: Request<B>, call: impl FnOnce(Request<B>) -> F) -> ServerDeadlineFuture<F, S> {
        let head = Head::of(&request);
        let protocol = Protocol::of(&head);
        let deadline: Deadline = self.timeouts.deadline(&head, &protocol);
        if let Err(exceeded) = deadline.check() {
            return ServerDeadlineFuture::refuse(protocol.response(exceeded));
        }
        request.extensions_mut().insert(deadline);
        ServerDeadlineFuture::call(call(request), deadline, self.sleep.clone(), protocol)
    }
}

#[cfg(feature = "tower")]
impl<T, S, B, R> tower_service::Service<Request<B>> for ServerDeadline<T, S>
where
    T: tower_service::Service<Request<B>, Response = Response<R>>,
    S: Sleep + Clone,
    R: http_body::Body<Data = Bytes, Error: Into<BoxError>>,
{
    type Response = Response<Body<DeadlineBody<R, S>>>;
    type Error = T::Error;
    type Future = ServerDeadlineFuture<T::Future, S>;

    fn poll_ready(&mut self, context: &mut core::task::Context<'_>) -> core::task::Poll<Result<(), T::Error>> {
        self.service.poll_ready(context)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.layer.call(request, |request| self.service.call(request))
    }
}

#[cfg(feature = "hyper")]
impl<T, S, B, R> hyper::service::Service<Request<B>> for ServerDeadline<T, S>
where
    T: hyper::service::Service<Request<B>, Response = Response<R>>,
    S: Sleep + Clone,
    R: http_body::Body<Data = Bytes, Error: Into<BoxError>>,
{
    type Response = Response<Body<DeadlineBody<R, S>>>;
    type Error = T::Error;
    type Future = ServerDeadlineFuture<T::Future, S>;

    #[inline]
    fn call(&self, request: Request<B>) -> Self::Future {
        self.layer.call(request, |request| self.service.call(request))
    }
}

impl<T: fmt::Debug, S> fmt::Debug for ServerDeadline<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerDeadline").field("service", &self.service).field("layer", &self.layer).finish()
    }
}

/// The name of the service behind the deadlines.
#[cfg(feature = "tonic")]
impl<T: tonic::server::NamedService, S> tonic::server::NamedService for ServerDeadline<T, S> {
    const NAME: &'static str = T::NAME;
}
