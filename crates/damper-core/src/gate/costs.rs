//! Calls that cost more than one token.

use super::{AnswerOf, Ask, Forecast, Gate};
use crate::Reads;
use crate::limit::Limiter;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;

/// A gate whose calls may cost more than one token.
#[diagnostic::on_unimplemented(
    message = "calls have no cost at the gate `{Self}`",
    note = "limiters have tokens; a gate at which calls wait is asked about their cost inside: set the cost first, then the wait"
)]
pub trait AskCost<Q: ?Sized>: Gate {
    /// Decides whether this call of `tokens` tokens may pass.
    fn ask_cost(&self, call: &Q, tokens: u32) -> AnswerOf<Self>;

    /// Returns the answer that this call of `tokens` tokens would get now, and changes nothing.
    ///
    /// Default: [`Forecast::Unknown`].
    fn forecast_cost(&self, call: &Q, tokens: u32) -> Forecast<Self::Refusal> {
        _ = (call, tokens);
        Forecast::Unknown
    }
}

impl<L: Limiter + ?Sized, Q: ?Sized> AskCost<Q> for &L {
    #[inline]
    fn ask_cost(&self, _: &Q, tokens: u32) -> AnswerOf<Self> {
        self.try_acquire(tokens).into()
    }

    fn forecast_cost(&self, _: &Q, tokens: u32) -> Forecast<Self::Refusal> {
        (**self).forecast(tokens)
    }
}

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
impl<L: Limiter + ?Sized, Q: ?Sized> AskCost<Q> for Arc<L> {
    #[inline]
    fn ask_cost(&self, _: &Q, tokens: u32) -> AnswerOf<Self> {
        self.try_acquire(tokens).into()
    }

    fn forecast_cost(&self, _: &Q, tokens: u32) -> Forecast<Self::Refusal> {
        (**self).forecast(tokens)
    }
}

/// A gate whose calls cost as many tokens as a closure says.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::gate::{Ask, Costs};
/// use damper::{ManualClock, Quota, RateLimiter};
///
/// let bytes = RateLimiter::with_clock(Quota::per_second(1_000), ManualClock::new());
/// let gate = Costs::new(&bytes, |body: &[u8]| u32::try_from(body.len()).unwrap_or(u32::MAX));
/// assert!(gate.ask(&[0; 900][..]).is_pass());
/// assert!(!gate.ask(&[0; 101][..]).is_pass());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Costs<G, F> {
    pub(super) gate: G,
    pub(super) cost: F,
}

impl<G, F> Costs<G, F> {
    /// Creates a gate whose calls cost `cost(call)` tokens of `gate`.
    pub const fn new(gate: G, cost: F) -> Self {
        Self { gate, cost }
    }
}

impl<G: Gate, F> Gate for Costs<G, F> {
    type Permit = G::Permit;
    type Refusal = G::Refusal;
    type Wait = G::Wait;

    super::refuses_as! { gate }
}

impl<Q: ?Sized, G: AskCost<Q>, F: Reads<Q, u32>> Ask<Q> for Costs<G, F> {
    #[inline]
    fn ask(&self, call: &Q) -> AnswerOf<Self> {
        self.gate.ask_cost(call, self.cost.read_from(call))
    }

    fn forecast(&self, call: &Q) -> Forecast<G::Refusal> {
        self.gate.forecast_cost(call, self.cost.read_from(call))
    }
}
