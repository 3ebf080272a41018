//! Limits that can correct the cost of a request.

use super::{ByHeader, ByKey, KeyedLimit, Limit, PerClient};
use crate::Head;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::hash::{BuildHasher, Hash};
use damper_core::keyed::{ClientAddress, KeyedLimiter};
use damper_core::limit::{KeyedAlgorithm, RateLimiter, TokenBucket};
use damper_core::time::Clock;

/// A [`Limit`] that can correct the cost of a request when its response is known.
///
/// [`RateLimitLayer::charge_by_response`](crate::RateLimitLayer::charge_by_response) needs it. Token buckets can, and limits per
/// key by any algorithm.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot correct the cost of a request",
    note = "a limit per key can, and a `RateLimiter` that is a token bucket"
)]
pub trait SettledLimit: Limit {
    /// Corrects the cost of a request that was allowed: it took `taken` tokens, and used `used`.
    ///
    /// An excess is charged, into debt if necessary. Tokens that were not used are given back.
    fn settle(&self, head: &Head<'_>, taken: u32, used: u32);
}

/// A [`KeyedLimit`] that can correct the cost of a request, as [`SettledLimit`] does.
pub trait SettledKeyedLimit<K: ?Sized>: KeyedLimit<K> {
    /// Corrects the cost of a request of this key: it took `taken` tokens, and used `used`.
    fn settle(&self, key: &K, taken: u32, used: u32);
}

impl<C: Clock> SettledLimit for RateLimiter<TokenBucket, C> {
    fn settle(&self, _: &Head<'_>, taken: u32, used: u32) {
        if used > taken {
            self.charge(used - taken);
        } else {
            self.refund(taken - used);
        }
    }
}

impl<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm> SettledKeyedLimit<K> for KeyedLimiter<K, C, S, A> {
    fn settle(&self, key: &K, taken: u32, used: u32) {
        if used > taken {
            self.charge(key, used - taken);
        } else {
            self.refund(key, taken - used);
        }
    }
}

impl<F: Fn(&Head<'_>) -> K, K, T: SettledKeyedLimit<K>> SettledLimit for ByKey<F, T> {
    fn settle(&self, head: &Head<'_>, taken: u32, used: u32) {
        let (key, limits) = self.of(head);
        limits.settle(&key, taken, used);
    }
}

impl<T: SettledKeyedLimit<[u8]>> SettledLimit for ByHeader<T> {
    fn settle(&self, head: &Head<'_>, taken: u32, used: u32) {
        let (value, limits) = self.of(head);
        limits.settle(value, taken, used);
    }
}

/// Corrects the cost in the limits of wider prefixes too.
impl<T: SettledKeyedLimit<ClientAddress>> SettledLimit for PerClient<T> {
    fn settle(&self, head: &Head<'_>, taken: u32, used: u32) {
        self.for_each_limit(head, |limits, key| limits.settle(&key, taken, used));
    }
}

#[cfg(feature = "tokio")]
impl<C: Clock + Send + Sync + 'static> SettledLimit for super::WaitingLimit<C> {
    fn settle(&self, head: &Head<'_>, taken: u32, used: u32) {
        self.limiter().settle(head, taken, used);
    }
}

/// Implements both traits for a pointer to `L`.
macro_rules! settled_limits_behind {
    ($($pointer:ty),*) => {$(
        impl<L: SettledLimit + ?Sized> SettledLimit for $pointer {
            fn settle(&self, head: &Head<'_>, taken: u32, used: u32) {
                (**self).settle(head, taken, used);
            }
        }

        impl<K: ?Sized, L: SettledKeyedLimit<K> + ?Sized> SettledKeyedLimit<K> for $pointer {
            fn settle(&self, key: &K, taken: u32, used: u32) {
                (**self).settle(key, taken, used);
            }
        }
    )*};
}

settled_limits_behind!(&L, Arc<L>, Box<L>);
