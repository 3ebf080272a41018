//! Limits whose decisions are logged.

use super::global::{refusal as refusal_of, standing_after};
use super::keyed_limit::{quota_of, refusal};
use super::{ByHeader, ByKey, Detail, KeyedLimit, Limit, LimitDecision, NoWait, PerClient, Refusal, Settle, Standing};
use crate::Head;
use alloc::sync::Arc;
use core::hash::{BuildHasher, Hash};
use core::ops::Deref;
use damper_core::decision_log::{DecisionLog, Logged};
use damper_core::gate::Forecast;
use damper_core::internal::check_logged;
use damper_core::keyed::{ClientAddress, KeyedLimiter};
use damper_core::limit::{KeyedAlgorithm, RateLimiter, TokenBucket};
use damper_core::time::Clock;

/// A limit whose decisions can be logged: what [`RateLimitLayer::decision_log`](crate::RateLimitLayer::decision_log) asks for.
///
/// `G` is a pointer to a [`DecisionLog`].
#[diagnostic::on_unimplemented(
    message = "the decisions of `{Self}` cannot be logged by `{G}`",
    note = "those of an `Arc<RateLimiter>` that is a token bucket, and of `PerClient`, `ByHeader` and `ByKey` with an `Arc<KeyedLimiter>` can",
    note = "the log is a reference to a `static`, or an `Arc`"
)]
pub trait LoggableLimit<G> {
    /// The limit that logs.
    type Logged: Limit + for<'a> Settle<Head<'a>>;

    /// Returns the same limit, which writes its decisions into `log`.
    fn logged(self, log: G) -> Self::Logged;
}

impl<C: Clock, D: Clock, G: Deref<Target = DecisionLog<D>>> LoggableLimit<G> for Arc<RateLimiter<TokenBucket, C>> {
    type Logged = Logged<Self, G>;

    fn logged(self, log: G) -> Self::Logged {
        Logged::new(self, log)
    }
}

impl<C, S, A, D, G> LoggableLimit<G> for PerClient<Arc<KeyedLimiter<ClientAddress, C, S, A>>>
where
    C: Clock,
    S: BuildHasher,
    A: KeyedAlgorithm,
    D: Clock,
    G: Deref<Target = DecisionLog<D>> + Clone,
{
    type Logged = PerClient<Logged<Arc<KeyedLimiter<ClientAddress, C, S, A>>, G>>;

    fn logged(self, log: G) -> Self::Logged {
        self.into_logged(log)
    }
}

impl<C, S, A, D, G> LoggableLimit<G> for ByHeader<Arc<KeyedLimiter<[u8], C, S, A>>>
where
    C: Clock,
    S: BuildHasher,
    A: KeyedAlgorithm,
    D: Clock,
    G: Deref<Target = DecisionLog<D>>,
{
    type Logged = ByHeader<Logged<Arc<KeyedLimiter<[u8], C, S, A>>, G>>;

    fn logged(self, log: G) -> Self::Logged {
        self.with_limits(|limits| Logged::new(Arc::clone(limits), log))
    }
}

impl<F, K, C, S, A, D, G> LoggableLimit<G> for ByKey<F, Arc<KeyedLimiter<K, C, S, A>>>
where
    F: Fn(&Head<'_>) -> K,
    K: Hash,
    C: Clock,
    S: BuildHasher,
    A: KeyedAlgorithm,
    D: Clock,
    G: Deref<Target = DecisionLog<D>>,
{
    type Logged = ByKey<F, Logged<Arc<KeyedLimiter<K, C, S, A>>, G>>;

    fn logged(self, log: G) -> Self::Logged {
        self.with_limits(|limits| Logged::new(Arc::clone(limits), log))
    }
}

/// One limit for all requests, whose decisions are logged.
impl<C, D, G> Limit for Logged<Arc<RateLimiter<TokenBucket, C>>, G>
where
    C: Clock,
    D: Clock,
    G: Deref<Target = DecisionLog<D>>,
{
    type Future = NoWait;

    #[inline]
    fn decide(&self, _: &Head<'_>, cost: u32, detail: Detail) -> LimitDecision<Self::Future> {
        let answer = self.limiter().check_n(cost);
        self.log().record(0, cost, &answer);
        LimitDecision::from(match answer {
            Ok(allowed) => Ok(detail.then(|| standing_after(self.limiter(), allowed))),
            Err(denied) => Err(refusal_of(self.limiter(), denied)),
        })
    }

    fn forecast(&self, head: &Head<'_>, cost: u32) -> Forecast<Refusal> {
        Limit::forecast(self.limiter(), head, cost)
    }
}

/// A limit per key, whose decisions are logged.
impl<K, C, S, A, D, G> KeyedLimit<K> for Logged<Arc<KeyedLimiter<K, C, S, A>>, G>
where
    K: Hash + ?Sized,
    C: Clock,
    S: BuildHasher,
    A: KeyedAlgorithm,
    D: Clock,
    G: Deref<Target = DecisionLog<D>>,
{
    type Future = NoWait;

    #[inline]
    fn decide(&self, key: &K, cost: u32, detail: Detail) -> LimitDecision<Self::Future> {
        let limits = &**self.limiter();
        LimitDecision::from(match check_logged(limits, key, cost, self.log()) {
            Ok(allowed) => {
                Ok(detail.then(|| Standing::new(quota_of(limits, key), allowed.remaining(), allowed.resets_in())))
            }
            Err(denied) => Err(refusal(limits, key, denied)),
        })
    }

    fn forecast(&self, key: &K, cost: u32) -> Forecast<Refusal> {
        self.limiter().forecast(key, cost)
    }
}

/// The log has decisions only. Corrections by responses are not logged.
impl<Q, C, D, G> Settle<Q> for Logged<Arc<RateLimiter<TokenBucket, C>>, G>
where
    Q: ?Sized,
    C: Clock,
    D: Clock,
    G: Deref<Target = DecisionLog<D>>,
{
    fn settle(&self, call: &Q, taken: u32, used: u32) {
        self.limiter().settle(call, taken, used);
    }
}

/// The log has decisions only. Corrections by responses are not logged.
impl<K, C, S, A, D, G> Settle<K> for Logged<Arc<KeyedLimiter<K, C, S, A>>, G>
where
    K: Hash + ?Sized,
    C: Clock,
    S: BuildHasher,
    A: KeyedAlgorithm,
    D: Clock,
    G: Deref<Target = DecisionLog<D>>,
{
    fn settle(&self, key: &K, taken: u32, used: u32) {
        self.limiter().settle(key, taken, used);
    }
}
