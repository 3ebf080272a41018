//! The retry protocol of retries and hedges, which are on or off.

use damper_core::retry::{Failure, RetryError};
use damper_http::{ClassifyResponse, GiveUp, Head, ResponseHead, RetryProtocol};
use http::HeaderMap;
use std::time::Duration;

/// A retry protocol that can be off. Then no request is sent twice, even one that reached no server.
///
/// A part that is off stays in the stack, because a part that repeats requests gives the transport a body of another type.
#[derive(Clone, Copy, Debug)]
#[cfg(all(feature = "tower", feature = "tokio"))]
pub struct OptionalRetries<K> {
    pub(super) rules: K,
    pub(super) is_on: bool,
}

impl<Q, K: RetryProtocol<Q>> RetryProtocol<Q> for OptionalRetries<K> {
    type Kept = K::Kept;
    type Body = K::Body;

    #[inline]
    fn may_repeat(&self, head: &Head<'_>) -> bool {
        self.is_on && self.rules.may_repeat(head)
    }

    #[inline]
    fn keep(&self, body: Q) -> K::Kept {
        self.rules.keep(body)
    }

    #[inline]
    fn send(&self, body: K::Kept) -> K::Body {
        self.rules.send(body)
    }

    #[inline]
    fn has_transparent_retries(&self) -> bool {
        self.is_on && self.rules.has_transparent_retries()
    }

    #[inline]
    fn timeout(&self, head: &Head<'_>) -> Option<Duration> {
        self.rules.timeout(head)
    }

    #[inline]
    fn prepare(&self, headers: &mut HeaderMap, previous_attempts: u32, time_left: Option<Duration>) {
        self.rules.prepare(headers, previous_attempts, time_left);
    }
}

impl<E, K: ClassifyResponse<E, Option<Failure>>> ClassifyResponse<E, Option<Failure>> for OptionalRetries<K> {
    #[inline]
    fn classify(&self, response: Result<&ResponseHead<'_>, &E>) -> Option<Failure> {
        let failure = self.rules.classify(response)?;
        Some(if self.is_on { failure } else { Failure::FATAL })
    }
}

impl<E, K: ClassifyResponse<E, Option<Failure>>> GiveUp<E> for OptionalRetries<K> {
    type Error = RetryError<E>;

    #[inline]
    fn give_up(&self, error: RetryError<E>) -> RetryError<E> {
        error
    }
}
