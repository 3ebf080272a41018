//! A gate before a client of HTTP.

use crate::Head;
use crate::completion::{AtHead, Completion, HeldCall, HeldPermit, MinBudget};
use crate::deadline::SentTimeout;
use crate::telemetry::Observe;
use core::fmt;
use damper_core::CallError;
use damper_core::gate::{AnswerOf, Ask, Gate, Permit};
use damper_tower::internal::{Side, Stand};
use http::{Request, Response};

/// A gate before a client of HTTP, with the rules by which its calls are judged.
///
/// The layers of clients have it: [`CircuitBreakerLayer`](crate::CircuitBreakerLayer), [`ThrottleLayer`](crate::ThrottleLayer) and
/// [`ClientConcurrencyLayer`](crate::ClientConcurrencyLayer). For another gate, write `GateLayer::at(ClientGate::new(gate))`, with the layer
/// of `damper::tower`. It is asked about the [`Head`] of each request.
///
/// The caller of a refused request gets [`CallError::Refused`], or what the [`Completion`] makes of it.
///
/// # Cancel safety
///
/// A future that is dropped before its response has no verdict, nor has a body that is dropped before the call has ended; a probe then gives its
/// place back, and a slot is free. The exception: if the [`Deadline`](damper_core::Deadline) in the request's extensions has passed while the
/// call waited for the server, the call has timed out. A panic, in `call`, in the future or in the body, is told to the permit, and reaches
/// the caller.
///
/// # Examples
///
/// A breaker for reads and one for writes:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub extern crate damper_tower as tower; }
/// use damper::KeyedCircuitBreaker;
/// use damper::breaker::BreakerConfig;
/// use damper::gate::PerKey;
/// use damper::http::{ClientGate, Head};
/// use damper::tower::GateLayer;
/// use std::sync::Arc;
///
/// let breakers = Arc::new(KeyedCircuitBreaker::new(BreakerConfig::DEFAULT, 2)?);
/// let by_method = PerKey::new(|head: &Head<'_>| head.method.is_safe(), breakers);
/// let layer = GateLayer::at(ClientGate::new(by_method));
/// # let _ = layer;
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Clone)]
pub struct ClientGate<G, W = AtHead, O = ()> {
    pub(crate) gate: G,
    pub(crate) completion: W,
    /// The time that a call has to be given before its deadline counts against the server.
    pub(crate) min_budget: MinBudget,
    pub(crate) observer: O,
}

impl<G: for<'a> Ask<Head<'a>>> ClientGate<G> {
    /// Puts calls before this gate, which are judged by the heads of their responses.
    #[must_use]
    pub fn new(gate: G) -> Self {
        Self::observed_by((), gate, AtHead::new(), MinBudget::usual_per_host())
    }
}

impl<G, W, O> ClientGate<G, W, O> {
    pub(crate) const fn observed_by(observer: O, gate: G, completion: W, min_budget: MinBudget) -> Self {
        Self { gate, completion, min_budget, observer }
    }

    /// Sets when a call has ended, and with which verdict: a [`Completion`]. Default: [`AtHead`].
    #[must_use]
    pub fn completion<X>(self, completion: X) -> ClientGate<G, X, O> {
        self.map_completion(|_| completion)
    }

    /// Sets how much time a call must be given for its passed deadline to count against the server.
    ///
    /// Default: [`MinBudget::usual_per_host()`].
    #[must_use]
    pub fn min_budget(self, min_budget: impl Into<MinBudget>) -> Self {
        Self { min_budget: min_budget.into(), ..self }
    }

    pub(crate) fn map_completion<X>(self, map: impl FnOnce(W) -> X) -> ClientGate<G, X, O> {
        let Self { gate, completion, min_budget, observer } = self;
        ClientGate { gate, completion: map(completion), min_budget, observer }
    }

    pub(crate) fn map_gate<H>(self, map: impl FnOnce(G) -> H) -> ClientGate<H, W, O> {
        let Self { gate, completion, min_budget, observer } = self;
        ClientGate { gate: map(gate), completion, min_budget, observer }
    }
}

impl<G: Gate, W, O: Observe<G::Refusal>> ClientGate<G, W, O> {
    /// Counts a call that has this permit.
    #[inline]
    pub(crate) fn count(&self, permit: &G::Permit) {
        if permit.was_asked() {
            self.observer.allowed();
        }
    }

    /// Takes what the end of a call needs.
    #[inline]
    pub(crate) fn held(&self, permit: G::Permit, head: &Head<'_>) -> HeldCall<G::Permit, W>
    where
        W: Clone,
    {
        HeldCall::new(HeldPermit::new(permit, head, &self.min_budget), self.completion.clone())
    }
}

impl<G: Gate + Clone, W: Clone, O: Clone> Stand for ClientGate<G, W, O> {
    type Gate = G;

    #[inline]
    fn gate(&self) -> &G {
        &self.gate
    }
}

impl<G, W, O, B, R, E> Side<Request<B>, Response<R>, E> for ClientGate<G, W, O>
where
    G: Gate + Clone + for<'a> Ask<Head<'a>>,
    W: Completion<R, E, G::Refusal> + Clone,
    O: Observe<G::Refusal> + Clone,
{
    type Held = HeldCall<G::Permit, W>;
    type Refused = G::Refusal;
    type Response = Response<W::Body<G::Permit>>;
    type Error = W::Error;

    #[inline]
    fn ask(&self, request: &Request<B>) -> AnswerOf<G> {
        self.gate.ask(&Head::of(request))
    }

    /// Tells the server how much time is left.
    fn waited(&self, _: &G::Wait, request: &mut Request<B>) {
        SentTimeout::update(request);
    }

    #[inline]
    fn hold(&self, permit: G::Permit, request: &Request<B>) -> Self::Held {
        self.count(&permit);
        self.held(permit, &Head::of(request))
    }

    #[cold]
    fn refuse(&self, refusal: G::Refusal, request: &Request<B>) -> G::Refusal {
        self.observer.refused(&Head::of(request), &refusal);
        refusal
    }

    fn refused(refused: G::Refusal) -> Result<Self::Response, Self::Error> {
        Err(W::not_called(CallError::Refused(refused)))
    }

    #[expect(clippy::inline_always, reason = "a response that another function looks at is copied once more")]
    #[inline(always)]
    fn judge(held: &mut Option<Self::Held>, result: &Result<Response<R>, E>) {
        if let Ok(response) = result {
            HeldCall::judge::<R, E, G::Refusal>(held, response);
        }
    }

    #[expect(clippy::inline_always, reason = "a response that another function looks at is copied once more")]
    #[inline(always)]
    fn respond(held: &mut Option<Self::Held>, result: Result<Response<R>, E>) -> Result<Self::Response, Self::Error> {
        HeldCall::finish(held, result)
    }

    #[inline]
    fn abandoned(held: Self::Held) {
        held.abandoned();
    }

    fn failed(error: E) -> Self::Error {
        W::not_called(CallError::Failed(error))
    }
}

impl<G: fmt::Debug, W, O> fmt::Debug for ClientGate<G, W, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientGate").field("gate", &self.gate).finish_non_exhaustive()
    }
}

/// Implements what the layers around a [`ClientGate`] have in common: they put services behind it.
///
/// The layer has two parameters, its gate and another, on which the completion depends.
macro_rules! client_layer {
    ($layer:ident<$gate:ident, $other:ident>, $completion:ty, $observer:ty, $service:ident, $field:literal) => {
        impl<$gate, $other> $layer<$gate, $other> {
            /// Returns the side of the layer, for a stack.
            pub(crate) const fn side(&self) -> &ClientGate<$gate, $completion, $observer> {
                &self.0
            }
        }

        impl<$gate: Gate + Clone, $other: Clone> $layer<$gate, $other> {
            /// Puts a service behind the gate.
            pub fn layer<S>(&self, service: S) -> $service<S, $gate, $other> {
                GateService::new(service, self.0.clone())
            }
        }

        impl<$gate, $other: Clone, S> tower_layer::Layer<S> for $layer<$gate, $other>
        where
            $gate: Gate<Wait: damper_core::gate::WaitsWith<S>> + Clone,
        {
            type Service = $service<S, $gate, $other>;

            fn layer(&self, service: S) -> Self::Service {
                self.layer(service)
            }
        }

        impl<$gate: core::fmt::Debug, $other> core::fmt::Debug for $layer<$gate, $other> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($layer)).field($field, &self.0.gate).finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use client_layer;
