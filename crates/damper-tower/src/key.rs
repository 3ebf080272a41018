//! One for all requests, or one per key.

use core::hash::Hash;

/// One for all requests: a breaker, a throttle or a bulkhead.
#[derive(Clone, Copy, Debug)]
pub struct One<T>(pub(crate) T);

/// One per key, which `F` takes from the request.
///
/// `T` is an `Arc` of a `KeyedCircuitBreaker`, a `KeyedThrottle` or a `KeyedBulkhead`.
#[derive(Clone, Debug)]
pub struct PerKey<F, T> {
    pub(crate) key: F,
    pub(crate) keyed: T,
}

/// A type that can be a key: `Clone + Eq + Hash`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key: a key is owned and `Clone + Eq + Hash`",
    note = "for a host, return a `String`, for a type of your own, write `#[derive(Clone, PartialEq, Eq, Hash)]`"
)]
pub trait Key: Clone + Eq + Hash {}

#[diagnostic::do_not_recommend]
impl<K: Clone + Eq + Hash> Key for K {}
