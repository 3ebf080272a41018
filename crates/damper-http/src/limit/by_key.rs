//! A limit for each key.

use super::global::told_quota;
use super::{Answer, Decision, KeyedStatus, Limit, Limited, Refusal, Standing};
use crate::Head;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::future::Ready;
use core::hash::{BuildHasher, Hash};
use damper_core::keyed::KeyedLimiter;
use damper_core::limit::Denied;
use damper_core::limit::{KeyedAlgorithm, TokenBucket};
use damper_core::quota::Quota;
use damper_core::time::Seed;
use damper_core::time::{Clock, DefaultClock};
use http::HeaderName;

/// Takes a token of a key. Each branch makes its decision whole: put together afterwards, it is moved through memory.
#[inline]
pub(super) fn decide<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm>(
    limits: &KeyedLimiter<K, C, S, A>,
    key: &K,
    tell: bool,
) -> Decision<Ready<Answer>> {
    if tell {
        return Decision::Now(check_and_tell(limits, key));
    }
    match limits.check(key) {
        Ok(_) => Decision::Now(Ok(None)),
        Err(denied) => Decision::Now(Err(refusal(limits, key, denied))),
    }
}

/// Apart, so that where nobody asks how the limit stands that is not computed.
#[inline(never)]
fn check_and_tell<K, C, S, A>(limits: &KeyedLimiter<K, C, S, A>, key: &K) -> Answer
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

/// The quota of a key, as headers tell it.
pub(super) fn quota_of<K, C, S, A>(limits: &KeyedLimiter<K, C, S, A>, key: &K) -> Quota
where
    K: Hash + ?Sized,
    C: Clock,
    S: BuildHasher,
    A: KeyedAlgorithm,
{
    let quota = limits.quota();
    // Which tier a key is in, only its bucket knows; and a burst means nothing to windows.
    if A::BY_WINDOWS || limits.tier_quota(1).is_some() { told_quota(quota, limits.peek(key)) } else { quota }
}

/// A limit for each key, which a closure tells.
///
/// A key is whatever can be hashed, a tuple or an `Option` too: all that are `None` share a bucket.
pub struct ByKey<F, K, C = DefaultClock, S = Seed, A = TokenBucket> {
    key: Arc<F>,
    limits: Arc<KeyedLimiter<K, C, S, A>>,
}

impl<F: Fn(&Head<'_>) -> K, K: Hash, C: Clock, S: BuildHasher, A: KeyedAlgorithm> ByKey<F, K, C, S, A> {
    /// By this key, in a limiter that you keep to look at it, or to change its quota.
    pub fn new(key: F, limits: Arc<KeyedLimiter<K, C, S, A>>) -> Self {
        Self { key: Arc::new(key), limits }
    }
}

impl<F: Fn(&Head<'_>) -> K, K: Hash, C: Clock, S: BuildHasher, A: KeyedAlgorithm> Limit for ByKey<F, K, C, S, A> {
    type Later = Ready<Answer>;

    #[inline]
    fn decide(&self, head: &Head<'_>, tell: bool) -> Decision<Self::Later> {
        decide(&self.limits, &(self.key)(head), tell)
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

/// A limit for each value of a header, such as an API key. Requests without it share a bucket with those where it is
/// empty.
///
/// Of a header that is there several times, the first counts.
pub struct ByHeader<C = DefaultClock, S = Seed, A = TokenBucket> {
    name: HeaderName,
    limits: Arc<KeyedLimiter<[u8], C, S, A>>,
}

impl<C: Clock, S: BuildHasher, A: KeyedAlgorithm> ByHeader<C, S, A> {
    /// By this header, in a limiter that you keep to look at it, or to change its quota.
    pub fn new(name: HeaderName, limits: Arc<KeyedLimiter<[u8], C, S, A>>) -> Self {
        Self { name, limits }
    }
}

impl<C: Clock, S: BuildHasher, A: KeyedAlgorithm> Limit for ByHeader<C, S, A> {
    type Later = Ready<Answer>;

    #[inline]
    fn decide(&self, head: &Head<'_>, tell: bool) -> Decision<Self::Later> {
        let value = head.headers.get(&self.name).map_or(&b""[..], |value| value.as_bytes());
        decide(&self.limits, value, tell)
    }

    fn key(&self, head: &Head<'_>) -> Option<String> {
        head.headers.get(&self.name)?.to_str().ok().map(String::from)
    }

    fn keyed(&self) -> Vec<KeyedStatus> {
        vec![KeyedStatus::of(&*self.limits)]
    }
}

/// Clones share the limits.
impl<C, S, A> Clone for ByHeader<C, S, A> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), limits: Arc::clone(&self.limits) }
    }
}

impl<C: fmt::Debug, S, A> fmt::Debug for ByHeader<C, S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByHeader").field("name", &self.name).field("limits", &self.limits).finish()
    }
}
