//! A service whose requests carry what is left of their deadlines.

use super::{ClientDeadlineFuture, ClientDeadlineLayer};
use crate::Head;
use crate::deadline::{BoxError, DeadlineBody, Protocol};
use core::fmt;
use damper_core::deadline::Deadline;
use damper_core::internal::exceeded;
use damper_core::time::Sleep;
use http::{Request, Response};

/// A client's service whose calls end by their deadlines. Made by [`ClientDeadlineLayer`].
///
/// Ready whenever the service behind it is. The wait for readiness belongs to no request, so no deadline bounds it.
///
/// # Cancel safety
///
/// Dropping the future drops the service's.
#[derive(Clone)]
pub struct ClientDeadline<T, S> {
    service: T,
    layer: ClientDeadlineLayer<S>,
}

impl<T, S> ClientDeadline<T, S> {
    pub(super) fn new(service: T, layer: ClientDeadlineLayer<S>) -> Self {
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

impl<S: Sleep + Clone> ClientDeadlineLayer<S> {
    /// Calls a service with a request, unless its deadline is too close.
    #[inline]
    fn call<B, F>(&self, mut request: Request<B>, call: impl FnOnce(Request<B>) -> F) -> ClientDeadlineFuture<F, S> {
        let head = Head::of(&request);
        let protocol = Protocol::of(&head);
        let deadline: Deadline = self.timeouts.deadline(&head, &protocol);
        if !deadline.is_never() {
            let left = deadline.remaining().saturating_sub(self.margin);
            if left.is_zero() {
                return ClientDeadlineFuture::refuse(protocol.error(exceeded(&deadline)));
            }
            protocol.write_timeout(request.headers_mut(), self.timeouts.header.as_ref(), left);
            request.extensions_mut().insert(deadline);
        }
        ClientDeadlineFuture::call(call(request), deadline, self.sleep.clone(), protocol)
    }
}

#[cfg(feature = "tower")]
impl<T, S, B, R> tower_service::Service<Request<B>> for ClientDeadline<T, S>
where
    T: tower_service::Service<Request<B>, Response = Response<R>, Error: Into<BoxError>>,
    S: Sleep + Clone,
{
    type Response = Response<DeadlineBody<R, S>>;
    type Error = BoxError;
    type Future = ClientDeadlineFuture<T::Future, S>;

    fn poll_ready(&mut self, context: &mut core::task::Context<'_>) -> core::task::Poll<Result<(), BoxError>> {
        self.service.poll_ready(context).map_err(Into::into)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.layer.call(request, |request| self.service.call(request))
    }
}

#[cfg(feature = "hyper")]
impl<T, S, B, R> hyper::service::Service<Request<B>> for ClientDeadline<T, S>
where
    T: hyper::service::Service<Request<B>, Response = Response<R>, Error: Into<BoxError>>,
    S: Sleep + Clone,
{
    type Response = Response<DeadlineBody<R, S>>;
    type Error = BoxError;
    type Future = ClientDeadlineFuture<T::Future, S>;

    #[inline]
    fn call(&self, request: Request<B>) -> Self::Future {
        self.layer.call(request, |request| self.service.call(request))
    }
}

impl<T: fmt::Debug, S> fmt::Debug for ClientDeadline<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientDeadline").field("service", &self.service).field("layer", &self.layer).finish()
    }
}
