//! A layer of a client's stack that is on or off.

use damper_http::internal::PartErrors;
use damper_http::{Explain, ExplainedPart, StackError, StackPart};
use http::Request;
use pin_project_lite::pin_project;
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// A layer of a client's stack that is on or off.
///
/// Its service is either one, without a box.
#[cfg(all(feature = "tower", feature = "tokio"))]
pub struct OptionalLayer<L, P> {
    layer: Option<L>,
    part: StackPart,
    protocol: PhantomData<fn() -> P>,
}

impl<L, P> OptionalLayer<L, P> {
    pub(super) fn new(layer: Option<L>, part: StackPart) -> Self {
        Self { layer, part, protocol: PhantomData }
    }
}

impl<S: Clone, L: Layer<S>, P> Layer<S> for OptionalLayer<L, P> {
    type Service = OptionalService<L::Service, S, P>;

    fn layer(&self, service: S) -> Self::Service {
        OptionalService(match &self.layer {
            Some(layer) => Choice::Part { service: layer.layer(service), part: self.part, protocol: PhantomData },
            None => Choice::Absent { service },
        })
    }
}

impl<L: Explain, P> Explain for OptionalLayer<L, P> {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        self.layer.as_ref()?.explain(request)
    }
}

impl<L: Clone, P> Clone for OptionalLayer<L, P> {
    fn clone(&self) -> Self {
        Self { layer: self.layer.clone(), part: self.part, protocol: PhantomData }
    }
}

impl<L: fmt::Debug, P> fmt::Debug for OptionalLayer<L, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OptionalLayer").field(&self.layer).finish()
    }
}

/// The service of an [`OptionalLayer`].
#[cfg(all(feature = "tower", feature = "tokio"))]
pub struct OptionalService<W, S, P>(Choice<W, S, P>);

enum Choice<W, S, P> {
    Part { service: W, part: StackPart, protocol: PhantomData<fn() -> P> },
    Absent { service: S },
}

impl<W, S, P, R> Service<R> for OptionalService<W, S, P>
where
    W: Service<R, Response = S::Response>,
    S: Service<R, Error = StackError>,
    P: PartErrors<W::Error>,
{
    type Response = S::Response;
    type Error = StackError;
    type Future = OptionalFuture<W::Future, S::Future, P>;

    #[inline]
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StackError>> {
        match &mut self.0 {
            Choice::Part { service, part, .. } => {
                service.poll_ready(context).map_err(|error| P::part_error(*part, error))
            }
            Choice::Absent { service } => service.poll_ready(context),
        }
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        match &mut self.0 {
            Choice::Part { service, part, .. } => {
                OptionalFuture::Part { future: service.call(request), part: *part, protocol: PhantomData }
            }
            Choice::Absent { service } => OptionalFuture::Absent { future: service.call(request) },
        }
    }
}

impl<W: Clone, S: Clone, P> Clone for OptionalService<W, S, P> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Choice::Part { service, part, .. } => {
                Choice::Part { service: service.clone(), part: *part, protocol: PhantomData }
            }
            Choice::Absent { service } => Choice::Absent { service: service.clone() },
        })
    }
}

impl<W: fmt::Debug, S: fmt::Debug, P> fmt::Debug for OptionalService<W, S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Choice::Part { service, .. } => service.fmt(f),
            Choice::Absent { service } => service.fmt(f),
        }
    }
}

pin_project! {
    /// The future of an [`OptionalService`].
    #[project = OptionalProjection]
    #[must_use = "futures do nothing unless they are polled"]
    #[cfg(all(feature = "tower", feature = "tokio"))]
    pub enum OptionalFuture<W, S, P> {
        #[doc(hidden)]
        Part { #[pin] future: W, part: StackPart, protocol: PhantomData<fn() -> P> },
        #[doc(hidden)]
        Absent { #[pin] future: S },
    }
}

impl<W, S, P, T, E> Future for OptionalFuture<W, S, P>
where
    W: Future<Output = Result<T, E>>,
    S: Future<Output = Result<T, StackError>>,
    P: PartErrors<E>,
{
    type Output = Result<T, StackError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            OptionalProjection::Part { future, part, .. } => {
                future.poll(context).map_err(|error| P::part_error(*part, error))
            }
            OptionalProjection::Absent { future } => future.poll(context),
        }
    }
}

impl<W, S, P> fmt::Debug for OptionalFuture<W, S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OptionalFuture").finish_non_exhaustive()
    }
}
