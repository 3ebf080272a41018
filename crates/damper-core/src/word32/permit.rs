//! The permit of a breaker in 32 bits.

use super::CircuitBreaker32;
use crate::time::FixedFrequency;

/// The permit to make one call, which records its outcome, as a [`Permit`](crate::Permit) does.
#[derive(Debug)]
#[must_use = "a permit that is dropped at once records no outcome"]
pub struct Permit32<'a, C: FixedFrequency> {
    breaker: &'a CircuitBreaker32<C>,
    generation: u32,
    settled: bool,
}

impl<'a, C: FixedFrequency> Permit32<'a, C> {
    #[inline]
    pub(super) fn new(breaker: &'a CircuitBreaker32<C>, generation: u32) -> Self {
        Self { breaker, generation, settled: false }
    }

    /// Records a success.
    #[inline]
    pub fn success(mut self) {
        self.settled = true;
        self.breaker.succeeded(self.generation);
    }

    /// Records a failure.
    #[inline]
    pub fn failure(mut self) {
        self.settled = true;
        self.breaker.failed(self.generation);
    }

    /// Records that the call says nothing about the server: a probe's place becomes free.
    #[inline]
    pub fn ignore(mut self) {
        self.settled = true;
        self.breaker.released(self.generation);
    }

    /// Records a success for `Ok` and a failure for `Err`.
    #[inline]
    pub fn record_result<T, E>(self, result: &Result<T, E>) {
        if result.is_ok() { self.success() } else { self.failure() }
    }
}

impl<C: FixedFrequency> Drop for Permit32<'_, C> {
    fn drop(&mut self) {
        if !self.settled {
            self.breaker.abandoned(self.generation);
        }
    }
}
