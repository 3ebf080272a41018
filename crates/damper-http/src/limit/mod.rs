//! What decides on a request.

// | file | decides |
// |---|---|
// | `refusal` | what a request is told that may not pass |
// | `global` | by one limiter for all |
// | `by_key` | by a key that a closure or a header tells |
// | `per_client` | by the client's address |
// | `prefix` | by the client's address and the networks that it is in, together |
// | `keyed_status` | what a limit per key holds and has counted |
// | `wait` | by one limiter for all, waiting |

mod by_key;
mod global;
mod keyed_status;
mod per_client;
mod prefix;
mod refusal;
#[cfg(feature = "tokio")]
mod wait;

pub use by_key::{ByHeader, ByKey};
pub use keyed_status::KeyedStatus;
pub use per_client::PerClient;
pub(super) use prefix::Prefix;
pub use refusal::{LimitError, Limited, Refusal};
#[cfg(feature = "tokio")]
pub use wait::{Wait, WaitFuture};

use super::Head;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use damper_core::quota::Quota;

/// Decides whether requests may pass: what a [`RateLimitLayer`](super::RateLimitLayer) is made of.
///
/// Limiters are limits for all requests, [`PerClient`], [`ByKey`] and [`ByHeader`] for each key, and so are references to
/// limits. Write your own for what is decided elsewhere, such as by a store that several servers share.
///
/// # Examples
///
/// Writes are limited, and reads pass:
///
/// ```
/// # mod damper { pub use damper_core::*; pub use damper_http as http; pub use damper_http::wire; }
/// use damper::RateLimiter;
/// use damper::http::{Answer, Decision, Head, Limit};
/// use http::Method;
///
/// struct Writes(RateLimiter);
///
/// impl Limit for Writes {
///     type Later = std::future::Ready<Answer>; // never: it decides at once
///
///     fn decide(&self, head: &Head<'_>, tell: bool) -> Decision<Self::Later> {
///         if head.method == Method::GET { Decision::Now(Ok(None)) } else { self.0.decide(head, tell) }
///     }
/// }
/// ```
pub trait Limit {
    /// A decision that takes its time; `std::future::Ready<Answer>` for what never needs any.
    type Later: Future<Output = Answer>;

    /// Decides on a request, and takes what it needs.
    ///
    /// `tell` asks an answer that allows to say how the limit stands, for headers; a refusal always does.
    fn decide(&self, head: &Head<'_>, tell: bool) -> Decision<Self::Later>;

    /// The key of a request as a text, for logs of refusals. Default: none.
    fn key(&self, head: &Head<'_>) -> Option<String> {
        let _ = head;
        None
    }

    /// Returns what each of its limits per key holds and has counted, for metrics. Default: none.
    ///
    /// A [`KeyedStatus::of`] a limiter. The first has no `prefix`, and each of the others one of its own.
    fn keyed(&self) -> Vec<KeyedStatus> {
        Vec::new()
    }
}

/// What a limit says to a request: it may pass, and how the limit stands if that was asked; or it may not.
pub type Answer = Result<Option<Standing>, Refusal>;

/// A decision that is there, or one that takes its time.
///
/// While the latter does, the service holds the request and a clone of what it would call. Nothing is held for the
/// former.
#[derive(Debug)]
pub enum Decision<F> {
    /// It is there.
    Now(Answer),
    /// It will be there when the future is ready.
    Later(F),
}

/// How a limit stood after a decision: what headers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Standing {
    /// The quota that decided.
    pub quota: Quota,
    /// The tokens that are left, rounded down.
    pub remaining: u32,
    /// The time until all tokens are there; `None` if they never will be.
    pub resets_in: Option<Duration>,
}

impl Standing {
    /// So much is left of this quota.
    #[must_use]
    pub fn new(quota: Quota, remaining: u32, resets_in: Option<Duration>) -> Self {
        Self { quota, remaining, resets_in }
    }
}

impl<L: Limit + ?Sized> Limit for &L {
    type Later = L::Later;

    #[inline]
    fn decide(&self, head: &Head<'_>, tell: bool) -> Decision<L::Later> {
        (**self).decide(head, tell)
    }

    fn key(&self, head: &Head<'_>) -> Option<String> {
        (**self).key(head)
    }

    fn keyed(&self) -> Vec<KeyedStatus> {
        (**self).keyed()
    }
}

impl<L: Limit + ?Sized> Limit for Arc<L> {
    type Later = L::Later;

    #[inline]
    fn decide(&self, head: &Head<'_>, tell: bool) -> Decision<L::Later> {
        (**self).decide(head, tell)
    }

    fn key(&self, head: &Head<'_>) -> Option<String> {
        (**self).key(head)
    }

    fn keyed(&self) -> Vec<KeyedStatus> {
        (**self).keyed()
    }
}
