//! A breaker of your own, with telemetry.

use crate::telemetry::{Kind, Telemetry};
use core::fmt;
use core::ops::Deref;
use damper_core::breaker::{CircuitBreaker, CircuitOpen, OnStateChange};
use damper_core::gate::{AnswerOf, Ask, AtOnce, Gate};
use damper_core::time::Clock;

/// A breaker in a `static` or an `Arc`, whose calls are counted and logged under a name.
///
/// It is made by [`CircuitBreakerLayer::named`](super::CircuitBreakerLayer::named).
#[derive(Clone)]
pub struct NamedBreaker<B> {
    breaker: B,
    telemetry: Telemetry,
}

impl<B> NamedBreaker<B> {
    pub(super) fn new(breaker: B, name: &str) -> Self {
        Self { breaker, telemetry: Telemetry::new(Kind::Breaker, name) }
    }
}

impl<B: AtOnce + Gate<Refusal = CircuitOpen>> Gate for NamedBreaker<B> {
    type Permit = B::Permit;
    type Refusal = CircuitOpen;
    type Wait = B::Wait;

    #[inline]
    fn refusal(&self) -> Option<CircuitOpen> {
        self.breaker.refusal()
    }

    fn refused_unasked(&self, open: &CircuitOpen) {
        self.telemetry.record_open(open);
    }
}

impl<Q, B, C, L> Ask<Q> for NamedBreaker<B>
where
    Q: ?Sized,
    B: Ask<Q> + AtOnce + Gate<Refusal = CircuitOpen> + Deref<Target = CircuitBreaker<C, L>>,
    C: Clock,
    L: OnStateChange,
{
    #[inline]
    fn ask(&self, call: &Q) -> AnswerOf<Self> {
        let permit = self.breaker.ask(call).into_result();
        self.telemetry.record_call(&permit, || self.breaker.state());
        permit.into()
    }
}

#[cfg(feature = "metrics")]
impl<B: damper_metrics::Source> damper_metrics::Source for NamedBreaker<B> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.breaker.read(readings);
    }
}

#[cfg(feature = "metrics")]
impl<B: damper_metrics::Source> damper_metrics::NamedSource for NamedBreaker<B> {
    fn name(&self) -> &str {
        self.telemetry.name()
    }
}

impl<B: fmt::Debug> fmt::Debug for NamedBreaker<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedBreaker").field("breaker", &self.breaker).finish_non_exhaustive()
    }
}
