//! Limiters that services share, and those that a call can wait for.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::pin::Pin;
use core::time::Duration;
use damper_core::limit::{Denied, Limiter, RateLimiter};
use damper_core::time::{Clock, Sleep};

/// A wait for tokens.
pub(super) type Wait = Pin<Box<dyn Future<Output = Result<(), Denied>> + Send>>;

/// A limiter that services share: every [`Limiter`] that is `Clone`, as references and `Arc`s are.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not implement `SharedLimiter`: put a limiter into a `static` and pass `&LIMITER`, or pass `Arc::new(limiter)`",
    note = "a `KeyedLimiter` decides for a key, which this layer does not have"
)]
pub trait SharedLimiter: Limiter + Clone {}

#[diagnostic::do_not_recommend]
impl<L: Limiter + Clone> SharedLimiter for L {}

/// A limiter that a call can wait for: `&'static RateLimiter` or `Arc<RateLimiter>`, with the token bucket.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not implement `WaitingLimiter`: a `&'static RateLimiter` or an `Arc<RateLimiter>` is",
    note = "other algorithms and sets of limits cannot be waited for: leave out `waiting`, and calls are refused"
)]
pub trait WaitingLimiter: SharedLimiter {
    /// Waits for `n` tokens, for at most `longest`.
    #[doc(hidden)]
    fn wait<Z>(self, n: u32, longest: Duration, sleep: Z) -> Pin<Box<dyn Future<Output = Result<(), Denied>> + Send>>
    where
        Z: Sleep<Sleeping: Send> + Send + 'static;
}

impl<C: Clock + Send + Sync + 'static> WaitingLimiter for &'static RateLimiter<damper_core::TokenBucket, C> {
    fn wait<Z: Sleep<Sleeping: Send> + Send + 'static>(self, n: u32, longest: Duration, sleep: Z) -> Wait {
        Box::pin(self.acquire(n).within(longest).sleeping_by(sleep))
    }
}

impl<C: Clock + Send + Sync + 'static> WaitingLimiter for Arc<RateLimiter<damper_core::TokenBucket, C>> {
    fn wait<Z: Sleep<Sleeping: Send> + Send + 'static>(self, n: u32, longest: Duration, sleep: Z) -> Wait {
        Box::pin(async move { self.acquire(n).within(longest).sleeping_by(sleep).await })
    }
}
