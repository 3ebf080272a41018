//! A client without the types of its parts.

use super::{BoxError, StackError};
use alloc::boxed::Box;
use bytes::Bytes;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tower_service::Service;

/// A client's stack around its client, without the types of its parts.
///
/// It is created by [`ClientStack::boxed`](super::ClientStack::boxed).
///
/// `Q` is the request body. Clones share breakers, budgets and limits.
pub struct BoxedClient<Q>(Box<dyn Client<Q>>);

type BoxedClientFuture = Pin<Box<dyn Future<Output = Result<Response<BoxedBody>, StackError>> + Send>>;

/// A stack with boxed futures and bodies.
trait Client<Q>: Send + Sync {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StackError>>;

    fn call(&mut self, request: Request<Q>) -> BoxedClientFuture;

    fn clone_boxed(&self) -> Box<dyn Client<Q>>;
}

impl<S, Q, R> Client<Q> for S
where
    S: Service<Request<Q>, Response = Response<R>, Error = StackError, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static,
    R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StackError>> {
        Service::poll_ready(self, context)
    }

    fn call(&mut self, request: Request<Q>) -> BoxedClientFuture {
        let response = Service::call(self, request);
        Box::pin(async { Ok(response.await?.map(boxed)) })
    }

    fn clone_boxed(&self) -> Box<dyn Client<Q>> {
        Box::new(self.clone())
    }
}

impl<Q> BoxedClient<Q> {
    pub(super) fn new<S, R>(service: S) -> Self
    where
        S: Service<Request<Q>, Response = Response<R>, Error = StackError, Future: Send + 'static>
            + Clone
            + Send
            + Sync
            + 'static,
        R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        Self(Box::new(service))
    }
}

impl<Q> Service<Request<Q>> for BoxedClient<Q> {
    type Response = Response<BoxedBody>;
    type Error = StackError;
    type Future = BoxedClientFuture;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StackError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> BoxedClientFuture {
        self.0.call(request)
    }
}

impl<Q> Clone for BoxedClient<Q> {
    fn clone(&self) -> Self {
        Self(self.0.clone_boxed())
    }
}

impl<Q> fmt::Debug for BoxedClient<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxedClient").finish_non_exhaustive()
    }
}

/// The body of a [`BoxedClient`]'s response.
pub type BoxedBody = crate::Body<Pin<Box<dyn Body<Data = Bytes, Error = BoxError> + Send>>>;

fn boxed(body: impl Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static) -> BoxedBody {
    BoxedBody::service(Box::pin(BoxedErrors { body }))
}

pin_project! {
    /// A body whose errors are boxed.
    struct BoxedErrors<B> {
        #[pin]
        body: B,
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>>> Body for BoxedErrors<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.project().body.poll_frame(context).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
