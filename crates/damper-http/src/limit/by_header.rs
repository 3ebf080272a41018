//! A limit for each value of a header.

use super::{Detail, KeyedLimit, Limit, LimitDecision, LimitedByTable, Refusal};
use crate::Head;
use alloc::string::String;
use alloc::sync::Arc;
use damper_core::gate::Forecast;
use damper_core::keyed::KeyedLimiter;
use http::HeaderName;

/// A limit for each value of a header, such as an API key.
///
/// Requests without the header share a bucket with those where it is empty.
///
/// If a request has the header several times, the first counts.
///
/// With the feature `tracing`, the log of a refusal has the value in clear, at the level debug. If the header holds a secret, such as
/// `Authorization`, mark its value as [sensitive](http::HeaderValue::set_sensitive) before. Then the log leaves it out.
#[derive(Clone, Debug)]
pub struct ByHeader<T = Arc<KeyedLimiter<[u8]>>> {
    name: HeaderName,
    limits: T,
}

impl<T: KeyedLimit<[u8]>> ByHeader<T> {
    /// Creates a limit by this header from an `Arc` of a limiter, or from a [`KeyedLimit`] of your own.
    ///
    /// Keep the `Arc` to inspect the limiter or to change its quota.
    pub fn new(name: HeaderName, limits: T) -> Self {
        Self { name, limits }
    }

    /// Returns the value of the header, and the limits.
    #[inline]
    pub(super) fn of<'a>(&self, head: &Head<'a>) -> (&'a [u8], &T) {
        (head.headers.get(&self.name).map_or(&b""[..], |value| value.as_bytes()), &self.limits)
    }
}

impl<T> ByHeader<T> {
    /// Returns a limit by the same header with other limits.
    pub(super) fn with_limits<U>(&self, limits: impl FnOnce(&T) -> U) -> ByHeader<U> {
        ByHeader { name: self.name.clone(), limits: limits(&self.limits) }
    }
}

impl<T: KeyedLimit<[u8]>> Limit for ByHeader<T> {
    type Future = T::Future;

    #[inline]
    fn decide(&self, head: &Head<'_>, cost: u32, detail: Detail) -> LimitDecision<Self::Future> {
        let (value, limits) = self.of(head);
        limits.decide(value, cost, detail)
    }

    fn forecast(&self, head: &Head<'_>, cost: u32) -> Forecast<Refusal> {
        let (value, limits) = self.of(head);
        limits.forecast(value, cost)
    }

    fn key(&self, head: &Head<'_>) -> Option<String> {
        let value = head.headers.get(&self.name).filter(|value| !value.is_sensitive())?;
        value.to_str().ok().map(String::from)
    }
}

#[cfg(feature = "metrics")]
impl<T: damper_metrics::Source> damper_metrics::Source for ByHeader<T> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.limits.read(readings);
    }
}

impl LimitedByTable for ByHeader {
    type Key = [u8];

    fn limits_mut(&mut self) -> &mut Arc<KeyedLimiter<[u8]>> {
        &mut self.limits
    }
}
