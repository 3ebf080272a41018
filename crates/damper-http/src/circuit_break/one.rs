//! A breaker for all requests that a layer makes itself.

use super::Breakers;
use super::told::{Listeners, Told};
use crate::Head;
use alloc::sync::Arc;
use damper_core::breaker::{BreakerConfig, CircuitBreaker, CircuitOpen, Permit};
use damper_core::clock::{DefaultClock, Monotonic};

/// One breaker for all requests. Made by [`CircuitBreakerLayer::one`](super::CircuitBreakerLayer::one).
#[derive(Clone, Debug)]
pub struct One(Arc<Shared>);

/// In one `Arc`, because services are cloned often.
#[derive(Debug)]
struct Shared {
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
        Self(Arc::new(Shared { breaker: Arc::new(breaker), config, listeners }))
    }

    /// A new one that is told to others.
    pub(super) fn with_listeners(&self, change: impl FnOnce(&Listeners) -> Listeners) -> Self {
        Self::told_to(self.0.config, change(&self.0.listeners))
    }
}

impl Breakers for One {
    type Breaker = Arc<CircuitBreaker<DefaultClock, Told>>;

    #[inline]
    fn try_acquire(&self, _: &Head<'_>) -> Result<Permit<Self::Breaker>, CircuitOpen> {
        let Shared { breaker, listeners, .. } = &*self.0;
        let permit = breaker.try_acquire_owned();
        listeners.telemetry.asked(&permit, || breaker.state());
        permit
    }

    #[inline]
    fn refusal(&self) -> Option<CircuitOpen> {
        self.0.breaker.refusal()
    }
}
