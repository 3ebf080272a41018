//! Limiters and keys that callers can wait for.

use super::TokensRequest;
use crate::acquire::awaited;
use crate::limit::algorithm::sealed::Sealed;
use crate::limit::{Denied, LimiterRef, RateLimiter, Reservation, TokenBucket};
use crate::time::Clock;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;
use core::time::Duration;

/// A limiter that serves the callers waiting for its tokens in order.
///
/// It is a [`RateLimiter`] or one key of a [`KeyedLimiter`](crate::KeyedLimiter). Other crates cannot implement this
/// trait.
pub trait Queue: Sealed {
    /// The tokens that a waiter has taken, which are its place in the queue.
    #[doc(hidden)]
    type Place: Place;

    /// Takes `n` tokens in advance, if they become available within `longest`.
    ///
    /// `None` sets no longest time.
    #[doc(hidden)]
    fn reserve(&self, n: u32, longest: Option<Duration>) -> Result<Self::Place, Denied>;
}

/// Tokens that were taken in advance.
#[doc(hidden)]
pub trait Place: Sized {
    /// Returns the time from now until the tokens may be used.
    ///
    /// It is `None` if the quota in force refills nothing, so that the tokens never become available.
    fn ready_in(&self) -> Option<Duration>;

    /// Blocks the thread until the tokens may be used.
    #[cfg(feature = "std")]
    fn wait(self);

    /// Gives the tokens back if possible, and returns whether it did.
    ///
    /// It is possible only while the tokens are not available yet, and only if no other tokens were taken since.
    fn cancel(self) -> bool;
}

awaited!([C: Clock] RateLimiter<TokenBucket, C>, TokensRequest);

impl<C: Clock> Queue for &RateLimiter<TokenBucket, C> {
    type Place = Reservation<Self>;

    fn reserve(&self, n: u32, longest: Option<Duration>) -> Result<Self::Place, Denied> {
        Reservation::new(*self, n, longest)
    }
}

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
impl<C: Clock> Queue for Arc<RateLimiter<TokenBucket, C>> {
    type Place = Reservation<Self>;

    fn reserve(&self, n: u32, longest: Option<Duration>) -> Result<Self::Place, Denied> {
        Reservation::new(Self::clone(self), n, longest)
    }
}

impl<L: LimiterRef<Algorithm = TokenBucket>> Place for Reservation<L> {
    fn ready_in(&self) -> Option<Duration> {
        Self::ready_in(self)
    }

    #[cfg(feature = "std")]
    fn wait(self) {
        Self::wait(&self);
    }

    fn cancel(self) -> bool {
        Self::cancel(self)
    }
}
