//! The parts of a client's stack: layers, gates, or nothing.

use super::side::{Inside, PlacedGate, StackGates};
use super::stack_part::Place;
use super::{OfPart, StackErrorService, StackProtocol};
use crate::ClientGate;
use crate::circuit_breaker::CircuitBreakerLayer;
use crate::completion::{AtHead, WhileBodyLasts};
use crate::concurrency::ClientConcurrencyLayer;
#[cfg(feature = "tokio")]
use crate::deadline::{ClientDeadlineLayer, DeadlineService};
use crate::telemetry::Telemetry;
use crate::throttle::ThrottleLayer;
use damper_core::gate::{AtOnce, Gate};
use tower_layer::Layer;

/// The content of the place `K` of a [client's stack](super::ClientStack).
///
/// `S` is the service inside, `P` the protocol of the stack.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a part of a client's stack around `{S}`",
    note = "a setter whose name ends in `_layer` takes a `tower::Layer`"
)]
pub trait ClientPart<S, P, K> {
    /// The service with this part around it.
    type Service;

    /// Whether there is a part in the place.
    const IS_PRESENT: bool = true;

    /// Puts the part around a service.
    fn put_around(&self, service: S, protocol: &P) -> Self::Service;

    /// Puts the part around a service, inside of retries.
    fn put_inside_of_retries(&self, service: S, protocol: &P) -> Self::Service {
        self.put_around(service, protocol)
    }
}

/// An absent part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct NoPart;

impl<S, P, K> ClientPart<S, P, K> for NoPart {
    type Service = S;

    const IS_PRESENT: bool = false;

    fn put_around(&self, service: S, _: &P) -> S {
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
pub struct LayerPart<L>(pub(super) L);

impl<S, P: StackProtocol, K: Place, L: Layer<S>> ClientPart<S, P, K> for LayerPart<L> {
    type Service = StackErrorService<L::Service, OfPart<K, P>>;

    fn put_around(&self, service: S, _: &P) -> Self::Service {
        StackErrorService::new(self.0.layer(service), OfPart::new())
    }
}

/// The layer of the call's deadline, whose error the protocol of the stack makes.
#[derive(Clone, Debug)]
#[cfg(feature = "tokio")]
pub struct DeadlinePart<Z>(pub(super) ClientDeadlineLayer<Z>);

#[cfg(feature = "tokio")]
impl<S, P: StackProtocol, K: Place, Z: Clone> ClientPart<S, P, K> for DeadlinePart<Z> {
    type Service = StackErrorService<DeadlineService<S, ClientDeadlineLayer<Z>>, OfPart<K, P>>;

    fn put_around(&self, service: S, _: &P) -> Self::Service {
        StackErrorService::new(self.0.clone().with_errors_of::<P>().layer(service), OfPart::new())
    }
}

/// A gate, with what a layer does around it. The protocol of the stack completes it.
///
/// With another gate directly inside of it, it stands before one service.
#[derive(Clone, Debug)]
pub struct GatePart<L>(pub(super) L);

impl<S, P, K, L> ClientPart<S, P, K> for GatePart<L>
where
    S: Inside<P>,
    L: GateFor<P, Gate<K>: StackGates + AtOnce>,
{
    type Service = S::Behind<L::Gate<K>>;

    fn put_around(&self, service: S, protocol: &P) -> Self::Service {
        service.behind(self.0.gate_for(protocol))
    }
}

/// A layer whose gate judges calls by the protocol of a stack.
pub trait GateFor<P> {
    /// The gate in the place `K`.
    type Gate<K>;

    /// Returns the gate.
    fn gate_for<K>(&self, protocol: &P) -> Self::Gate<K>;
}

impl<B: Gate + Clone, P: StackProtocol> GateFor<P> for CircuitBreakerLayer<B> {
    type Gate<K> = PlacedGate<B, P::Completion, (), K>;

    fn gate_for<K>(&self, protocol: &P) -> Self::Gate<K> {
        PlacedGate::new(self.side().clone().completion(protocol.completion()))
    }
}

impl<T: Gate + Clone, P: StackProtocol> GateFor<P> for ThrottleLayer<T> {
    type Gate<K> = PlacedGate<T, P::Rejections, Telemetry, K>;

    fn gate_for<K>(&self, protocol: &P) -> Self::Gate<K> {
        PlacedGate::new(self.side().clone().completion(protocol.rejections()))
    }
}

impl<G: Gate + Clone, P> GateFor<P> for ClientGate<G> {
    type Gate<K> = PlacedGate<G, AtHead, (), K>;

    fn gate_for<K>(&self, _: &P) -> Self::Gate<K> {
        PlacedGate::new(self.clone())
    }
}

impl<L: Gate + Clone, V: Clone, P> GateFor<P> for ClientConcurrencyLayer<L, V> {
    type Gate<K> = PlacedGate<L, WhileBodyLasts<V>, Telemetry, K>;

    fn gate_for<K>(&self, _: &P) -> Self::Gate<K> {
        PlacedGate::new(self.side().clone())
    }
}
