//! What the limiter of a key decides, holds and has counted.

use super::global::reported_quota;
use super::{Answer, Decision, Detail, Limited, Refusal, Standing};
use alloc::string::String;
use core::future::Ready;
use core::hash::{BuildHasher, Hash};
use damper_core::keyed::KeyedLimiter;
use damper_core::limit::{Denied, KeyedAlgorithm};
use damper_core::quota::Quota;
use damper_core::time::Clock;

/// Takes a token of a key.
///
/// Each branch builds its whole decision: one that is put together at the end is moved through memory.
#[inline]
pub(super) fn decide<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm>(
    limits: &KeyedLimiter<K, C, S, A>,
    key: &K,
    detail: Detail,
) -> Decision<Ready<Answer>> {
    if detail == Detail::Standing {
        return Decision::Now(decide_with_standing(limits, key));
    }
    match limits.check(key) {
        Ok(_) => Decision::Now(Ok(None)),
        Err(denied) => Decision::Now(Err(refusal(limits, key, denied))),
    }
}

/// Apart, so that decisions without a standing do not compute it.
#[inline(never)]
fn decide_with_standing<K, C, S, A>(limits: &KeyedLimiter<K, C, S, A>, key: &K) -> Answer
where
    K: Hash + ?Sized,
    C: Clock,
    S: BuildHasher,
    A: KeyedAlgorithm,
{
    match limits.check(key) {
        Ok(allowed) => Ok(Some(Standing::new(quota_of(limits, key), allowed.remaining(), allowed.resets_in()))),
        Err(denied) => Err(refusal(limits, key, denied)),
    }
}

#[cold]
fn refusal<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm>(
    limits: &KeyedLimiter<K, C, S, A>,
    key: &K,
    denied: Denied,
) -> Refusal {
    Limited::by(denied, quota_of(limits, key)).into()
}

/// Returns the quota of a key, as headers report it.
pub(super) fn quota_of<K, C, S, A>(limits: &KeyedLimiter<K, C, S, A>, key: &K) -> Quota
where
    K: Hash + ?Sized,
    C: Clock,
    S: BuildHasher,
    A: KeyedAlgorithm,
{
    let quota = limits.quota();
    // Only a key's bucket knows its tier, and windows have no burst.
    if A::BY_WINDOWS || limits.tier_quota(1).is_some() { reported_quota(quota, limits.peek(key)) } else { quota }
}

/// What a limit per key holds, and what it has counted since its creation, for metrics.
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
    /// Reads the status of a limiter. Takes its locks one after the other: for every few seconds, not for every call.
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
