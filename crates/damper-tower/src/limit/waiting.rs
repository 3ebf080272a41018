//! Whether a call without tokens waits, and what can wait.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::pin::Pin;
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::limit::{Denied, Limiter, RateLimiter};
use damper_core::time::{Clock, Sleep};

/// A wait for tokens.
pub(super) type Wait = Pin<Box<dyn Future<Output = Result<(), Denied>> + Send>>;

/// Refuses calls without tokens.
#[derive(Clone, Copy, Debug)]
pub struct Refusing<L>(pub(super) L);

/// Lets calls wait for tokens.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<L, Z, D = NoDeadline> {
    pub(super) limiter: L,
    pub(super) longest: Duration,
    pub(super) sleep: Z,
    pub(super) find_deadline: D,
}

/// Finds the deadline of a request, which bounds its wait.
///
/// Every closure with this argument implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not find the deadline of a `{R}`",
    note = "a closure has the form `|request: &{R}| -> Option<damper::Deadline>`"
)]
pub trait FindDeadline<R> {
    /// Returns the deadline of a request, if it has one.
    fn deadline(&self, request: &R) -> Option<Deadline>;
}

impl<R, F: Fn(&R) -> Option<Deadline>> FindDeadline<R> for F {
    #[inline]
    fn deadline(&self, request: &R) -> Option<Deadline> {
        self(request)
    }
}

/// Requests have no deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NoDeadline;

impl<R> FindDeadline<R> for NoDeadline {
    #[inline]
    fn deadline(&self, _: &R) -> Option<Deadline> {
        None
    }
}

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
    /// Waits for a token, for at most `longest`.
    #[doc(hidden)]
    fn wait<Z>(self, longest: Duration, sleep: Z) -> Pin<Box<dyn Future<Output = Result<(), Denied>> + Send>>
    where
        Z: Sleep<Sleeping: Send> + Send + 'static;
}

impl<C: Clock + Send + Sync + 'static> WaitingLimiter for &'static RateLimiter<damper_core::TokenBucket, C> {
    fn wait<Z: Sleep<Sleeping: Send> + Send + 'static>(self, longest: Duration, sleep: Z) -> Wait {
        Box::pin(self.acquire(1).within(longest).sleeping_by(sleep))
    }
}

impl<C: Clock + Send + Sync + 'static> WaitingLimiter for Arc<RateLimiter<damper_core::TokenBucket, C>> {
    fn wait<Z: Sleep<Sleeping: Send> + Send + 'static>(self, longest: Duration, sleep: Z) -> Wait {
        Box::pin(async move { self.acquire(1).within(longest).sleeping_by(sleep).await })
    }
}

/// A service that can be called after a wait: every one that is `Clone`.
#[diagnostic::on_unimplemented(
    message = "the service `{Self}` is not `Clone`, so it cannot be called after a wait for tokens",
    note = "put tower's `BufferLayer` between this layer and the service, or call `boxed_clone` before the type is lost",
    note = "a `LimitLayer` without `waiting` takes every service"
)]
pub trait WaitingService: Clone {}

#[diagnostic::do_not_recommend]
impl<S: Clone> WaitingService for S {}
