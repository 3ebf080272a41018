//! A service behind throttles.

use super::{Rejections, ThrottleFuture, ThrottleLayer, ThrottleObserver, Throttles};
use crate::Head;
use crate::completion::{AtHead, CallGuard, Completion, DeadlineObserver};
use core::fmt;
use damper_core::throttle::Throttled;
use http::{Request, Response};

/// A client's service behind throttles. Made by [`ThrottleLayer`](super::ThrottleLayer).
///
/// Ready whenever the service behind it is. A throttle decides in `call`, for each request anew, so the service is always
/// asked first; readiness that a refusal does not use stays for the next call. An error of the service's readiness is
/// passed on, as [`CallError::Failed`](damper_core::CallError) or what the completion makes of it, and not
/// counted, because it belongs to no request.
///
/// # Cancel safety
///
/// A future that is dropped before its response is not counted, nor is one that panics. The exception: if the
/// [`Deadline`](damper_core::Deadline) in the request's extensions has passed while the call waited for the server, that is a
/// rejection.
pub struct ThrottleService<S, T, W = AtHead<Rejections>> {
    service: S,
    layer: ThrottleLayer<T, W>,
}

impl<S, T, W> ThrottleService<S, T, W> {
    pub(super) fn new(service: S, layer: ThrottleLayer<T, W>) -> Self {
        Self { service, layer }
    }

    /// The service behind the throttles.
    pub fn get_ref(&self) -> &S {
        &self.service
    }

    /// The service behind the throttles.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// The service without the throttles.
    pub fn into_inner(self) -> S {
        self.service
    }
}

impl<T: Throttles, W: Clone> ThrottleLayer<T, W> {
    /// Returns the call of a request, made by `call` if its throttle lets it pass.
    #[inline]
    fn call<Q, F>(&self, request: Request<Q>, call: impl FnOnce(Request<Q>) -> F) -> ThrottleFuture<F, T::Throttle, W> {
        let head = Head::of(&request);
        let permit = self.throttles.try_acquire(&head);
        self.telemetry.record_call(&permit);
        match permit {
            Ok(permit) => {
                let observer = DeadlineObserver::new(ThrottleObserver::new(permit), &head, &self.min_budget);
                let guard = CallGuard::new(observer, self.completion.clone());
                let future = call(request);
                ThrottleFuture::permitted(future, guard)
            }
            Err(throttled) => ThrottleFuture::refused(throttled, self.completion.clone()),
        }
    }
}

#[cfg(feature = "tower")]
impl<S, T, W, Q, R> tower_service::Service<Request<Q>> for ThrottleService<S, T, W>
where
    S: tower_service::Service<Request<Q>, Response = Response<R>>,
    T: Throttles,
    W: Completion<R, S::Error, Throttled> + Clone,
{
    type Response = Response<W::Body<DeadlineObserver<ThrottleObserver<T::Throttle>>>>;
    type Error = W::Error;
    type Future = ThrottleFuture<S::Future, T::Throttle, W>;

    fn poll_ready(&mut self, context: &mut core::task::Context<'_>) -> core::task::Poll<Result<(), Self::Error>> {
        let Self { service, layer: ThrottleLayer { completion, .. } } = self;
        service.poll_ready(context).map_err(|error| completion.not_called(damper_core::CallError::Failed(error)))
    }

    #[inline]
    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let Self { service, layer } = self;
        layer.call(request, |request| service.call(request))
    }
}

#[cfg(feature = "hyper")]
impl<S, T, W, Q, R> hyper::service::Service<Request<Q>> for ThrottleService<S, T, W>
where
    S: hyper::service::Service<Request<Q>, Response = Response<R>>,
    T: Throttles,
    W: Completion<R, S::Error, Throttled> + Clone,
{
    type Response = Response<W::Body<DeadlineObserver<ThrottleObserver<T::Throttle>>>>;
    type Error = W::Error;
    type Future = ThrottleFuture<S::Future, T::Throttle, W>;

    #[inline]
    fn call(&self, request: Request<Q>) -> Self::Future {
        self.layer.call(request, |request| self.service.call(request))
    }
}

/// Clones share the throttles.
impl<S: Clone, T: Clone, W: Clone> Clone for ThrottleService<S, T, W> {
    fn clone(&self) -> Self {
        Self::new(self.service.clone(), self.layer.clone())
    }
}

impl<S: fmt::Debug, T: fmt::Debug, W> fmt::Debug for ThrottleService<S, T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottleService")
            .field("service", &self.service)
            .field("throttles", &self.layer.throttles)
            .finish_non_exhaustive()
    }
}
