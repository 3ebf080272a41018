//! A limit for each key.

use super::global::told_quota;
use super::{Answer, Decision, Limit, Limited, Refusal, Standing};
use crate::clock::{Clock, DefaultClock};
use crate::http::Head;
use crate::keyed::KeyedLimiter;
use crate::limit::Denied;
use crate::quota::Quota;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::future::Ready;
use core::hash::{BuildHasher, Hash};
use http::HeaderName;
use std::hash::RandomState;

/// Takes a token of a key.
#[inline]
pub(super) fn check<K: Hash + ?Sized, C: Clock, S: BuildHasher>(
    limits: &KeyedLimiter<K, C, S>,
    key: &K,
    tell: bool,
) -> Answer {
    if tell {
        return check_and_tell(limits, key);
    }
    match limits.check(key) {
        Ok(_) => Ok(None),
        Err(denied) => Err(refusal(limits, key, denied)),
    }
}

/// Apart, so that where nobody asks how the limit stands that is not computed.
#[inline(never)]
fn check_and_tell<K: Hash + ?Sized, C: Clock, S: BuildHasher>(limits: &KeyedLimiter<K, C, S>, key: &K) -> Answer {
    match limits.check(key) {
        Ok(allowed) => Ok(Some(Standing::new(quota_of(limits, key), allowed.remaining(), allowed.resets_in()))),
        Err(denied) => Err(refusal(limits, key, denied)),
    }
}

#[cold]
fn refusal<K: Hash + ?Sized, C: Clock, S: BuildHasher>(
    limits: &KeyedLimiter<K, C, S>,
    key: &K,
    denied: Denied,
) -> Refusal {
    Limited::by(denied, quota_of(limits, key)).into()
}

/// The quota of a key, as headers tell it.
fn quota_of<K: Hash + ?Sized, C: Clock, S: BuildHasher>(limits: &KeyedLimiter<K, C, S>, key: &K) -> Quota {
    let quota = limits.quota();
    // Which tier a key is in, only its bucket knows.
    if limits.tier_quota(1).is_some() { told_quota(quota, limits.peek(key)) } else { quota }
}

/// A limit for each key, which a closure tells.
///
/// A key is whatever can be hashed, a tuple or an `Option` too: all that are `None` share a bucket.
pub struct By<F, K, C = DefaultClock, S = RandomState> {
    key: Arc<F>,
    limits: Arc<KeyedLimiter<K, C, S>>,
}

impl<F: Fn(&Head<'_>) -> K, K: Hash, C: Clock, S: BuildHasher> By<F, K, C, S> {
    /// By this key, in a limiter that you keep to look at it, or to change its quota.
    pub fn new(key: F, limits: Arc<KeyedLimiter<K, C, S>>) -> Self {
        Self { key: Arc::new(key), limits }
    }
}

impl<F: Fn(&Head<'_>) -> K, K: Hash, C: Clock, S: BuildHasher> Limit for By<F, K, C, S> {
    type Later = Ready<Answer>;

    #[inline]
    fn decide(&self, head: &Head<'_>, tell: bool) -> Decision<Self::Later> {
        Decision::Now(check(&self.limits, &(self.key)(head), tell))
    }

    fn evictions(&self) -> u64 {
        self.limits.evictions()
    }
}

/// Clones share the limits.
impl<F, K, C, S> Clone for By<F, K, C, S> {
    fn clone(&self) -> Self {
        Self { key: Arc::clone(&self.key), limits: Arc::clone(&self.limits) }
    }
}

impl<F, K, C: fmt::Debug, S> fmt::Debug for By<F, K, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("By").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// A limit for each value of a header, such as an API key. Requests without it share a bucket with those where it is
/// empty.
///
/// Of a header that is there several times, the first counts.
pub struct ByHeader<C = DefaultClock, S = RandomState> {
    name: HeaderName,
    limits: Arc<KeyedLimiter<[u8], C, S>>,
}

impl<C: Clock, S: BuildHasher> ByHeader<C, S> {
    /// By this header, in a limiter that you keep to look at it, or to change its quota.
    pub fn new(name: HeaderName, limits: Arc<KeyedLimiter<[u8], C, S>>) -> Self {
        Self { name, limits }
    }
}

impl<C: Clock, S: BuildHasher> Limit for ByHeader<C, S> {
    type Later = Ready<Answer>;

    #[inline]
    fn decide(&self, head: &Head<'_>, tell: bool) -> Decision<Self::Later> {
        let value = head.headers.get(&self.name).map_or(&b""[..], |value| value.as_bytes());
        Decision::Now(check(&self.limits, value, tell))
    }

    fn key(&self, head: &Head<'_>) -> Option<String> {
        head.headers.get(&self.name)?.to_str().ok().map(String::from)
    }

    fn evictions(&self) -> u64 {
        self.limits.evictions()
    }
}

/// Clones share the limits.
impl<C, S> Clone for ByHeader<C, S> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), limits: Arc::clone(&self.limits) }
    }
}

impl<C: fmt::Debug, S> fmt::Debug for ByHeader<C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByHeader").field("name", &self.name).field("limits", &self.limits).finish()
    }
}
