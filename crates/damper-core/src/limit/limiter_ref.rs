//! References to limiters.

use super::RateLimiter;
use super::algorithm::sealed::Sealed;
use crate::time::Clock;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;

/// A reference to a limiter that a [`Reservation`](super::Reservation) or a [`Lease`](super::Lease) can hold.
///
/// It is a plain reference, or an `Arc` if the reservation or the lease has to outlive the borrow. Other crates can
/// name the trait as a bound, but cannot implement it.
pub trait LimiterRef: Sealed {
    /// The limiter's algorithm.
    type Algorithm;

    /// The limiter's clock.
    type Clock: Clock;

    /// Returns the limiter.
    fn limiter(&self) -> &RateLimiter<Self::Algorithm, Self::Clock>;
}

impl<A, C: Clock> Sealed for &RateLimiter<A, C> {}

impl<A, C: Clock> LimiterRef for &RateLimiter<A, C> {
    type Algorithm = A;
    type Clock = C;

    #[inline]
    fn limiter(&self) -> &RateLimiter<A, C> {
        self
    }
}

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
impl<A, C: Clock> Sealed for Arc<RateLimiter<A, C>> {}

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
impl<A, C: Clock> LimiterRef for Arc<RateLimiter<A, C>> {
    type Algorithm = A;
    type Clock = C;

    #[inline]
    fn limiter(&self) -> &RateLimiter<A, C> {
        self
    }
}
