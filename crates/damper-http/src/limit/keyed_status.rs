//! The state and the counts of a limit per key.

use alloc::string::String;
use damper_core::keyed::KeyedLimiter;
use damper_core::limit::KeyedAlgorithm;
use damper_core::time::Clock;

/// The state of a limit per key and its counts since creation, for metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyedStatus {
    /// Which prefixes its keys are, such as `ipv6/48`; `None` where the layer has one limit per key.
    pub prefix: Option<String>,
    /// The keys that have a slot: [`KeyedLimiter::len`].
    pub keys: usize,
    /// The keys that it was built for: [`KeyedLimiter::capacity`].
    pub capacity: usize,
    /// Keys that lost their slot while they owed something: [`KeyedLimiter::evictions`].
    pub evictions: u64,
    /// Calls that were decided by a bucket that keys without a slot share: [`KeyedLimiter::overflows`].
    pub overflows: u64,
    /// Calls that were refused to keys without a slot: [`KeyedLimiter::refused_newcomers`].
    pub refused_newcomers: u64,
}

impl KeyedStatus {
    /// Reads the status of a limiter.
    ///
    /// Takes its locks one after the other: for every few seconds, not for every call.
    #[must_use]
    pub fn of<K: ?Sized, C: Clock, S, A: KeyedAlgorithm>(limits: &KeyedLimiter<K, C, S, A>) -> Self {
        Self {
            prefix: None,
            keys: limits.len(),
            capacity: limits.capacity(),
            evictions: limits.evictions(),
            overflows: limits.overflows(),
            refused_newcomers: limits.refused_newcomers(),
        }
    }
}
