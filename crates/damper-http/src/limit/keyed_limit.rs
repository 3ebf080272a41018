//! Limits that decide on the requests of a key.

use super::global::reported_quota;
use super::{Detail, LimitAnswer, LimitDecision, Limited, NoWait, Refusal, Standing};
use core::hash::{BuildHasher, Hash};
use damper_core::gate::Forecast;
use damper_core::internal;
use damper_core::keyed::KeyedLimiter;
use damper_core::limit::{Denied, KeyedAlgorithm};
use damper_core::quota::Quota;
use damper_core::time::Clock;

/// Decides whether requests of a key may pass: what [`PerClient`](super::PerClient), [`ByHeader`](super::ByHeader) and
/// [`ByKey`](super::ByKey) ask.
///
/// A [`KeyedLimiter`] decides at once. Implement this trait for what is decided elsewhere and takes its time, such as a
/// store that several servers share: then the same client addresses, header values and keys stand before it. An `Arc`
/// of a limit and a reference to one are limits too.
///
/// | behind | the key is |
/// |---|---|
/// | [`PerClient`](super::PerClient) | a [`ClientAddress`](damper_core::ClientAddress) |
/// | [`ByHeader`](super::ByHeader) | `[u8]`, the value of the header; empty without one |
/// | [`ByKey`](super::ByKey) | what the closure returns |
///
/// # When the store fails
///
/// The answer [`Refusal::failed`](super::Refusal::failed) refuses the request with `500 Internal Server Error` and
/// reports the error to [`on_error`](crate::RateLimitLayer::on_error), logs and metrics. The answer `Ok(None)` lets the
/// request pass instead; report the error yourself then, because the layer counts the request as allowed.
///
/// # Cancel safety
///
/// The future is dropped when the client goes away. A limit that has asked its store by then may have taken a token.
///
/// # Examples
///
/// Asks a store, and lets requests pass while the store cannot be reached. The example `limit_elsewhere` asks a task
/// over a channel, over real sockets.
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::http::{LimitAnswer, LimitDecision, Detail, KeyedLimit, Limited, PerClient, RateLimitLayer, Standing};
/// use damper::{ClientAddress, Quota};
/// use std::{pin::Pin, time::Duration};
///
/// # #[derive(Clone)]
/// # struct Store;
/// # impl Store {
/// #     /// Returns the tokens that are left, or `None` if there was none.
/// #     async fn take(&self, _: String, _: u32) -> std::io::Result<Option<u32>> { Ok(None) }
/// # }
/// #[derive(Clone)]
/// struct Shared(Store);
///
/// impl KeyedLimit<ClientAddress> for Shared {
///     type Future = Pin<Box<dyn Future<Output = LimitAnswer> + Send>>;
///
///     fn decide(&self, client: &ClientAddress, cost: u32, detail: Detail) -> LimitDecision<Self::Future> {
///         let (store, client) = (self.0.clone(), client.to_string());
///         LimitDecision::Wait(Box::pin(async move {
///             let second = Some(Duration::from_secs(1));
///             let standing = |left| Standing::new(Quota::per_second(50), left, second);
///             match store.take(client, cost).await {
///                 Ok(Some(left)) => Ok(detail.then(|| standing(left))),
///                 Ok(None) => Err(Limited::new(second, standing(0)).into()),
///                 Err(_) => Ok(None), // passes
///             }
///         }))
///     }
/// }
///
/// let layer = RateLimitLayer::new(PerClient::new(Shared(Store)));
/// # let _ = layer;
/// ```
pub trait KeyedLimit<K: ?Sized> {
    /// The future of a decision that is not made at once; `NoWait` if all are.
    type Future: Future<Output = LimitAnswer>;

    /// Decides on a request of this key that costs so many tokens, and takes them. As [`Limit::decide`](super::Limit::decide).
    fn decide(&self, key: &K, cost: u32, detail: Detail) -> LimitDecision<Self::Future>;

    /// Returns the answer that a request of this key and cost would get now, and changes nothing.
    ///
    /// Default: [`Forecast::Unknown`].
    fn forecast(&self, key: &K, cost: u32) -> Forecast<Refusal> {
        let _ = (key, cost);
        Forecast::Unknown
    }
}

impl<K, C, S, A> KeyedLimit<K> for KeyedLimiter<K, C, S, A>
where
    K: Hash + ?Sized,
    C: Clock,
    S: BuildHasher,
    A: KeyedAlgorithm,
{
    type Future = NoWait;

    // Each branch builds its whole decision: one that is put together at the end is moved through memory.
    #[inline]
    fn decide(&self, key: &K, cost: u32, detail: Detail) -> LimitDecision<Self::Future> {
        if detail == Detail::Standing {
            return LimitDecision::from(decide_with_standing(self, key, cost));
        }
        match self.check_n(key, cost) {
            Ok(_) => LimitDecision::Pass(None),
            Err(denied) => LimitDecision::Refuse(refusal(self, key, denied)),
        }
    }

    /// A key without a slot is judged by what it may have spent, not by whether there is a slot for it.
    fn forecast(&self, key: &K, cost: u32) -> Forecast<Refusal> {
        if let Some(denied) = internal::refusal(self, key, cost) {
            return Forecast::Refuse(refusal(self, key, denied));
        }
        let usage = self.peek(key);
        Forecast::Pass(Some(Standing::new(quota_of(self, key), usage.remaining(), usage.resets_in())))
    }
}

/// Apart, so that decisions without a standing do not compute it.
#[inline(never)]
fn decide_with_standing<K, C, S, A>(limits: &KeyedLimiter<K, C, S, A>, key: &K, cost: u32) -> LimitAnswer
where
    K: Hash + ?Sized,
    C: Clock,
    S: BuildHasher,
    A: KeyedAlgorithm,
{
    match limits.check_n(key, cost) {
        Ok(allowed) => Ok(Some(Standing::new(quota_of(limits, key), allowed.remaining(), allowed.resets_in()))),
        Err(denied) => Err(refusal(limits, key, denied)),
    }
}

#[cold]
pub(super) fn refusal<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm>(
    limits: &KeyedLimiter<K, C, S, A>,
    key: &K,
    denied: Denied,
) -> Refusal {
    limited(limits, key, denied).into()
}

pub(super) fn limited<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm>(
    limits: &KeyedLimiter<K, C, S, A>,
    key: &K,
    denied: Denied,
) -> Limited {
    let limited = Limited::by(denied, quota_of(limits, key));
    if limits.tiers() > 1 { limited.in_tier(limits.tier_of(key)) } else { limited }
}

/// Returns the quota of a key, as headers report it.
pub(super) fn quota_of<K, C, S, A>(limits: &KeyedLimiter<K, C, S, A>, key: &K) -> Quota
where
    K: Hash + ?Sized,
    C: Clock,
    S: BuildHasher,
    A: KeyedAlgorithm,
{
    let quota = limits.quota();
    // Only a key's bucket knows its tier, and windows have no burst.
    if A::BY_WINDOWS || limits.tier_quota(1).is_some() { reported_quota(limits.peek(key)) } else { quota }
}
