//! The permission to make one call.

use super::CircuitBreaker;
use super::word::Generation;
use crate::clock::Clock;

/// A reference to a breaker that a [`Permit`] can hold: `&CircuitBreaker`, or `Arc<CircuitBreaker>` where the permit has
/// to outlive the borrow.
pub trait BreakerRef: sealed::Sealed {
    /// The breaker's clock.
    type Clock: Clock;

    /// The breaker.
    fn breaker(&self) -> &CircuitBreaker<Self::Clock>;
}

mod sealed {
    /// Permits are given by breakers only.
    pub trait Sealed {}
}

impl<C: Clock> sealed::Sealed for &CircuitBreaker<C> {}

impl<C: Clock> BreakerRef for &CircuitBreaker<C> {
    type Clock = C;

    #[inline]
    fn breaker(&self) -> &CircuitBreaker<C> {
        self
    }
}

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
impl<C: Clock> sealed::Sealed for alloc::sync::Arc<CircuitBreaker<C>> {}

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
impl<C: Clock> BreakerRef for alloc::sync::Arc<CircuitBreaker<C>> {
    type Clock = C;

    #[inline]
    fn breaker(&self) -> &CircuitBreaker<C> {
        self
    }
}

/// The permission to make one call, and the way to tell its outcome.
///
/// One outcome is told; a permit that is dropped tells none: a probe then gives its place back, and nothing is decided.
/// The outcome of a call that was permitted before the breaker's last change of state changes nothing.
#[derive(Debug)]
#[must_use = "a permit that is dropped at once tells no outcome"]
pub struct Permit<B: BreakerRef> {
    breaker: B,
    generation: Generation,
    settled: bool,
}

impl<B: BreakerRef> Permit<B> {
    #[inline]
    pub(super) fn new(breaker: B, generation: Generation) -> Self {
        Self { breaker, generation, settled: false }
    }

    /// The call succeeded.
    #[inline]
    pub fn success(mut self) {
        self.settled = true;
        self.breaker.breaker().succeeded(self.generation);
    }

    /// The call failed.
    #[inline]
    pub fn failure(mut self) {
        self.settled = true;
        self.breaker.breaker().failed(self.generation);
    }

    /// The call says nothing about what was called: as if it had not been made. The same as dropping the permit.
    #[inline]
    pub fn ignore(self) {}

    /// The call succeeded if it returned `Ok`, else it failed.
    #[inline]
    pub fn record<T, E>(self, result: &Result<T, E>) {
        match result {
            Ok(_) => self.success(),
            Err(_) => self.failure(),
        }
    }
}

impl<B: BreakerRef> Drop for Permit<B> {
    #[inline]
    fn drop(&mut self) {
        if !self.settled {
            self.breaker.breaker().released(self.generation);
        }
    }
}
