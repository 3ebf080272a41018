//! One breaker for all requests, which its layer creates.

use super::Breakers;
use super::host_listener::{HostListener, LayerListener};
use crate::Head;
use alloc::sync::Arc;
use damper_core::breaker::{BreakerConfig, CircuitBreaker, CircuitOpen, Permit};
use damper_core::time::{DefaultClock, Monotonic};

/// One breaker for all requests. Made by
/// [`CircuitBreakerLayer::single`](super::CircuitBreakerLayer::single).
#[derive(Clone, Debug)]
pub struct Single(Arc<SingleInner>);

/// In one `Arc`, because services are cloned often.
#[derive(Debug)]
struct SingleInner {
    breaker: Arc<CircuitBreaker<DefaultClock, HostListener>>,
    config: BreakerConfig,
    listener: Arc<LayerListener>,
}

impl Single {
    pub(super) fn new(config: BreakerConfig) -> Self {
        Self::with(config, LayerListener::unnamed())
    }

    fn with(config: BreakerConfig, listener: LayerListener) -> Self {
        let listener = Arc::new(listener);
        let breaker = CircuitBreaker::with_clock(config, Monotonic).with_listener(HostListener::new("", &listener));
        Self(Arc::new(SingleInner { breaker: Arc::new(breaker), config, listener }))
    }

    /// Returns a new breaker with another listener.
    pub(super) fn with_listener(&self, change: impl FnOnce(&LayerListener) -> LayerListener) -> Self {
        Self::with(self.0.config, change(&self.0.listener))
    }
}

impl Breakers for Single {
    type Breaker = Arc<CircuitBreaker<DefaultClock, HostListener>>;

    #[inline]
    fn try_acquire(&self, _: &Head<'_>) -> Result<Permit<Self::Breaker>, CircuitOpen> {
        let SingleInner { breaker, listener, .. } = &*self.0;
        let permit = breaker.try_acquire_owned();
        listener.telemetry.record_call(&permit, || breaker.state());
        permit
    }

    #[inline]
    fn refusal(&self) -> Option<CircuitOpen> {
        self.0.breaker.refusal()
    }
}
