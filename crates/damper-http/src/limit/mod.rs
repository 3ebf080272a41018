//! What decides on a request.

// | file | decides |
// |---|---|
// | `decision` | answers: an allowed request, or a refusal; at once, or later |
// | `refusal` | why a request may not pass |
// | `global` | by one limiter for all requests |
// | `keyed` | by the limiter of a key: what the next three share |
// | `by_key` | by a key that a closure returns |
// | `by_header` | by the value of a header |
// | `per_client` | by the client's address |
// | `prefix` | by the client's address and the networks that it is in, together |
// | `wait` | by one limiter for all requests, waiting |

mod by_header;
mod by_key;
mod decision;
mod global;
mod keyed;
mod per_client;
mod prefix;
mod refusal;
#[cfg(feature = "tokio")]
mod wait;

pub use by_header::ByHeader;
pub use by_key::ByKey;
pub use decision::{Answer, Decision, Detail, Standing};
pub use keyed::KeyedStatus;
pub use per_client::PerClient;
pub(super) use prefix::Prefix;
pub use refusal::{LimitError, Limited, Refusal};
#[cfg(feature = "tokio")]
pub use wait::{Wait, WaitFuture};

use super::Head;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Decides whether requests may pass: what a [`RateLimitLayer`](super::RateLimitLayer) is made of.
///
/// A limiter is one limit for all requests. [`PerClient`], [`ByKey`] and [`ByHeader`] have one for each key. References
/// to limits are limits too. Write your own for what is decided elsewhere, such as by a store that several servers
/// share.
///
/// # Examples
///
/// Limits writes, and lets reads pass:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::RateLimiter;
/// use damper::http::{Answer, Decision, Detail, Head, Limit};
/// use http::Method;
///
/// struct Writes(RateLimiter);
///
/// impl Limit for Writes {
///     type Future = std::future::Ready<Answer>; // unused: it decides at once
///
///     fn decide(&self, head: &Head<'_>, detail: Detail) -> Decision<Self::Future> {
///         if head.method == Method::GET { Decision::Now(Ok(None)) } else { self.0.decide(head, detail) }
///     }
/// }
/// ```
pub trait Limit {
    /// The future of a decision that is not made at once; `std::future::Ready<Answer>` if all are.
    type Future: Future<Output = Answer>;

    /// Decides on a request, and takes what it needs.
    ///
    /// An answer that allows the request has the standing of the limit if `detail` asks for it. A refusal always has
    /// it.
    fn decide(&self, head: &Head<'_>, detail: Detail) -> Decision<Self::Future>;

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

impl<L: Limit + ?Sized> Limit for &L {
    type Future = L::Future;

    #[inline]
    fn decide(&self, head: &Head<'_>, detail: Detail) -> Decision<L::Future> {
        (**self).decide(head, detail)
    }

    fn key(&self, head: &Head<'_>) -> Option<String> {
        (**self).key(head)
    }

    fn keyed(&self) -> Vec<KeyedStatus> {
        (**self).keyed()
    }
}

impl<L: Limit + ?Sized> Limit for Arc<L> {
    type Future = L::Future;

    #[inline]
    fn decide(&self, head: &Head<'_>, detail: Detail) -> Decision<L::Future> {
        (**self).decide(head, detail)
    }

    fn key(&self, head: &Head<'_>) -> Option<String> {
        (**self).key(head)
    }

    fn keyed(&self) -> Vec<KeyedStatus> {
        (**self).keyed()
    }
}
