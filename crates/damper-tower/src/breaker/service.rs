//! A service behind breakers.

use super::{BreakerFuture, BreakerLayer, SelectBreaker};
use crate::{ClassifyResult, EveryErr};
use core::fmt;
use core::mem;
use core::task::{Context, Poll};
use damper_core::breaker::{BreakerRef, CallError, Permit};
use damper_core::internal::{Readiness, open_for_no_time};
use tower_service::Service;

/// A service behind breakers. Made by [`BreakerLayer`].
///
/// Ready whenever the service behind it is, and whenever [one breaker](BreakerLayer::new) for all requests would refuse the
/// call: an open breaker answers at once and does not ask the service. An error of the service's readiness is passed on as
/// [`CallError::Failed`] and not counted, because it belongs to no request.
///
/// If the breaker ceases to refuse between `poll_ready` and `call`, that one call is still refused, with a `retry_after` of
/// zero, because the service was not asked. The [breaker of a key](BreakerLayer::by) is known only in `call`: there the
/// service is always asked first.
///
/// # Cancel safety
///
/// A future that is dropped before its result records no verdict, and a probe gives its place back. A panic, in `call` or
/// in the future, is a failure, and reaches the caller.
pub struct BreakerService<S, B, V = EveryErr> {
    service: S,
    layer: BreakerLayer<B, V>,
    readiness: Readiness,
}

impl<S, B, V> BreakerService<S, B, V> {
    pub(super) fn new(service: S, layer: BreakerLayer<B, V>) -> Self {
        Self { service, layer, readiness: Readiness::default() }
    }

    /// The service behind the breakers.
    pub fn get_ref(&self) -> &S {
        &self.service
    }

    /// The service behind the breakers.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// The service without the breakers.
    pub fn into_inner(self) -> S {
        self.service
    }
}

impl<S, B, V, R> Service<R> for BreakerService<S, B, V>
where
    S: Service<R>,
    B: SelectBreaker<R>,
    V: ClassifyResult<S::Response, S::Error> + Clone,
{
    type Response = S::Response;
    type Error = CallError<S::Error>;
    type Future = BreakerFuture<S::Future, B::Breaker, V>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let refusal = self.layer.breakers.refusal();
        self.readiness.poll(refusal, || self.service.poll_ready(context)).map_err(CallError::Failed)
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        let BreakerLayer { breakers, classify } = &self.layer;
        let skipped = || breakers.refusal().unwrap_or_else(open_for_no_time);
        match self.readiness.try_acquire(|| breakers.try_acquire(&request), skipped) {
            Ok(permit) => {
                let guard = FailOnUnwind(Some(permit));
                let future = self.service.call(request);
                BreakerFuture::permitted(future, guard.over(), classify.clone())
            }
            Err(open) => BreakerFuture::refused(open),
        }
    }
}

/// Records a failure if it is dropped, which only a panic of the service's `call` does.
struct FailOnUnwind<B: BreakerRef>(Option<Permit<B>>);

impl<B: BreakerRef> FailOnUnwind<B> {
    /// Ends the guard: the call has returned its future.
    #[inline]
    fn over(mut self) -> Option<Permit<B>> {
        mem::take(&mut self.0)
    }
}

impl<B: BreakerRef> Drop for FailOnUnwind<B> {
    #[inline]
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.failure();
        }
    }
}

/// Clones share the breakers; they do not share readiness.
impl<S: Clone, B: Clone, V: Clone> Clone for BreakerService<S, B, V> {
    fn clone(&self) -> Self {
        Self::new(self.service.clone(), self.layer.clone())
    }
}

impl<S: fmt::Debug, B, V> fmt::Debug for BreakerService<S, B, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerService").field("service", &self.service).finish_non_exhaustive()
    }
}
