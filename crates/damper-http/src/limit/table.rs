//! Limiters that layers build.

use alloc::sync::Arc;
use damper_core::keyed::KeyedLimiter;
use damper_core::quota::Quota;

/// Builds the limiter of a layer, with room for the default number of keys.
#[must_use]
pub fn limits_for_each<K: ?Sized>(quota: Quota) -> Arc<KeyedLimiter<K>> {
    match KeyedLimiter::builder(quota).build() {
        Ok(limits) => Arc::new(limits),
        Err(error) => unreachable!("the builder's defaults are in range: {error}"),
    }
}

/// Builds a limiter of this quota, with room for as many keys as `limits` has.
pub(crate) fn limits_like<K: ?Sized>(limits: &KeyedLimiter<K>, quota: Quota) -> Arc<KeyedLimiter<K>> {
    match KeyedLimiter::builder(quota).capacity(limits.capacity()).build() {
        Ok(limits) => Arc::new(limits),
        Err(error) => unreachable!("another limiter has the same capacity: {error}"),
    }
}
