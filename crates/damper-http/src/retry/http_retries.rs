//! The retries of HTTP.

use super::{BufferedBody, GiveUp, ReplayableBody, RetryProtocol};
use crate::{ClassifyResponse, Head, ResponseHead, Statuses};
use core::fmt;
use damper_core::retry::{Failure, RetryError};
use http_body::Body;

/// The retries of idempotent HTTP requests.
///
/// These are requests with an idempotent method, and those that the caller marks as [`Idempotent`].
///
/// It is the default protocol of a [`RetryLayer`](super::RetryLayer) and a [`HedgeLayer`](crate::HedgeLayer). `V` judges the outcomes: see
/// [`when`](super::RetryLayer::when). `K` decides how bodies are kept: cloned, or with
/// [`buffering`](super::RetryLayer::buffering) in memory.
#[derive(Clone, Copy)]
pub struct HttpRetries<V = Statuses, K = Cloned> {
    failures: V,
    bodies: K,
}

/// Bodies are [cloned](ReplayableBody) for each attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Cloned;

/// Bodies are kept in a [`BufferedBody`], up to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Buffered {
    limit: usize,
}

impl HttpRetries {
    pub(crate) const fn new() -> Self {
        Self { failures: Statuses, bodies: Cloned }
    }
}

impl<V, K> HttpRetries<V, K> {
    pub(crate) fn when<F>(&self, failures: F) -> HttpRetries<F, K>
    where
        K: Copy,
    {
        HttpRetries { failures, bodies: self.bodies }
    }

    pub(crate) fn buffering(&self, limit: usize) -> HttpRetries<V, Buffered>
    where
        V: Clone,
    {
        HttpRetries { failures: self.failures.clone(), bodies: Buffered { limit } }
    }
}

fn is_idempotent(head: &Head<'_>) -> bool {
    head.method.is_idempotent() || head.extensions.get::<Idempotent>().is_some()
}

impl<Q: ReplayableBody, V> RetryProtocol<Q> for HttpRetries<V, Cloned> {
    type Kept = Q;
    type Body = Q;

    #[inline]
    fn may_repeat(&self, head: &Head<'_>) -> bool {
        is_idempotent(head)
    }

    #[inline]
    fn keep(&self, body: Q) -> Q {
        body
    }

    #[inline]
    fn send(&self, body: Q) -> Q {
        body
    }

    #[inline]
    fn has_transparent_retries(&self) -> bool {
        false
    }
}

impl<Q: Body + Unpin, V> RetryProtocol<Q> for HttpRetries<V, Buffered> {
    type Kept = BufferedBody<Q>;
    type Body = BufferedBody<Q>;

    fn may_repeat(&self, head: &Head<'_>) -> bool {
        is_idempotent(head)
    }

    fn keep(&self, body: Q) -> BufferedBody<Q> {
        BufferedBody::new(body, self.bodies.limit)
    }

    fn send(&self, body: BufferedBody<Q>) -> BufferedBody<Q> {
        body
    }

    #[inline]
    fn has_transparent_retries(&self) -> bool {
        false
    }
}

impl<E, V: ClassifyResponse<E, Option<Failure>>, K> ClassifyResponse<E, Option<Failure>> for HttpRetries<V, K> {
    #[inline]
    fn classify(&self, response: Result<&ResponseHead<'_>, &E>) -> Option<Failure> {
        self.failures.classify(response)
    }
}

impl<E, V: ClassifyResponse<E, Option<Failure>>, K> GiveUp<E> for HttpRetries<V, K> {
    type Error = RetryError<E>;

    #[inline]
    fn give_up(&self, error: RetryError<E>) -> RetryError<E> {
        error
    }
}

impl<V, K: fmt::Debug> fmt::Debug for HttpRetries<V, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRetries").field("bodies", &self.bodies).finish_non_exhaustive()
    }
}

/// Marks a request as safe to be sent twice, although its method is not idempotent.
///
/// Put it into the request's extensions.
///
/// GET, HEAD, OPTIONS, TRACE, PUT and DELETE need no mark. Mark a POST if it only reads, or if the server recognizes a duplicate, for
/// example by an idempotency key.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::http::Idempotent;
/// use http::Request;
///
/// let request = Request::post("http://localhost/search").extension(Idempotent).body("a query")?;
/// # let _ = request;
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Idempotent;
