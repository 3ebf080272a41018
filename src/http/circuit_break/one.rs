//! A breaker for all requests that a layer makes itself.

use super::Breakers;
use super::told::{Hook, Told};
use crate::breaker::{BreakerConfig, CircuitBreaker, CircuitOpen, Permit};
use crate::clock::{DefaultClock, Monotonic};
use crate::http::Head;
use alloc::sync::Arc;

/// One breaker for all requests. Made by [`CircuitBreakerLayer::one`](super::CircuitBreakerLayer::one).
#[derive(Clone, Debug)]
pub struct One {
    breaker: Arc<CircuitBreaker<DefaultClock, Told>>,
    config: BreakerConfig,
}

impl One {
    pub(super) fn new(config: BreakerConfig, hook: Option<Hook>) -> Self {
        let breaker = CircuitBreaker::with_clock(config, Monotonic).listened_to_by(Told::new("", hook));
        Self { breaker: Arc::new(breaker), config }
    }

    pub(super) fn told_by(&self, hook: Hook) -> Self {
        Self::new(self.config, Some(hook))
    }
}

impl Breakers for One {
    type Breaker = Arc<CircuitBreaker<DefaultClock, Told>>;

    #[inline]
    fn try_acquire(&self, _: &Head<'_>) -> Result<Permit<Self::Breaker>, CircuitOpen> {
        self.breaker.try_acquire_owned()
    }
}
