//! A breaker for all requests that a layer makes itself.

use super::Breakers;
use super::told::{Listeners, Told};
use crate::breaker::{BreakerConfig, CircuitBreaker, CircuitOpen, Permit};
use crate::clock::{DefaultClock, Monotonic};
use crate::http::Head;
use alloc::sync::Arc;

/// One breaker for all requests. Made by [`CircuitBreakerLayer::one`](super::CircuitBreakerLayer::one).
#[derive(Clone, Debug)]
pub struct One {
    breaker: Arc<CircuitBreaker<DefaultClock, Told>>,
    config: BreakerConfig,
    listeners: Arc<Listeners>,
}

impl One {
    pub(super) fn new(config: BreakerConfig) -> Self {
        Self::told_to(config, Listeners::none())
    }

    fn told_to(config: BreakerConfig, listeners: Listeners) -> Self {
        let listeners = Arc::new(listeners);
        let breaker = CircuitBreaker::with_clock(config, Monotonic).listened_to_by(Told::new("", &listeners));
        Self { breaker: Arc::new(breaker), config, listeners }
    }

    /// A new one that is told to others.
    pub(super) fn with_listeners(&self, change: impl FnOnce(&Listeners) -> Listeners) -> Self {
        Self::told_to(self.config, change(&self.listeners))
    }
}

impl Breakers for One {
    type Breaker = Arc<CircuitBreaker<DefaultClock, Told>>;

    #[inline]
    fn try_acquire(&self, _: &Head<'_>) -> Result<Permit<Self::Breaker>, CircuitOpen> {
        let permit = self.breaker.try_acquire_owned();
        self.listeners.telemetry.asked(&permit, || self.breaker.state());
        permit
    }
}
