//! Limits in a table that a layer builds.

use alloc::sync::Arc;
use core::fmt;
use damper_core::OutOfRange;
use damper_core::keyed::KeyedLimiter;
use damper_core::quota::Quota;

/// A limit per key whose keys are in the table of a [`KeyedLimiter`].
pub trait LimitedByTable {
    /// The keys of the table.
    type Key: ?Sized;

    /// Returns the limiter that has the table.
    fn limits_mut(&mut self) -> &mut Arc<KeyedLimiter<Self::Key>>;
}

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

/// Builds a limiter anew with room for `keys` keys, unless it is shared.
pub(crate) fn resize<K: ?Sized>(limits: &mut Arc<KeyedLimiter<K>>, keys: usize) -> Result<(), RateLimitCapacityError> {
    let unshared = Arc::get_mut(limits).ok_or(RateLimitCapacityError::Shared)?;
    *unshared = KeyedLimiter::builder(unshared.quota()).capacity(keys).build()?;
    Ok(())
}

/// The error of [`RateLimitLayer::capacity`](crate::RateLimitLayer::capacity).
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RateLimitCapacityError {
    /// The capacity is out of its range.
    OutOfRange(OutOfRange),
    /// The layer was cloned or has made services, which share its limiter.
    Shared,
    /// The limiter was passed to [`RateLimitLayer::new`](crate::RateLimitLayer::new).
    Given,
}

impl From<OutOfRange> for RateLimitCapacityError {
    fn from(error: OutOfRange) -> Self {
        Self::OutOfRange(error)
    }
}

impl fmt::Display for RateLimitCapacityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange(error) => error.fmt(f),
            Self::Shared => f.write_str(
                "the layer was cloned or has made services, which share its limiter; set the capacity before that",
            ),
            Self::Given => f.write_str(
                "the limiter was passed to RateLimitLayer::new; set its capacity in KeyedLimiterBuilder::capacity",
            ),
        }
    }
}

damper_core::internal::debug_by_display!(RateLimitCapacityError);

impl core::error::Error for RateLimitCapacityError {}
