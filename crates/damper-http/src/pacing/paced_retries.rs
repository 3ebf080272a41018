//! The retries of a paced call.

use super::paced_attempt::NotAccepted;
use crate::retry::{ClassifyFailure, GiveUp, RetryProtocol};
use crate::{Head, ResponseHead};
use core::time::Duration;
use damper_core::retry::{Failure, GaveUp, RetryError};
use http::{Extensions, HeaderMap};

/// The retries of every request that the server's limit rejected, whatever its method is.
///
/// The server has not processed such a request.
///
/// The inner protocol `K` decides on bodies, headers and errors.
#[derive(Clone, Copy, Debug)]
pub struct PacedRetries<K> {
    pub(super) protocol: K,
    /// The longest time of a call, which no sleep outlasts.
    pub(super) longest: Duration,
}

impl<Q, K: RetryProtocol<Q>> RetryProtocol<Q> for PacedRetries<K> {
    type Kept = K::Kept;
    type Body = K::Body;

    #[inline]
    fn may_repeat(&self, _: &Head<'_>) -> bool {
        true
    }

    #[inline]
    fn keep(&self, body: Q) -> K::Kept {
        self.protocol.keep(body)
    }

    #[inline]
    fn send(&self, body: K::Kept) -> K::Body {
        self.protocol.send(body)
    }

    /// Returns `false`, because rejections are not transparent failures.
    #[inline]
    fn has_transparent_retries(&self) -> bool {
        false
    }

    #[inline]
    fn timeout(&self, head: &Head<'_>) -> Option<Duration> {
        self.protocol.timeout(head)
    }

    #[inline]
    fn prepare(&self, headers: &mut HeaderMap, previous_attempts: u32, time_left: Option<Duration>) {
        self.protocol.prepare(headers, previous_attempts, time_left);
    }
}

impl<E, K: ClassifyFailure<E>> ClassifyFailure<E> for PacedRetries<K> {
    fn failure(&self, response: Result<&ResponseHead<'_>, &E>) -> Option<Failure> {
        let Ok(head) = response else { return Some(Failure::FATAL) };
        let NotAccepted::Rejected(sleep) = head.extensions.get()? else { return Some(Failure::FATAL) };
        // The inner protocol knows whether the server forbids retries, as gRPC's pushback does.
        let is_declined = self.protocol.failure(response).is_some_and(|failure| failure == failure.declined());
        Some(match sleep {
            Ok(sleep) if !is_declined => Failure::THROTTLED.pushback(*sleep),
            _ => Failure::THROTTLED.declined(),
        })
    }
}

impl<E, K: GiveUp<E>> GiveUp<E> for PacedRetries<K> {
    type Error = K::Error;

    fn give_up(&self, error: RetryError<E>) -> K::Error {
        self.protocol.give_up(error)
    }

    fn mark_last(&self, extensions: &mut Extensions, reason: GaveUp) {
        let reason = match extensions.remove() {
            Some(NotAccepted::Rejected(Err(no_time))) => no_time,
            _ => reason,
        };
        extensions.insert(reason);
    }
}

/// Judges no outcome, because a pacer has already done so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Unjudged;

impl<E> ClassifyFailure<E> for Unjudged {
    fn failure(&self, _: Result<&ResponseHead<'_>, &E>) -> Option<Failure> {
        None
    }
}
