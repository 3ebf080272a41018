//! A limit for each key.

use super::{Answer, Decision, Detail, KeyedStatus, Limit, keyed};
use crate::Head;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::future::Ready;
use core::hash::{BuildHasher, Hash};
use damper_core::keyed::KeyedLimiter;
use damper_core::limit::{KeyedAlgorithm, TokenBucket};
use damper_core::time::{Clock, DefaultClock, Seed};

/// A limit for each key, which a closure returns.
///
/// A key is anything that can be hashed. All requests for which an `Option` is `None` share a bucket.
pub struct ByKey<F, K, C = DefaultClock, S = Seed, A = TokenBucket> {
    key: Arc<F>,
    limits: Arc<KeyedLimiter<K, C, S, A>>,
}

impl<F: Fn(&Head<'_>) -> K, K: Hash, C: Clock, S: BuildHasher, A: KeyedAlgorithm> ByKey<F, K, C, S, A> {
    /// Creates a limit by this key from a limiter, which you keep to inspect it or to change its quota.
    pub fn new(key: F, limits: Arc<KeyedLimiter<K, C, S, A>>) -> Self {
        Self { key: Arc::new(key), limits }
    }
}

impl<F: Fn(&Head<'_>) -> K, K: Hash, C: Clock, S: BuildHasher, A: KeyedAlgorithm> Limit for ByKey<F, K, C, S, A> {
    type Future = Ready<Answer>;

    #[inline]
    fn decide(&self, head: &Head<'_>, detail: Detail) -> Decision<Self::Future> {
        keyed::decide(&self.limits, &(self.key)(head), detail)
    }

    fn keyed(&self) -> Vec<KeyedStatus> {
        vec![KeyedStatus::of(&*self.limits)]
    }
}

/// Clones share the limits.
impl<F, K, C, S, A> Clone for ByKey<F, K, C, S, A> {
    fn clone(&self) -> Self {
        Self { key: Arc::clone(&self.key), limits: Arc::clone(&self.limits) }
    }
}

impl<F, K, C: fmt::Debug, S, A> fmt::Debug for ByKey<F, K, C, S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByKey").field("limits", &self.limits).finish_non_exhaustive()
    }
}
