//! Breakers in shadow mode.

use super::Breakers;
use crate::Head;
use alloc::sync::Arc;
use damper_core::breaker::{CircuitOpen, Permit};
use damper_core::internal::join_permits;
use damper_core::shadow::{ShadowCounts, ShadowReport, ShadowedRef};

/// Breakers in force, and candidates that decide beside them on the same calls.
///
/// Made by [`CircuitBreakerLayer::shadow`](super::CircuitBreakerLayer::shadow). Clones share both, and the counts.
#[derive(Clone, Debug)]
pub struct ShadowedBreakers<B, S> {
    in_force: B,
    candidates: S,
    counts: Arc<ShadowCounts>,
}

impl<B, S> ShadowedBreakers<B, S> {
    pub(super) fn new(in_force: B, candidates: S) -> Self {
        Self { in_force, candidates, counts: Arc::new(ShadowCounts::new()) }
    }

    /// The breakers in force.
    pub const fn in_force(&self) -> &B {
        &self.in_force
    }

    /// The candidates.
    pub const fn candidates(&self) -> &S {
        &self.candidates
    }

    /// Returns the refusals so far: by both, by the candidate only, and in force only.
    #[must_use]
    pub fn report(&self) -> ShadowReport {
        self.counts.report()
    }
}

/// The breakers in force, and the refusals of both.
#[cfg(feature = "metrics")]
impl<B: damper_metrics::Source, S> damper_metrics::Source for ShadowedBreakers<B, S> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.in_force.read(readings);
        readings.record_shadow(self.report());
    }
}

#[cfg(feature = "metrics")]
impl<B: damper_metrics::NamedSource, S> damper_metrics::NamedSource for ShadowedBreakers<B, S> {
    fn name(&self) -> &str {
        self.in_force.name()
    }
}

impl<B: Breakers, S: Breakers> Breakers for ShadowedBreakers<B, S> {
    type Breaker = ShadowedRef<B::Breaker, S::Breaker>;

    fn try_acquire(&self, head: &Head<'_>) -> Result<Permit<Self::Breaker>, CircuitOpen> {
        join_permits(self.in_force.try_acquire(head), self.candidates.try_acquire(head), &self.counts)
    }

    /// Returns the refusal by the breakers in force.
    #[inline]
    fn refusal(&self) -> Option<CircuitOpen> {
        self.in_force.refusal()
    }

    fn record_refusal(&self, open: &CircuitOpen) {
        self.in_force.record_refusal(open);
    }
}
