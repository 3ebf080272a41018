//! The parts of a client's stack: finished layers, or layers that the protocol completes.

use super::{OfPart, StackErrorService, StackPart, StackProtocol, StackRetries};
use crate::ResponseHead;
use crate::circuit_breaker::{CircuitBreak, CircuitBreakerLayer};
use crate::hedge::{HedgeLayer, Hedging};
use crate::pacing::{HttpHints, PaceOnly, PacingLayer, PacingService};
use crate::retry::{HttpRetries, RetryLayer, Retrying};
use crate::throttle::{ThrottleLayer, ThrottleService};
use core::fmt;
use damper_core::gate::Gate;
use damper_core::throttle::ReadHints;
use tower_layer::Layer;

/// A service that is cloned for each attempt.
#[diagnostic::on_unimplemented(
    message = "the client `{Self}` is not `Clone`, so it cannot make another attempt",
    note = "`retry` and `hedge` need a client that is `Clone`, because each attempt takes its own",
    note = "derive `Clone` for the client that `service` or `boxed` gets, or put tower's `BufferLayer` around it"
)]
pub trait RepeatableService: Clone {}

#[diagnostic::do_not_recommend]
impl<S: Clone> RepeatableService for S {}

/// The content of one of the places of a [client's stack](super::ClientStack).
///
/// `S` is the service inside, `P` the protocol of the stack.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a part of a client's stack around `{S}`",
    note = "a setter whose name ends in `_layer` takes a `tower::Layer`"
)]
#[cfg(feature = "tower")]
pub trait ClientPart<S, P> {
    /// The service with this part around it.
    type Service;

    /// Whether there is a part in the place.
    #[doc(hidden)]
    const IS_PRESENT: bool = true;

    /// Puts the part around a service.
    #[doc(hidden)]
    fn put_around(&self, service: S, place: StackPart, protocol: &P) -> Self::Service;

    /// Puts the part around a service, inside of retries.
    #[doc(hidden)]
    fn put_inside_of_retries(&self, service: S, place: StackPart, protocol: &P) -> Self::Service {
        self.put_around(service, place, protocol)
    }
}

/// An absent part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg(feature = "tower")]
pub struct NoPart;

impl<S, P> ClientPart<S, P> for NoPart {
    type Service = S;

    const IS_PRESENT: bool = false;

    fn put_around(&self, service: S, _: StackPart, _: &P) -> S {
        service
    }
}

impl<S> Layer<S> for NoPart {
    type Service = S;

    fn layer(&self, service: S) -> S {
        service
    }
}

/// A finished layer, which keeps its own rules.
#[derive(Clone, Copy, Debug)]
#[cfg(feature = "tower")]
pub struct LayerPart<L>(pub(super) L);

impl<S, P: StackProtocol, L: Layer<S>> ClientPart<S, P> for LayerPart<L> {
    type Service = StackErrorService<L::Service, OfPart<P>>;

    fn put_around(&self, service: S, place: StackPart, _: &P) -> Self::Service {
        StackErrorService::new(self.0.layer(service), OfPart::new(place))
    }
}

/// Breakers that judge by the protocol of the stack.
#[derive(Clone)]
#[cfg(feature = "tower")]
pub struct BreakerPart<B>(pub(super) CircuitBreakerLayer<B>);

impl<S, B: Gate + Clone, P: StackProtocol<Completion: Clone>> ClientPart<S, P> for BreakerPart<B> {
    type Service = StackErrorService<CircuitBreak<S, B, P::Completion>, OfPart<P>>;

    fn put_around(&self, service: S, place: StackPart, protocol: &P) -> Self::Service {
        let layer = self.0.clone().completion(protocol.completion());
        StackErrorService::new(layer.layer(service), OfPart::new(place))
    }
}

impl<B: fmt::Debug> fmt::Debug for BreakerPart<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BreakerPart").field(&self.0).finish()
    }
}

/// Throttles that judge by the protocol of the stack.
#[derive(Clone)]
#[cfg(feature = "tower")]
pub struct ThrottlePart<T>(pub(super) ThrottleLayer<T>);

impl<S, T: Gate + Clone, P: StackProtocol<Rejections: Clone>> ClientPart<S, P> for ThrottlePart<T> {
    type Service = StackErrorService<ThrottleService<S, T, P::Rejections>, OfPart<P>>;

    fn put_around(&self, service: S, place: StackPart, protocol: &P) -> Self::Service {
        let layer = self.0.clone().completion(protocol.rejections());
        StackErrorService::new(layer.layer(service), OfPart::new(place))
    }
}

impl<T: fmt::Debug> fmt::Debug for ThrottlePart<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ThrottlePart").field(&self.0).finish()
    }
}

/// Pacing by the hints of the stack's protocol.
#[derive(Clone)]
pub struct PacingPart<T, Z>(pub(super) PacingLayer<T, HttpHints, PaceOnly<Z>>);

impl<S, T, Z, P> ClientPart<S, P> for PacingPart<T, Z>
where
    T: Clone,
    Z: Clone,
    P: StackProtocol<Hints: for<'a> ReadHints<ResponseHead<'a>> + Clone>,
{
    type Service = StackErrorService<PacingService<S, T, P::Hints, PaceOnly<Z>>, OfPart<P>>;

    fn put_around(&self, service: S, place: StackPart, protocol: &P) -> Self::Service {
        let layer = self.0.clone().hints(protocol.hints());
        StackErrorService::new(layer.layer(service), OfPart::new(place))
    }
}

impl<T: fmt::Debug, Z> fmt::Debug for PacingPart<T, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PacingPart").field(&self.0).finish()
    }
}

/// Retries by the rules of the stack's protocol.
#[cfg(feature = "tower")]
pub struct RetryPart<C, B, Z>(pub(super) RetryLayer<C, B, HttpRetries, Z>);

impl<S: RepeatableService, C: Clone, B, Z: Clone, P: StackProtocol> ClientPart<S, P> for RetryPart<C, B, Z> {
    type Service = StackErrorService<Retrying<S, C, B, StackRetries<P::Retries>, Z>, OfPart<P>>;

    fn put_around(&self, service: S, place: StackPart, protocol: &P) -> Self::Service {
        let layer = self.0.clone().protocol(StackRetries(protocol.retries()));
        StackErrorService::new(layer.layer(service), OfPart::new(place))
    }
}

/// Clones share the policy.
impl<C, B, Z> Clone for RetryPart<C, B, Z> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C, B: fmt::Debug, Z> fmt::Debug for RetryPart<C, B, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RetryPart").field(&self.0).finish()
    }
}

/// A hedge by the rules of the stack's protocol.
#[cfg(feature = "tower")]
pub struct HedgePart<C, B, Z>(pub(super) HedgeLayer<C, B, HttpRetries, Z>);

impl<S: RepeatableService, C, B, Z: Clone, P: StackProtocol> ClientPart<S, P> for HedgePart<C, B, Z> {
    type Service = StackErrorService<Hedging<S, C, B, StackRetries<P::Retries>, Z>, OfPart<P>>;

    fn put_around(&self, service: S, place: StackPart, protocol: &P) -> Self::Service {
        let layer = self.0.clone().protocol(StackRetries(protocol.retries()));
        StackErrorService::new(layer.layer(service), OfPart::new(place))
    }

    fn put_inside_of_retries(&self, service: S, place: StackPart, protocol: &P) -> Self::Service {
        Self(self.0.clone().inside_of_retries()).put_around(service, place, protocol)
    }
}

/// Clones share the hedge.
impl<C, B, Z> Clone for HedgePart<C, B, Z> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C, B: fmt::Debug, Z> fmt::Debug for HedgePart<C, B, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HedgePart").field(&self.0).finish()
    }
}
