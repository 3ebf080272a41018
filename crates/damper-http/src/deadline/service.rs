//! A service whose calls have deadlines.

use super::Answer;
use super::{DeadlineFuture, Side};
use http::Request;
use http::Response;

/// A service whose calls have deadlines.
///
/// [`DeadlineLayer`](super::DeadlineLayer) creates it at a server, and [`ClientDeadlineLayer`](super::ClientDeadlineLayer) at a client.
///
/// It is ready whenever the service behind it is. The wait for readiness belongs to no request, so no deadline bounds it. At a server, the
/// data of its responses must be `Bytes`.
///
/// A response's body is cut off when the deadline passes, and the service's body is dropped then. The last item is an error with a
/// [`DeadlineExceeded`](damper_core::DeadlineExceeded) among its sources, or trailers with `DEADLINE_EXCEEDED` from a gRPC server. While the
/// peer does not read, the body is not polled, so it is not cut off. A slot of a [`ConcurrencyLayer`](crate::ConcurrencyLayer) inside is
/// freed all the same. The body allocates when it first waits for data, and when it is cut off.
///
/// # Cancel safety
///
/// Dropping the future drops the service's future.
#[derive(Clone, Debug)]
pub struct DeadlineService<T, L> {
    service: T,
    layer: L,
}

impl<T, L> DeadlineService<T, L> {
    pub(super) fn new(service: T, layer: L) -> Self {
        Self { service, layer }
    }
}

/// Calls a service with a request, unless its deadline has passed.
#[inline]
fn call<L: Side, B, F>(layer: &L, mut request: Request<B>, call: impl FnOnce(Request<B>) -> F) -> DeadlineFuture<F, L> {
    match layer.begin(&mut request) {
        Ok(bounds) => DeadlineFuture::call(call(request), bounds),
        Err(over) => DeadlineFuture::over(over),
    }
}

impl<T, L, B, R> tower_service::Service<Request<B>> for DeadlineService<T, L>
where
    T: tower_service::Service<Request<B>, Response = Response<R>>,
    L: Answer<R, T::Error>,
{
    type Response = Response<L::Body>;
    type Error = L::Error;
    type Future = DeadlineFuture<T::Future, L>;

    fn poll_ready(&mut self, context: &mut core::task::Context<'_>) -> core::task::Poll<Result<(), L::Error>> {
        self.service.poll_ready(context).map_err(L::not_ready)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        call(&self.layer, request, |request| self.service.call(request))
    }
}

#[cfg(feature = "hyper")]
impl<T, L, B, R> hyper::service::Service<Request<B>> for DeadlineService<T, L>
where
    T: hyper::service::Service<Request<B>, Response = Response<R>>,
    L: Answer<R, T::Error>,
{
    type Response = Response<L::Body>;
    type Error = L::Error;
    type Future = DeadlineFuture<T::Future, L>;

    #[inline]
    fn call(&self, request: Request<B>) -> Self::Future {
        call(&self.layer, request, |request| self.service.call(request))
    }
}

/// Has the name of the service behind the deadlines.
#[cfg(feature = "tonic")]
impl<T: tonic::server::NamedService, S> tonic::server::NamedService for DeadlineService<T, super::DeadlineLayer<S>> {
    const NAME: &'static str = T::NAME;
}
