//! A service whose calls in flight are limited.

#[cfg(feature = "tonic")]
use super::ConcurrencyLayer;
use super::{Acquisition, Answer, ConcurrencyFuture, ConcurrencyLimit, Held, Side};
use crate::Head;
use crate::call_once::Callee;
#[cfg(feature = "hyper")]
use crate::call_once::HyperService;
#[cfg(any(feature = "hyper", feature = "tower"))]
use crate::call_once::KeepableService;
#[cfg(feature = "tower")]
use crate::call_once::TowerService;
use http::{Request, Response};

/// A service whose calls in flight are limited.
///
/// Made by [`ConcurrencyLayer`](super::ConcurrencyLayer) at a server, and by
/// [`ClientConcurrencyLayer`](super::ClientConcurrencyLayer) at a client.
///
/// Ready whenever the service behind it is. That has to be `Clone`, for requests that wait for their permits. At a server, the data of its
/// responses have to be `Bytes`.
///
/// # Cancel safety
///
/// A future or a body that is dropped frees its slot at once, and so does one that panics. A request that waits gives up its place.
#[derive(Clone, Debug)]
pub struct ConcurrencyService<T, Y> {
    service: T,
    side: Y,
}

impl<T, Y> ConcurrencyService<T, Y> {
    pub(super) fn new(service: T, side: Y) -> Self {
        Self { service, side }
    }

    /// The service behind the limit.
    pub fn get_ref(&self) -> &T {
        &self.service
    }

    /// The service behind the limit.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.service
    }

    /// The service without the limit.
    pub fn into_inner(self) -> T {
        self.service
    }
}

/// Calls a service with a request, once it has its permit.
#[inline]
fn call<Y: Side, S: Callee<Request<B>>, B>(
    side: &Y,
    service: S,
    request: Request<B>,
) -> ConcurrencyFuture<S::Kept, B, Y> {
    let head = Head::of(&request);
    if side.exempts(&head) {
        return ConcurrencyFuture::call(service.call(request), None);
    }
    match side.limit().acquire(&head) {
        Acquisition::Now(Ok(permit)) => {
            side.record_allowed();
            // On the stack, so that a panic of the service frees the slot.
            let permit = Held::new(permit, &head, side);
            ConcurrencyFuture::call(service.call(request), Some(permit))
        }
        Acquisition::Now(Err(refusal)) => ConcurrencyFuture::refuse(side.refuse(&head, refusal)),
        Acquisition::Later(acquire) => ConcurrencyFuture::wait(acquire, service.keep(), request, side.clone()),
    }
}

#[cfg(feature = "tower")]
impl<T, Y, B, R> tower_service::Service<Request<B>> for ConcurrencyService<T, Y>
where
    T: tower_service::Service<Request<B>, Response = Response<R>> + KeepableService,
    Y: Answer<R, T::Error>,
{
    type Response = Response<Y::Body>;
    type Error = Y::Error;
    type Future = ConcurrencyFuture<TowerService<T>, B, Y>;

    fn poll_ready(&mut self, context: &mut core::task::Context<'_>) -> core::task::Poll<Result<(), Y::Error>> {
        self.service.poll_ready(context).map_err(Y::failed)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        call(&self.side, &mut self.service, request)
    }
}

#[cfg(feature = "hyper")]
impl<T, Y, B, R> hyper::service::Service<Request<B>> for ConcurrencyService<T, Y>
where
    T: hyper::service::Service<Request<B>, Response = Response<R>> + KeepableService,
    Y: Answer<R, T::Error>,
{
    type Response = Response<Y::Body>;
    type Error = Y::Error;
    type Future = ConcurrencyFuture<HyperService<T>, B, Y>;

    #[inline]
    fn call(&self, request: Request<B>) -> Self::Future {
        call(&self.side, &self.service, request)
    }
}

/// The name of the service behind the limit.
#[cfg(feature = "tonic")]
impl<T: tonic::server::NamedService, L: ConcurrencyLimit, V> tonic::server::NamedService
    for ConcurrencyService<T, ConcurrencyLayer<L, V>>
{
    const NAME: &'static str = T::NAME;
}
