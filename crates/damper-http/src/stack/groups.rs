//! The groups of a client's stack, each with its order.

use super::part::{ClientPart, NoPart};
use super::stack_part::{AttemptTimeout, Breaker, Concurrency, Deadline, Hedge, Limit, Pacing, Retry, Throttle};
use tower_layer::Layer;

/// A group of parts around the service `S`, by the protocol `P`.
pub trait PartGroup<S, P> {
    /// The service with the parts of the group around it.
    type Service;

    /// Puts the parts around a service, each in its place.
    fn put_around(&self, service: S, protocol: &P) -> Self::Service;
}

/// The parts that see a call once: its class, its deadline, and inside of that the breaker.
#[derive(Clone, Copy, Debug)]
pub struct CallParts<D = NoPart, B = NoPart, K = NoPart> {
    pub(super) criticality: K,
    pub(super) deadline: D,
    pub(super) breaker: B,
}

impl<S, P, D, B, K> PartGroup<S, P> for CallParts<D, B, K>
where
    B: ClientPart<S, P, Breaker>,
    D: ClientPart<B::Service, P, Deadline>,
    K: Layer<D::Service>,
{
    type Service = K::Service;

    fn put_around(&self, service: S, protocol: &P) -> K::Service {
        // It ends no call, so its services have no place of their own.
        self.criticality.layer(self.deadline.put_around(self.breaker.put_around(service, protocol), protocol))
    }
}

/// The parts that make attempts of a call: retries, inside of them pacing, and inside of that a hedge.
#[derive(Clone, Copy, Debug)]
pub struct RepeatParts<R = NoPart, G = NoPart, H = NoPart> {
    pub(super) retry: R,
    pub(super) pacing: G,
    pub(super) hedge: H,
}

impl<S, P, R, G, H> PartGroup<S, P> for RepeatParts<R, G, H>
where
    H: ClientPart<S, P, Hedge>,
    G: ClientPart<H::Service, P, Pacing>,
    R: ClientPart<G::Service, P, Retry>,
{
    type Service = R::Service;

    fn put_around(&self, service: S, protocol: &P) -> R::Service {
        let service = if R::IS_PRESENT {
            self.hedge.put_inside_of_retries(service, protocol)
        } else {
            self.hedge.put_around(service, protocol)
        };
        self.retry.put_around(self.pacing.put_around(service, protocol), protocol)
    }
}

/// The parts that see each attempt.
///
/// From the outside in, these are the throttle, the rate limit, the concurrency limit and the timeout.
#[derive(Clone, Copy, Debug)]
pub struct AttemptParts<T = NoPart, L = NoPart, C = NoPart, A = NoPart> {
    pub(super) throttle: T,
    pub(super) limit: L,
    pub(super) concurrency: C,
    pub(super) timeout: A,
}

impl<S, P, T, L, C, A> PartGroup<S, P> for AttemptParts<T, L, C, A>
where
    A: ClientPart<S, P, AttemptTimeout>,
    C: ClientPart<A::Service, P, Concurrency>,
    L: ClientPart<C::Service, P, Limit>,
    T: ClientPart<L::Service, P, Throttle>,
{
    type Service = T::Service;

    fn put_around(&self, service: S, protocol: &P) -> T::Service {
        let service = self.timeout.put_around(service, protocol);
        let service = self.concurrency.put_around(service, protocol);
        let service = self.limit.put_around(service, protocol);
        self.throttle.put_around(service, protocol)
    }
}
