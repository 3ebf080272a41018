//! A limit for each key.

use super::{Detail, KeyedLimit, Limit, LimitDecision, LimitedByTable, Refusal};
use crate::Head;
use alloc::sync::Arc;
use core::fmt;
use damper_core::gate::Forecast;
use damper_core::keyed::KeyedLimiter;

/// A limit for each key, which a closure returns.
///
/// A key of a [`KeyedLimiter`] is anything that can be hashed. All requests for which an `Option` is `None` share a
/// bucket.
pub struct ByKey<F, T> {
    key: Arc<F>,
    limits: T,
}

impl<F: Fn(&Head<'_>) -> K, K, T> ByKey<F, T> {
    /// Creates a limit by this key from an `Arc` of a limiter, or from a [`KeyedLimit`] of your own.
    ///
    /// Keep the `Arc` to inspect the limiter or to change its quota.
    pub fn new(key: F, limits: T) -> Self {
        Self { key: Arc::new(key), limits }
    }

    /// Returns a limit by the same key with other limits.
    pub(super) fn with_limits<U>(&self, limits: impl FnOnce(&T) -> U) -> ByKey<F, U> {
        ByKey { key: Arc::clone(&self.key), limits: limits(&self.limits) }
    }

    /// Returns the key of a request, and the limits.
    pub(super) fn of(&self, head: &Head<'_>) -> (K, &T) {
        ((self.key)(head), &self.limits)
    }
}

impl<F: Fn(&Head<'_>) -> K, K, T: KeyedLimit<K>> Limit for ByKey<F, T> {
    type Future = T::Future;

    #[inline]
    fn decide(&self, head: &Head<'_>, cost: u32, detail: Detail) -> LimitDecision<Self::Future> {
        self.limits.decide(&(self.key)(head), cost, detail)
    }

    fn forecast(&self, head: &Head<'_>, cost: u32) -> Forecast<Refusal> {
        self.limits.forecast(&(self.key)(head), cost)
    }
}

#[cfg(feature = "metrics")]
impl<F, T: damper_metrics::Source> damper_metrics::Source for ByKey<F, T> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.limits.read(readings);
    }
}

impl<F, K> LimitedByTable for ByKey<F, Arc<KeyedLimiter<K>>> {
    type Key = K;

    fn limits_mut(&mut self) -> &mut Arc<KeyedLimiter<K>> {
        &mut self.limits
    }
}

impl<F, T: Clone> Clone for ByKey<F, T> {
    fn clone(&self) -> Self {
        Self { key: Arc::clone(&self.key), limits: self.limits.clone() }
    }
}

impl<F, T: fmt::Debug> fmt::Debug for ByKey<F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByKey").field("limits", &self.limits).finish_non_exhaustive()
    }
}
