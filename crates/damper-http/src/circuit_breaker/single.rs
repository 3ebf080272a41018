//! A breaker for all requests that a layer makes itself.

use super::Breakers;
use super::host_listener::{HostListener, Listeners};
use crate::Head;
use alloc::sync::Arc;
use damper_core::breaker::{BreakerConfig, CircuitBreaker, CircuitOpen, Permit};
use damper_core::time::{DefaultClock, Monotonic};

/// One breaker for all requests. Made by [`CircuitBreakerLayer::one`](super::CircuitBreakerLayer::one).
#[derive(Clone, Debug)]
pub struct Single(Arc<Shared>);

/// In one `Arc`, because services are cloned often.
#[derive(Debug)]
struct Shared {
    breaker: Arc<CircuitBreaker<DefaultClock, HostListener>>,
    config: BreakerConfig,
    listeners: Arc<Listeners>,
}

impl Single {
    pub(super) fn new(config: BreakerConfig) -> Self {
        Self::told_to(config, Listeners::none())
    }

    fn told_to(config: BreakerConfig, listeners: Listeners) -> Self {
        let listeners = Arc::new(listeners);
        let breaker = CircuitBreaker::with_clock(config, Monotonic).with_listener(HostListener::new("", &listeners));
        Self(Arc::new(Shared { breaker: Arc::new(breaker), config, listeners }))
    }

    /// A new one that is told to others.
    pub(super) fn with_listeners(&self, change: impl FnOnce(&Listeners) -> Listeners) -> Self {
        Self::told_to(self.0.config, change(&self.0.listeners))
    }
}

impl Breakers for Single {
    type Breaker = Arc<CircuitBreaker<DefaultClock, HostListener>>;

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
