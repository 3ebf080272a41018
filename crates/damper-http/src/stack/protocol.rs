//! The differences between HTTP and gRPC that the parts need.

use super::{BoxError, StackPart};
use crate::Head;
use crate::ResponseHead;
use crate::completion::AtHead;
use crate::retry::{ClassifyFailure, GiveUp, HttpRetries, RetryProtocol};
use crate::throttle::Rejections;
use core::time::Duration;
use damper_core::retry::{Failure, RetryError};
use http::HeaderMap;

/// The protocol of a [client's stack](super::client_stack): [`HttpProtocol`], or `damper::tonic::Grpc`.
///
/// It completes the parts that the stack makes itself, so that breaker, throttle, retries and hedge judge by the same rules. A layer
/// that is passed as it is keeps its own rules.
///
/// Implement it for other protocols over HTTP.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the protocol of a client's stack",
    note = "`HttpProtocol` is the default; for gRPC, pass `damper::tonic::Grpc::new()`"
)]
pub trait StackProtocol {
    /// When a call has ended, and how: a [`Completion`](crate::Completion).
    type Completion;

    /// When a call has ended, and whether the server rejected it: a [`Completion`](crate::Completion) for throttles.
    type Rejections;

    /// Which requests are sent again, and after which outcomes: a [`RetryProtocol`](crate::RetryProtocol).
    type Retries;

    /// Returns when a call has ended.
    fn completion(&self) -> Self::Completion;

    /// Returns when a call has ended, for a throttle.
    fn rejections(&self) -> Self::Rejections;

    /// Returns the rules of retries and hedges.
    fn retries(&self) -> Self::Retries;

    /// Returns the error of a call that a part ended, in the form that clients of this protocol expect. Default: as it is.
    ///
    /// The error has to be in the chain of the sources of the one that is returned.
    #[must_use]
    fn ended(_part: StackPart, error: BoxError) -> BoxError {
        error
    }
}

/// HTTP, judged by the head of the response: [`ServerErrors`](crate::ServerErrors) for breakers, [`Rejections`] for throttles,
/// [`TransientFailures`](crate::TransientFailures) for retries and hedges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HttpProtocol;

impl StackProtocol for HttpProtocol {
    type Completion = AtHead;
    type Rejections = AtHead<Rejections>;
    type Retries = HttpRetries;

    fn completion(&self) -> AtHead {
        AtHead::new()
    }

    fn rejections(&self) -> AtHead<Rejections> {
        AtHead::rejections()
    }

    fn retries(&self) -> HttpRetries {
        HttpRetries::new()
    }
}

/// The retries of a protocol, which give a call up with a [`RetryError`] whatever the protocol is.
#[derive(Clone, Copy, Debug)]
pub struct StackRetries<K>(pub(super) K);

impl<Q, K: RetryProtocol<Q>> RetryProtocol<Q> for StackRetries<K> {
    type Kept = K::Kept;
    type Body = K::Body;

    #[inline]
    fn may_repeat(&self, head: &Head<'_>) -> bool {
        self.0.may_repeat(head)
    }

    #[inline]
    fn keep(&self, body: Q) -> K::Kept {
        self.0.keep(body)
    }

    #[inline]
    fn send(&self, body: K::Kept) -> K::Body {
        self.0.send(body)
    }

    #[inline]
    fn timeout(&self, head: &Head<'_>) -> Option<Duration> {
        self.0.timeout(head)
    }

    #[inline]
    fn prepare(&self, headers: &mut HeaderMap, previous_attempts: u32, time_left: Option<Duration>) {
        self.0.prepare(headers, previous_attempts, time_left);
    }
}

impl<E, K: ClassifyFailure<E>> ClassifyFailure<E> for StackRetries<K> {
    #[inline]
    fn failure(&self, response: Result<&ResponseHead<'_>, &E>) -> Option<Failure> {
        self.0.failure(response)
    }
}

impl<E, K: ClassifyFailure<E>> GiveUp<E> for StackRetries<K> {
    type Error = RetryError<E>;

    #[inline]
    fn give_up(&self, error: RetryError<E>) -> RetryError<E> {
        error
    }
}
