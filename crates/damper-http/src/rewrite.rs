//! A service whose requests a layer changes.

use http::Request;

/// A layer that changes the heads of requests.
pub trait Rewrite {
    /// Changes the head of a request.
    #[doc(hidden)]
    fn rewrite<B>(&self, request: &mut Request<B>);
}

/// A service whose requests a layer changes before it gets them.
///
/// [`CriticalityLayer`](crate::CriticalityLayer), [`ClientCriticalityLayer`](crate::ClientCriticalityLayer) and
/// [`MarkingLayer`](crate::MarkingLayer) create it. Its future is the service's own.
#[derive(Clone, Debug)]
pub struct RewriteService<T, L> {
    service: T,
    layer: L,
}

impl<T, L> RewriteService<T, L> {
    pub(crate) fn new(service: T, layer: L) -> Self {
        Self { service, layer }
    }
}

impl<T: tower_service::Service<Request<B>>, L: Rewrite, B> tower_service::Service<Request<B>> for RewriteService<T, L> {
    type Response = T::Response;
    type Error = T::Error;
    type Future = T::Future;

    fn poll_ready(&mut self, context: &mut core::task::Context<'_>) -> core::task::Poll<Result<(), T::Error>> {
        self.service.poll_ready(context)
    }

    #[inline]
    fn call(&mut self, mut request: Request<B>) -> T::Future {
        self.layer.rewrite(&mut request);
        self.service.call(request)
    }
}

#[cfg(feature = "hyper")]
impl<T: hyper::service::Service<Request<B>>, L: Rewrite, B> hyper::service::Service<Request<B>>
    for RewriteService<T, L>
{
    type Response = T::Response;
    type Error = T::Error;
    type Future = T::Future;

    #[inline]
    fn call(&self, mut request: Request<B>) -> T::Future {
        self.layer.rewrite(&mut request);
        self.service.call(request)
    }
}

/// A layer that changes the heads of requests, or none.
#[derive(Clone, Debug)]
pub struct OptionalRewrite<L>(Option<L>);

impl<L> From<Option<L>> for OptionalRewrite<L> {
    fn from(layer: Option<L>) -> Self {
        Self(layer)
    }
}

impl<L> OptionalRewrite<L> {
    /// Returns the layer, if there is one.
    pub const fn get(&self) -> Option<&L> {
        self.0.as_ref()
    }
}

impl<L: Rewrite> Rewrite for OptionalRewrite<L> {
    #[inline]
    fn rewrite<B>(&self, request: &mut Request<B>) {
        if let Some(layer) = &self.0 {
            layer.rewrite(request);
        }
    }
}

impl<L: Clone, T> tower_layer::Layer<T> for OptionalRewrite<L> {
    type Service = RewriteService<T, Self>;

    fn layer(&self, service: T) -> Self::Service {
        RewriteService::new(service, self.clone())
    }
}

/// Has the name of the service behind the layer.
#[cfg(feature = "tonic")]
impl<T: tonic::server::NamedService, L> tonic::server::NamedService for RewriteService<T, L> {
    const NAME: &'static str = T::NAME;
}
