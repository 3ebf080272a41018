//! Gates that not every call is asked at: some calls are exempt, or there is no gate.

use super::{Answer, AnswerOf, Ask, Forecast, Gate, WaitFor};
use crate::Reads;

/// A gate that lets some calls pass without asking it.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::Bulkhead;
/// use damper::gate::{Ask, Exempt};
///
/// static NONE: Bulkhead<damper::ManualClock> = Bulkhead::with_clock(0, damper::ManualClock::new());
///
/// let gate = Exempt::new(&NONE, |path: &str| path == "/healthz");
/// assert!(!gate.ask("/").is_pass());
/// assert!(gate.ask("/healthz").is_pass());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Exempt<G, F> {
    gate: G,
    is_exempt: F,
}

impl<G, F> Exempt<G, F> {
    /// Creates a gate that asks `gate` unless `is_exempt(call)`.
    pub const fn new(gate: G, is_exempt: F) -> Self {
        Self { gate, is_exempt }
    }

    /// Returns the gate that the other calls are asked at.
    pub const fn gate(&self) -> &G {
        &self.gate
    }

    /// Returns another gate with the same exemptions.
    #[must_use]
    pub fn with_gate<N>(&self, gate: N) -> Exempt<N, F>
    where
        F: Clone,
    {
        Exempt { gate, is_exempt: self.is_exempt.clone() }
    }
}

/// It has no refusal in advance, because the next call may be exempt.
impl<G: Gate, F> Gate for Exempt<G, F> {
    type Permit = Option<G::Permit>;
    type Refusal = G::Refusal;
    type Wait = WaitFor<G::Wait, Option<G::Permit>>;
}

impl<Q: ?Sized, G: Ask<Q>, F: Reads<Q, bool>> Ask<Q> for Exempt<G, F> {
    #[inline]
    fn ask(&self, call: &Q) -> AnswerOf<Self> {
        if self.is_exempt.read_from(call) { Answer::Pass(None) } else { asked(self.gate.ask(call)) }
    }

    fn forecast(&self, call: &Q) -> Forecast<G::Refusal> {
        if self.is_exempt.read_from(call) { Forecast::Pass(None) } else { self.gate.forecast(call) }
    }
}

/// A gate that may be absent: without it every call passes.
impl<G: Gate> Gate for Option<G> {
    type Permit = Option<G::Permit>;
    type Refusal = G::Refusal;
    type Wait = WaitFor<G::Wait, Option<G::Permit>>;

    #[inline]
    fn refusal(&self) -> Option<G::Refusal> {
        self.as_ref()?.refusal()
    }

    #[inline]
    fn refused_unasked(&self, refusal: &G::Refusal) {
        if let Some(gate) = self {
            gate.refused_unasked(refusal);
        }
    }
}

impl<Q: ?Sized, G: Ask<Q>> Ask<Q> for Option<G> {
    #[inline]
    fn ask(&self, call: &Q) -> AnswerOf<Self> {
        match self {
            None => Answer::Pass(None),
            Some(gate) => asked(gate.ask(call)),
        }
    }

    fn forecast(&self, call: &Q) -> Forecast<G::Refusal> {
        self.as_ref().map_or(Forecast::Pass(None), |gate| gate.forecast(call))
    }
}

/// Returns the answer of a gate that not every call is asked at.
#[inline]
fn asked<P, W, R>(answer: Answer<P, W, R>) -> Answer<Option<P>, WaitFor<W, Option<P>>, R> {
    answer.map(Some, WaitFor::new, |refusal| refusal)
}
