//! A service that changes the error of another one.

use super::{BoxError, PartError, StackError, StackPart, StackProtocol};
use core::fmt;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};
use pin_project_lite::pin_project;
use tower_service::Service;

/// Makes the error of a stack of a service's error.
pub trait ToStackError<E> {
    /// Returns the error of the stack.
    #[doc(hidden)]
    fn stack_error(&self, error: E) -> StackError;
}

/// The service is the client behind the stack, with any error that can be put into a box.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfTransport;

impl<E: Into<BoxError>> ToStackError<E> for OfTransport {
    #[cold]
    fn stack_error(&self, error: E) -> StackError {
        StackError::of_boxed(StackPart::Transport, error.into())
    }
}

/// The service is that of a layer in the place of a part.
pub struct OfPart<P> {
    part: StackPart,
    protocol: PhantomData<fn() -> P>,
}

impl<P> OfPart<P> {
    pub(super) const fn new(part: StackPart) -> Self {
        Self { part, protocol: PhantomData }
    }
}

impl<E: PartError, P: StackProtocol> ToStackError<E> for OfPart<P> {
    #[inline]
    fn stack_error(&self, error: E) -> StackError {
        error.into_stack_error::<P>(self.part)
    }
}

impl<P> Clone for OfPart<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for OfPart<P> {}

impl<P> fmt::Debug for OfPart<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OfPart").field(&self.part).finish()
    }
}

/// A service in a client's stack, whose error is a [`StackError`].
#[derive(Clone, Copy, Debug)]
pub struct StackErrorService<S, M> {
    service: S,
    errors: M,
}

impl<S, M> StackErrorService<S, M> {
    pub(super) const fn new(service: S, errors: M) -> Self {
        Self { service, errors }
    }
}

impl<S, M, R> Service<R> for StackErrorService<S, M>
where
    S: Service<R>,
    M: ToStackError<S::Error> + Copy,
{
    type Response = S::Response;
    type Error = StackError;
    type Future = StackErrorFuture<S::Future, M>;

    #[inline]
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StackError>> {
        self.service.poll_ready(context).map_err(|error| self.errors.stack_error(error))
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        StackErrorFuture { future: self.service.call(request), errors: self.errors }
    }
}

pin_project! {
    /// The future of [`StackErrorService`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are polled"]
    pub struct StackErrorFuture<F, M> {
        #[pin]
        future: F,
        errors: M,
    }
}

impl<F, M, T, E> Future for StackErrorFuture<F, M>
where
    F: Future<Output = Result<T, E>>,
    M: ToStackError<E>,
{
    type Output = Result<T, StackError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.future.poll(context).map_err(|error| this.errors.stack_error(error))
    }
}
