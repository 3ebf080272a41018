//! Limits that decide on a request.

// | file | idea |
// |---|---|
// | this one | `Limit`, and its answers: an allowed request, or a refusal; at once, or later |
// | `refusal` | why a request may not pass |
// | `global` | one limiter for all requests |
// | `wait` | one limiter for all requests, which wait |
// | `keyed_limit` | what decides on a key, at once or later: what the next three ask |
// | `by_key` | the key is what a closure returns |
// | `by_header` | the key is the value of a header |
// | `per_client` | the key is the client's address |
// | `prefix` | the networks that a client is in, in one decision with its own limit |
// | `tree` | a quota tree, by a path that a closure returns |
// | `settled` | limits that can correct the cost of a request |
// | `references` | limits behind references and `Arc`s |
// | `logged` | limits whose decisions are logged |
// | `shadow` | what can decide beside a limit |
// | `table` | limiters that layers build |

mod by_header;
mod by_key;
mod global;
mod keyed_limit;
mod logged;
mod per_client;
mod prefix;
mod references;
mod refusal;
mod settled;
mod shadow;
mod table;
mod tree;
#[cfg(feature = "tokio")]
mod wait;

pub use by_header::ByHeader;
pub use by_key::ByKey;
pub use damper_core::gate::Standing;
pub use keyed_limit::KeyedLimit;
pub(crate) use logged::LoggableLimit;
pub use per_client::PerClient;
pub(super) use prefix::Prefix;
pub use refusal::{Limited, Refusal};
pub use settled::Settle;
pub(crate) use settled::{CorrectedLimit, Correction, Reservation, Tokens};
pub(crate) use shadow::ShadowCandidate;
pub(super) use table::{LimitedByTable, limits_like, resize};
pub use table::{RateLimitCapacityError, limits_for_each};
pub use tree::{TreeLimit, TreePath};
#[cfg(feature = "tokio")]
pub(crate) use wait::WaitingLimit;

use super::Head;
use alloc::string::String;
use damper_core::gate::{self, Forecast, Never};

/// Decides whether requests may pass: what a [`RateLimitLayer`](super::RateLimitLayer) is made of.
///
/// A limiter is one limit for all requests, and a [`TreeLimit`] has several. [`PerClient`], [`ByKey`] and [`ByHeader`] have one for each key; what they
/// ask is a [`KeyedLimit`], which may also be a store that several servers share. An `Arc` of a limit and a reference to
/// one are limits too.
///
/// The answer `LimitDecision::Pass(None)` lets a request pass. A limit that cannot decide, such as one whose store has
/// failed, answers [`Refusal::failed`], which refuses the request, or lets it pass in the same way.
///
/// # Examples
///
/// Limits writes, and lets reads pass:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::RateLimiter;
/// use damper::http::{LimitDecision, Detail, Head, Limit, NoWait};
/// use http::Method;
///
/// struct Writes(RateLimiter);
///
/// impl Limit for Writes {
///     type Future = NoWait;
///
///     fn decide(&self, head: &Head<'_>, cost: u32, detail: Detail) -> LimitDecision<Self::Future> {
///         if head.method == Method::GET { LimitDecision::Pass(None) } else { self.0.decide(head, cost, detail) }
///     }
/// }
/// ```
pub trait Limit {
    /// The future that decides while a request waits; [`NoWait`] if none does.
    ///
    /// It is a `Pin<Box<dyn Future<…>>>`, or has an implementation of [`WaitsWith`](damper_core::gate::WaitsWith).
    type Future: Future<Output = LimitAnswer>;

    /// Decides on a request that costs so many tokens, and takes them.
    ///
    /// The cost is 1 unless the layer [sets another](super::RateLimitLayer::cost). A request that costs 0 is always allowed.
    /// An answer that allows the request has the standing of the limit if `detail` asks for it. A refusal always has
    /// it.
    fn decide(&self, head: &Head<'_>, cost: u32, detail: Detail) -> LimitDecision<Self::Future>;

    /// Returns the answer that a request of this cost would get now, and changes nothing.
    ///
    /// Default: [`Forecast::Unknown`]. [`ServerStack::explain`](crate::ServerStack::explain) asks for it.
    fn forecast(&self, head: &Head<'_>, cost: u32) -> Forecast<Refusal> {
        let _ = (head, cost);
        Forecast::Unknown
    }

    /// The key of a request as a text, for logs of refusals. Default: none.
    fn key(&self, head: &Head<'_>) -> Option<String> {
        let _ = head;
        None
    }

    /// The name of the plan that refused a request, for metrics. Default: none.
    ///
    /// There must be few names, because each has a counter of its own.
    fn plan(&self, head: &Head<'_>, limited: &Limited) -> Option<String> {
        let _ = (head, limited);
        None
    }
}

/// The answer of a limit to a request: it may pass, or a refusal.
///
/// The first has the standing of the limit if that was asked for.
pub type LimitAnswer = Result<Option<Standing>, Refusal>;

/// The decision of a limit: the request may pass, is refused, or waits for a future that decides.
///
/// While a request waits, the service holds it and a clone of the service to call.
pub type LimitDecision<F> = gate::Answer<Option<Standing>, F, Refusal>;

/// The future of a limit at which no request waits.
pub type NoWait = Never<Option<Standing>, Refusal>;

/// The contents of an answer that allows a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Nothing: `None`.
    None,
    /// The standing of the limit, for headers: `Some(standing)`.
    Standing,
}

impl Detail {
    /// Calls `standing` and returns its result if that is asked for.
    #[inline]
    #[must_use]
    pub fn then(self, standing: impl FnOnce() -> Standing) -> Option<Standing> {
        match self {
            Self::None => None,
            Self::Standing => Some(standing()),
        }
    }
}
