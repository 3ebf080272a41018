//! The gates of a client's stack, before one service.

use super::stack_part::Place;
use super::{PartErrors, StackError, StackErrorService};
use crate::completion::{Completion, HeldCall, Pending};
use crate::telemetry::Observe;
use crate::{ClientGate, Head};
use core::fmt;
use core::marker::PhantomData;
use damper_core::CallError;
use damper_core::gate::{Answer, AnswerOf, Ask, AtOnce, Either, Gate, Permit, Refusal, Verdict};
use damper_tower::GateService;
use damper_tower::internal::{Side, Stand, Unwinding};
use http::{Request, Response};

/// The gates of a stack with nothing between them, before one service.
///
/// A call does what it would do through a service for each gate, but it is one future, and its response is passed on once. The errors are those
/// of the stack, by the protocol `P`.
pub struct StackSide<G, P> {
    gates: G,
    protocol: PhantomData<fn() -> P>,
}

impl<G, P> StackSide<G, P> {
    const fn new(gates: G) -> Self {
        Self { gates, protocol: PhantomData }
    }
}

impl<G: Clone, P> Clone for StackSide<G, P> {
    fn clone(&self) -> Self {
        Self::new(self.gates.clone())
    }
}

impl<G: StackGates, P> Stand for StackSide<G, P> {
    type Gate = G;

    #[inline]
    fn gate(&self) -> &G {
        &self.gates
    }
}

impl<G, P, B, R> Side<Request<B>, Response<R>, StackError> for StackSide<G, P>
where
    G: StackGates<Held: HeldGates<R, P, Refusal = G::Refusal>>,
{
    type Held = G::Held;
    type Refused = G::Refusal;
    type Response = Response<<G::Held as HeldGates<R, P>>::Body>;
    type Error = StackError;

    #[inline]
    fn ask(&self, request: &Request<B>) -> AnswerOf<G> {
        self.gates.ask(&Head::of(request))
    }

    #[inline]
    fn hold(&self, permit: G::Permit, request: &Request<B>) -> G::Held {
        self.gates.hold(permit, &Head::of(request))
    }

    #[cold]
    fn refuse(&self, refusal: G::Refusal, request: &Request<B>) -> G::Refusal {
        self.gates.observe(&refusal, &Head::of(request));
        refusal
    }

    fn refused(refused: G::Refusal) -> Result<Self::Response, StackError> {
        Err(G::Held::refused(refused))
    }

    #[expect(clippy::inline_always, reason = "a response that another function looks at is copied once more")]
    #[inline(always)]
    fn judge(held: &mut Option<G::Held>, result: &Result<Response<R>, StackError>) {
        if let (Some(held), Ok(response)) = (held, result) {
            held.judge(response);
        }
    }

    #[expect(clippy::inline_always, reason = "a response that another function looks at is copied once more")]
    #[inline(always)]
    fn respond(
        held: &mut Option<G::Held>,
        result: Result<Response<R>, StackError>,
    ) -> Result<Self::Response, StackError> {
        match result {
            Ok(response) => Ok(G::Held::respond(held.take(), response)),
            Err(error) => Err(fail::<G::Held, R, P>(held, error)),
        }
    }

    #[inline]
    fn abandoned(held: G::Held) {
        HeldGates::<R, P>::abandoned(held);
    }

    /// Returns an error of the service's readiness. No gate is told of it.
    fn failed(error: StackError) -> StackError {
        G::Held::pass_on(error)
    }
}

/// Tells the permits of the error of a call, and returns what the caller gets.
#[cold]
fn fail<H: HeldGates<R, P>, R, P>(held: &mut Option<H>, error: StackError) -> StackError {
    let mut watch = Unwinding::watch(held);
    let error = match watch.permit() {
        Some(held) => held.fail(error),
        None => error,
    };
    watch.over();
    *held = None;
    error
}

impl<G: fmt::Debug, P> fmt::Debug for StackSide<G, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.gates.fmt(f)
    }
}

/// One or several gates of a stack, from the outside in, which decide as one.
///
/// No call waits at them. Each counts the calls that it lets pass, even if one behind it refuses them.
pub trait StackGates: for<'a> Ask<Head<'a>> + Clone {
    /// The permits of a call, with the rules by which it is judged.
    type Held: Permit;

    /// Takes what the end of the call needs.
    fn hold(&self, permit: Self::Permit, head: &Head<'_>) -> Self::Held;

    /// Counts and logs a refusal.
    fn observe(&self, refusal: &Self::Refusal, head: &Head<'_>);
}

/// The permits of a call, which gets a response with the body `R`, by the protocol `P`.
pub trait HeldGates<R, P>: Permit {
    /// The refusals of the gates.
    type Refusal;

    /// The body that the caller gets.
    type Body;

    /// Tells the permits what the head of the response says.
    fn judge(&mut self, response: &Response<R>);

    /// Returns the response that the caller gets, with the permits that hold on.
    fn respond(held: Option<Self>, response: Response<R>) -> Response<Self::Body>;

    /// Tells the permits of the error of the call, from the inside out, and returns what the caller gets.
    fn fail(&mut self, error: StackError) -> StackError;

    /// Returns the error of a call that a gate refused.
    fn refused(refusal: Self::Refusal) -> StackError;

    /// Passes on an error from inside. No permit is told of it.
    fn pass_on(error: StackError) -> StackError;

    /// Ends a call that was given up before its response.
    fn abandoned(self);
}

/// A gate of a stack in the place `K`.
pub struct PlacedGate<G, W, O, K> {
    gate: ClientGate<G, W, O>,
    place: PhantomData<fn() -> K>,
}

impl<G, W, O, K> PlacedGate<G, W, O, K> {
    pub(super) const fn new(gate: ClientGate<G, W, O>) -> Self {
        Self { gate, place: PhantomData }
    }
}

impl<G: Clone, W: Clone, O: Clone, K> Clone for PlacedGate<G, W, O, K> {
    fn clone(&self) -> Self {
        Self { gate: self.gate.clone(), place: PhantomData }
    }
}

impl<G: Gate, W, O, K> Gate for PlacedGate<G, W, O, K> {
    type Permit = G::Permit;
    type Refusal = G::Refusal;
    type Wait = G::Wait;

    #[inline]
    fn refusal(&self) -> Option<G::Refusal> {
        self.gate.gate.refusal()
    }

    #[inline]
    fn refused_unasked(&self, refusal: &G::Refusal) {
        self.gate.gate.refused_unasked(refusal);
    }
}

impl<Q: ?Sized, G: Ask<Q>, W, O: Observe<G::Refusal>, K> Ask<Q> for PlacedGate<G, W, O, K> {
    #[inline]
    fn ask(&self, call: &Q) -> AnswerOf<G> {
        let answer = self.gate.gate.ask(call);
        if let Answer::Pass(permit) = &answer {
            self.gate.count(permit);
        }
        answer
    }
}

impl<G, W, O, K> StackGates for PlacedGate<G, W, O, K>
where
    G: for<'a> Ask<Head<'a>> + Clone,
    W: Clone,
    O: Observe<G::Refusal> + Clone,
{
    type Held = HeldInPlace<G::Permit, W, G::Refusal, K>;

    #[inline]
    fn hold(&self, permit: G::Permit, head: &Head<'_>) -> Self::Held {
        HeldInPlace { call: Some(self.gate.held(permit, head)), place: PhantomData }
    }

    fn observe(&self, refusal: &G::Refusal, head: &Head<'_>) {
        self.gate.observer.refused(head, refusal);
    }
}

impl<G: fmt::Debug, W, O, K> fmt::Debug for PlacedGate<G, W, O, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.gate.fmt(f)
    }
}

/// The permit of a gate in the place `K`, whose refusals are of the type `N`.
#[derive(Debug)]
pub struct HeldInPlace<Q, W, N, K> {
    call: Pending<Q, W>,
    place: PhantomData<fn() -> (N, K)>,
}

impl<Q: Permit, W, N, K> Permit for HeldInPlace<Q, W, N, K> {
    const LEARNS: bool = Q::LEARNS;
    const HOLDS: bool = Q::HOLDS;

    #[inline]
    fn end(self, verdict: &Verdict) {
        self.call.end(verdict);
    }

    #[inline]
    fn panicked(self) {
        self.call.panicked();
    }
}

impl<Q, W, N, K, R, P> HeldGates<R, P> for HeldInPlace<Q, W, N, K>
where
    Q: Permit,
    W: Completion<R, StackError, N>,
    N: Refusal,
    K: Place,
    P: PartErrors<W::Error>,
{
    type Refusal = N;
    type Body = W::Body<Q>;

    #[expect(clippy::inline_always, reason = "a response that another function looks at is copied once more")]
    #[inline(always)]
    fn judge(&mut self, response: &Response<R>) {
        HeldCall::judge::<R, StackError, N>(&mut self.call, response);
    }

    #[expect(clippy::inline_always, reason = "a response that another function looks at is copied once more")]
    #[inline(always)]
    fn respond(held: Option<Self>, response: Response<R>) -> Response<W::Body<Q>> {
        HeldCall::respond::<R, StackError, N>(held.and_then(|held| held.call), response)
    }

    fn fail(&mut self, error: StackError) -> StackError {
        P::part_error(K::PART, HeldCall::fail::<R, StackError, N>(&mut self.call, error))
    }

    fn refused(refusal: N) -> StackError {
        let wait = refusal.retry_after();
        P::part_error(K::PART, W::not_called(CallError::Refused(refusal))).or_retry_after(wait)
    }

    fn pass_on(error: StackError) -> StackError {
        P::part_error(K::PART, W::not_called(CallError::Failed(error)))
    }

    #[inline]
    fn abandoned(self) {
        if let Some(call) = self.call {
            call.abandoned();
        }
    }
}

/// A gate before one or several others.
impl<X: StackGates + AtOnce, Y: StackGates> StackGates for (X, Y) {
    type Held = (X::Held, Y::Held);

    #[inline]
    fn hold(&self, (outer, inner): Self::Permit, head: &Head<'_>) -> Self::Held {
        (self.0.hold(outer, head), self.1.hold(inner, head))
    }

    fn observe(&self, refusal: &Self::Refusal, head: &Head<'_>) {
        match refusal {
            Either::First(refusal) => self.0.observe(refusal, head),
            Either::Second(refusal) => self.1.observe(refusal, head),
        }
    }
}

/// The permits of a gate and of those behind it.
impl<A, B, R, P> HeldGates<R, P> for (A, B)
where
    B: HeldGates<R, P>,
    A: HeldGates<R, P> + HeldGates<B::Body, P, Refusal = <A as HeldGates<R, P>>::Refusal>,
{
    type Refusal = Either<<A as HeldGates<R, P>>::Refusal, B::Refusal>;
    type Body = <A as HeldGates<B::Body, P>>::Body;

    #[expect(clippy::inline_always, reason = "a response that another function looks at is copied once more")]
    #[inline(always)]
    fn judge(&mut self, response: &Response<R>) {
        self.1.judge(response);
        HeldGates::<R, P>::judge(&mut self.0, response);
    }

    #[expect(clippy::inline_always, reason = "a response that another function looks at is copied once more")]
    #[inline(always)]
    fn respond(held: Option<Self>, response: Response<R>) -> Response<Self::Body> {
        let (outer, inner) = held.unzip();
        <A as HeldGates<B::Body, P>>::respond(outer, B::respond(inner, response))
    }

    fn fail(&mut self, error: StackError) -> StackError {
        let error = self.1.fail(error);
        HeldGates::<R, P>::fail(&mut self.0, error)
    }

    fn refused(refusal: Self::Refusal) -> StackError {
        match refusal {
            Either::First(refusal) => <A as HeldGates<R, P>>::refused(refusal),
            Either::Second(refusal) => <A as HeldGates<R, P>>::pass_on(B::refused(refusal)),
        }
    }

    fn pass_on(error: StackError) -> StackError {
        <A as HeldGates<R, P>>::pass_on(B::pass_on(error))
    }

    #[inline]
    fn abandoned(self) {
        HeldGates::<R, P>::abandoned(self.0);
        self.1.abandoned();
    }
}

/// A service inside of a client's stack, before which a gate is put.
///
/// Gates with nothing between them stand before one service.
pub trait Inside<P> {
    /// The service behind the gate.
    type Behind<X: StackGates + AtOnce>;

    /// Puts the service behind a gate.
    fn behind<X: StackGates + AtOnce>(self, gate: X) -> Self::Behind<X>;
}

impl<S, M, P> Inside<P> for StackErrorService<S, M> {
    type Behind<X: StackGates + AtOnce> = GateService<Self, StackSide<X, P>>;

    fn behind<X: StackGates + AtOnce>(self, gate: X) -> Self::Behind<X> {
        GateService::new(self, StackSide::new(gate))
    }
}

impl<S, Y: StackGates, P> Inside<P> for GateService<S, StackSide<Y, P>> {
    type Behind<X: StackGates + AtOnce> = GateService<S, StackSide<(X, Y), P>>;

    fn behind<X: StackGates + AtOnce>(self, outer: X) -> Self::Behind<X> {
        let (service, StackSide { gates: inner, .. }) = self.into_parts();
        GateService::new(service, StackSide::new((outer, inner)))
    }
}
