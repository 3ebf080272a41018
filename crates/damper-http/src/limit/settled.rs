//! Limits that can correct the cost of a request.

use super::{ByHeader, ByKey, Detail, KeyedLimit, Limit, PerClient, Refusal, Standing};
use crate::Head;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use damper_core::keyed::{ClientAddress, KeyedLimiter};
use damper_core::limit::{KeyedAlgorithm, RateLimiter, TokenBucket};
use damper_core::time::Clock;

/// A [`Limit`] that can correct the cost of a request when its response is known.
///
/// [`RateLimitLayer::charge_by_response`](crate::RateLimitLayer::charge_by_response) needs it. Token buckets can, and limits per
/// key by any algorithm. A [`TreeLimit`](super::TreeLimit) can in its own way, by a reservation.
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

/// A limit whose costs responses correct: a [`SettledLimit`], or a tree.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot correct the cost of a request",
    note = "a limit per key can, a tree, and a `RateLimiter` that is a token bucket"
)]
pub trait CorrectedLimit: Limit + Sized {
    /// The cost of a request: a number of tokens, or one for each dimension of a tree.
    type Cost: Tokens;

    /// Returns how costs are corrected.
    fn correction() -> Correction<Self>;
}

impl<L: SettledLimit> CorrectedLimit for L {
    type Cost = u32;

    fn correction() -> Correction<Self> {
        Correction::Settle(L::settle)
    }
}

/// How a limit corrects costs. Function pointers, so that no other limit has to have them.
pub enum Correction<L> {
    /// It remembers nothing of a request: [`SettledLimit::settle`].
    Settle(fn(&L, &Head<'_>, u32, u32)),
    /// It takes a reservation in place of its decision.
    Reserve(fn(&L, &Head<'_>, u32, Detail) -> ReserveAnswer),
}

impl<L> Clone for Correction<L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Correction<L> {}

impl<L> fmt::Debug for Correction<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Settle(_) => "Settle",
            Self::Reserve(_) => "Reserve",
        })
    }
}

/// The answer to a request that reserves its cost.
pub(crate) type ReserveAnswer = Result<Box<dyn Reservation>, Refusal>;

/// The cost of a request that was taken, to be settled.
///
/// If it is dropped instead, the cost stays taken.
pub trait Reservation: Send + Sync {
    /// Returns the standing of the limit when the cost was taken, if it was asked for.
    fn standing(&self) -> Option<Standing>;

    /// Returns the cost that was taken, in each dimension.
    fn taken(&self) -> Box<[u32]>;

    /// Corrects the cost to what the request used, in each dimension.
    fn settle(self: Box<Self>, used: &[u32]);
}

/// A number of tokens for each dimension of a limit.
pub trait Tokens: Copy + Send + 'static {
    /// Returns these tokens as what they are; `None` for another number of dimensions.
    fn of(tokens: &mut [u32]) -> Option<&mut Self>;
}

impl Tokens for u32 {
    fn of(tokens: &mut [u32]) -> Option<&mut Self> {
        tokens.first_mut()
    }
}

impl<const DIMENSIONS: usize> Tokens for [u32; DIMENSIONS] {
    fn of(tokens: &mut [u32]) -> Option<&mut Self> {
        tokens.try_into().ok()
    }
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
