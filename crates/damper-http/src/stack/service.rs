//! A service that converts the error of another one.

use super::stack_part::Place;
use super::{BoxError, PartErrors, StackError, StackPart, StackProtocol};
use core::fmt;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};
use pin_project_lite::pin_project;
use tower_service::Service;

/// Converts a service's error into the stack's error.
pub trait ToStackError<E> {
    /// Returns the error of the stack.
    fn stack_error(&self, error: E) -> StackError;
}

/// Marks the service of a layer in the place `K`, or of another part of the stack.
pub struct OfPart<K, P>(PhantomData<fn() -> (K, P)>);

/// The client behind the stack, with any error that can be boxed.
#[derive(Clone, Copy, Debug)]
pub struct Transport;

/// The whole stack.
#[derive(Clone, Copy, Debug)]
pub struct Whole;

pub(super) type OfTransport<P> = OfPart<Transport, P>;
pub(super) type OfStack<P> = OfPart<Whole, P>;

impl<K, P> OfPart<K, P> {
    pub(super) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<E, K: Place, P: PartErrors<E>> ToStackError<E> for OfPart<K, P> {
    #[inline]
    fn stack_error(&self, error: E) -> StackError {
        P::part_error(K::PART, error)
    }
}

impl<E: Into<BoxError>, P: StackProtocol> ToStackError<E> for OfTransport<P> {
    #[cold]
    fn stack_error(&self, error: E) -> StackError {
        StackError::of_boxed::<P>(StackPart::Transport, error.into())
    }
}

impl<P: StackProtocol> ToStackError<StackError> for OfStack<P> {
    #[inline]
    fn stack_error(&self, error: StackError) -> StackError {
        P::returned(error)
    }
}

impl<K, P> Clone for OfPart<K, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, P> Copy for OfPart<K, P> {}

impl<K, P> fmt::Debug for OfPart<K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OfPart")
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

/// A service that takes the requests of a stack. Every `Service` of them is one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a service of `{R}`",
    note = "a client with requests of its own, such as `reqwest::Client`, becomes one by `damper::http::HttpClient::new(client)`"
)]
pub trait StackService<R>: Service<R> {}

#[diagnostic::do_not_recommend]
impl<S: Service<R>, R> StackService<R> for S {}

impl<S, M, R> Service<R> for StackErrorService<S, M>
where
    S: StackService<R>,
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
