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

/// Corrects the cost of a call of the type `Q` when its response is known.
///
/// [`RateLimitLayer::charge_by_response`](crate::RateLimitLayer::charge_by_response) needs it of its [`Limit`], for a [`Head`]. Token buckets can
/// correct the cost of any call, and limits per key, by any algorithm, that of a key. So [`PerClient`], [`ByHeader`] and [`ByKey`] can if what
/// they ask corrects the costs of its keys. A [`TreeLimit`](super::TreeLimit) can in its own way, by a reservation.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot correct the cost of calls of the type `{Q}`",
    note = "a limit per key can, and a `RateLimiter` that is a token bucket"
)]
pub trait Settle<Q: ?Sized> {
    /// Corrects the cost of a call that was allowed: it took `taken` tokens, and used `used`.
    ///
    /// An excess is charged, into debt if necessary. Tokens that were not used are given back. The limit remembers
    /// nothing of the call: if its quota had no limit then and has one now, it gives back tokens that it never took.
    fn settle(&self, call: &Q, taken: u32, used: u32);
}

/// A limit whose costs responses correct: one that can [`Settle`] them, or a tree.
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

impl<L: Limit + for<'a> Settle<Head<'a>>> CorrectedLimit for L {
    type Cost = u32;

    fn correction() -> Correction<Self> {
        Correction::Settle(|limit, head, taken, used| limit.settle(head, taken, used))
    }
}

/// How a limit corrects costs. Function pointers, so that no other limit has to have them.
pub enum Correction<L> {
    /// It remembers nothing of a request: [`Settle::settle`].
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

impl<Q: ?Sized, C: Clock> Settle<Q> for RateLimiter<TokenBucket, C> {
    fn settle(&self, _: &Q, taken: u32, used: u32) {
        if used > taken {
            self.charge(used - taken);
        } else {
            self.refund(taken - used);
        }
    }
}

impl<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm> Settle<K> for KeyedLimiter<K, C, S, A> {
    fn settle(&self, key: &K, taken: u32, used: u32) {
        if used > taken {
            self.charge(key, used - taken);
        } else {
            self.refund(key, taken - used);
        }
    }
}

impl<F: Fn(&Head<'_>) -> K, K, T: Settle<K>> Settle<Head<'_>> for ByKey<F, T> {
    fn settle(&self, head: &Head<'_>, taken: u32, used: u32) {
        let (key, limits) = self.of(head);
        limits.settle(&key, taken, used);
    }
}

impl<T: KeyedLimit<[u8]> + Settle<[u8]>> Settle<Head<'_>> for ByHeader<T> {
    fn settle(&self, head: &Head<'_>, taken: u32, used: u32) {
        let (value, limits) = self.of(head);
        limits.settle(value, taken, used);
    }
}

/// Corrects the cost in the limits of wider prefixes too.
impl<T: Settle<ClientAddress>> Settle<Head<'_>> for PerClient<T> {
    fn settle(&self, head: &Head<'_>, taken: u32, used: u32) {
        self.for_each_limit(head, |limits, key| limits.settle(&key, taken, used));
    }
}

#[cfg(feature = "tokio")]
impl<C: Clock + Send + Sync + 'static> Settle<Head<'_>> for super::WaitingLimit<C> {
    fn settle(&self, head: &Head<'_>, taken: u32, used: u32) {
        self.limiter().settle(head, taken, used);
    }
}

/// Corrects costs behind a pointer to `L`.
macro_rules! settled_limits_behind {
    ($($pointer:ty),*) => {$(
        impl<Q: ?Sized, L: Settle<Q> + ?Sized> Settle<Q> for $pointer {
            fn settle(&self, call: &Q, taken: u32, used: u32) {
                (**self).settle(call, taken, used);
            }
        }
    )*};
}

settled_limits_behind!(&L, Arc<L>, Box<L>);
