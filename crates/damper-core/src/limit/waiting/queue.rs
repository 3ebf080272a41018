//! Queues that a caller can wait in.

use super::TokensRequest;
use crate::acquire::awaited;
use crate::limit::algorithm::sealed::Sealed;
use crate::limit::{Denied, LimiterRef, RateLimiter, Reservation, TokenBucket};
use crate::time::Clock;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;
use core::time::Duration;

/// A queue that serves its waiters in order.
///
/// It is a [`RateLimiter`] or one key of a [`KeyedLimiter`](crate::KeyedLimiter). No other crate can name
/// the trait, so all queues are damper's own.
pub trait Queue: Sealed {
    /// A place in the queue.
    #[doc(hidden)]
    type Place: Place;

    /// Takes `n` tokens in advance, if they become available within `longest`.
    #[doc(hidden)]
    fn reserve(&self, n: u32, longest: Option<Duration>) -> Result<Self::Place, Denied>;
}

/// Tokens that were taken in advance.
#[doc(hidden)]
pub trait Place: Sized {
    /// Returns the time from now until the tokens may be used.
    ///
    /// It returns `None` if they never may be, under the quota in force.
    fn ready_in(&self) -> Option<Duration>;

    /// Blocks the thread until the tokens may be used.
    #[cfg(feature = "std")]
    fn wait(self);

    /// Gives the tokens back, and returns whether it did.
    ///
    /// It does so if no other tokens were taken since, and these are not available yet.
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
