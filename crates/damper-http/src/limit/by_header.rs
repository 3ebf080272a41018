//! A limit for each value of a header.

use super::{Answer, Decision, Detail, KeyedStatus, Limit, keyed};
use crate::Head;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::future::Ready;
use core::hash::BuildHasher;
use damper_core::keyed::KeyedLimiter;
use damper_core::limit::{KeyedAlgorithm, TokenBucket};
use damper_core::time::{Clock, DefaultClock, Seed};
use http::HeaderName;

/// A limit for each value of a header, such as an API key. Requests without the header share a bucket with those where
/// it is empty.
///
/// If a request has the header several times, the first counts.
pub struct ByHeader<C = DefaultClock, S = Seed, A = TokenBucket> {
    name: HeaderName,
    limits: Arc<KeyedLimiter<[u8], C, S, A>>,
}

impl<C: Clock, S: BuildHasher, A: KeyedAlgorithm> ByHeader<C, S, A> {
    /// Creates a limit by this header from a limiter, which you keep to inspect it or to change its quota.
    pub fn new(name: HeaderName, limits: Arc<KeyedLimiter<[u8], C, S, A>>) -> Self {
        Self { name, limits }
    }
}

impl<C: Clock, S: BuildHasher, A: KeyedAlgorithm> Limit for ByHeader<C, S, A> {
    type Future = Ready<Answer>;

    #[inline]
    fn decide(&self, head: &Head<'_>, detail: Detail) -> Decision<Self::Future> {
        let value = head.headers.get(&self.name).map_or(&b""[..], |value| value.as_bytes());
        keyed::decide(&self.limits, value, detail)
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
