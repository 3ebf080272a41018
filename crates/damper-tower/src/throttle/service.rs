//! A service behind throttles.

use super::{SelectThrottle, ThrottleFuture, ThrottleLayer};
use crate::{ClassifyResult, EveryErr};
use core::fmt;
use core::task::{Context, Poll};
use damper_core::CallError;
use damper_core::throttle::Throttled;
use tower_service::Service;

/// A service behind throttles. Made by [`ThrottleLayer`].
///
/// Ready whenever the service behind it is. A throttle decides in `call`, for each request anew, so the service is always
/// asked first; readiness that a refusal does not use stays for the next call. An error of the service's readiness is passed on as
/// [`CallError::Failed`] and not counted, because it belongs to no request.
///
/// # Cancel safety
///
/// A future that is dropped before its result is not counted, nor is one that panics.
#[derive(Clone)]
pub struct ThrottleService<S, T, V = EveryErr> {
    service: S,
    layer: ThrottleLayer<T, V>,
}

impl<S, T, V> ThrottleService<S, T, V> {
    pub(super) fn new(service: S, layer: ThrottleLayer<T, V>) -> Self {
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

impl<S, T, V, R> Service<R> for ThrottleService<S, T, V>
where
    S: Service<R>,
    T: SelectThrottle<R>,
    V: ClassifyResult<S::Response, S::Error> + Clone,
{
    type Response = S::Response;
    type Error = CallError<S::Error, Throttled>;
    type Future = ThrottleFuture<S::Future, T::Throttle, V>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(context).map_err(CallError::Failed)
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        let ThrottleLayer { throttles, classify } = &self.layer;
        match throttles.try_acquire(&request) {
            Ok(permit) => ThrottleFuture::permitted(self.service.call(request), permit, classify.clone()),
            Err(throttled) => ThrottleFuture::refused(throttled),
        }
    }
}

impl<S: fmt::Debug, T, V> fmt::Debug for ThrottleService<S, T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottleService").field("service", &self.service).finish_non_exhaustive()
    }
}
