//! The decision by `Statuses` whether another attempt may help, and the errors of unprocessed requests.

use crate::{ClassifyResponse, ResponseHead, Statuses, wire};
use alloc::boxed::Box;
#[cfg(feature = "hyper")]
use alloc::string::ToString;
use core::error::Error;
use core::iter::successors;
use damper_core::gate::{Ending, Verdict};
use damper_core::internal::source_of;
use damper_core::retry::{EveryErr, Failure};
use http::StatusCode;
use std::io;

/// Retries and hedges judge so by default.
impl Statuses {
    /// Returns the kind of failure of a response, or of the error in its place.
    ///
    /// It returns `None` for a response that the caller gets. 408, 502, 503, 504 and errors are transient, and 429 is throttled.
    ///
    /// | outcome | another attempt |
    /// |---|---|
    /// | 408, 502, 503, 504 | after the backoff |
    /// | 429 | after the backoff for [throttled](damper_core::Retry::throttled_base) calls |
    /// | a `Retry-After` with any of these | not before, spread out after it |
    /// | a refused connection; with the feature `hyper`, a request that hyper gave back unsent; with the feature `http2` of this crate, which `tonic` of damper enables, one that HTTP/2 refused, by `REFUSED_STREAM` or a `GOAWAY` that came before it | of every method, and the first one costs nothing of the budget |
    /// | an error of the transport, the timeout of one attempt | after the backoff |
    /// | an error of damper's own: [`CircuitOpen`](damper_core::CircuitOpen), [`Denied`](damper_core::Denied), [`DeadlineExceeded`](damper_core::DeadlineExceeded) | never |
    /// | with the feature `hyper`, and over HTTP/2 with `http2`, an error of the request itself: its own body failed, as when the client of a proxy breaks off an upload | never |
    /// | all other responses | never |
    ///
    /// # Examples
    ///
    /// Call it from your own closure. A client knows better than this function which of its errors left nothing on the wire:
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Retry;
    /// use damper::http::{ResponseHead, RetryLayer, Statuses};
    /// use damper::retry::Failure;
    /// use hyper_util::client::legacy;
    ///
    /// # async fn sleep(_: std::time::Duration) {}
    /// let layer = RetryLayer::sleeping_by(Retry::new(3), sleep)
    ///     .when(|response: Result<&ResponseHead, &legacy::Error>| match response {
    ///         Err(error) if error.is_connect() => Some(Failure::TRANSIENT.unprocessed()),
    ///         other => Statuses::failure(other.map_err(|error| error as _)),
    ///     });
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn failure(response: Result<&ResponseHead<'_>, &(dyn Error + 'static)>) -> Option<Failure> {
        match response {
            Ok(head) => {
                // The server gave up waiting for the request: only for a retry is that another ending than that of a 4xx.
                let failure = match head.status {
                    StatusCode::REQUEST_TIMEOUT => Failure::TRANSIENT,
                    status => Failure::of_verdict(&Verdict::of(Ending::of_status(status.as_u16())))?,
                };
                Some(failure.retry_after(wire::retry_after_in(head.headers)))
            }
            Err(error) if is_fault_of_request(error) => Some(Failure::FATAL),
            Err(error) => {
                let failure = EveryErr::judge(error);
                Some(if failure.may_retry() && is_unprocessed(error) { failure.unprocessed() } else { failure })
            }
        }
    }

    /// Returns the same as [`failure`](Self::failure), for a service whose errors are in boxes. Pass it to [`when`](super::RetryLayer::when).
    ///
    /// The services of tower's timeouts have such errors.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Retry;
    /// use damper::http::{RetryLayer, Statuses};
    ///
    /// # async fn sleep(_: std::time::Duration) {}
    /// let layer = RetryLayer::sleeping_by(Retry::new(3), sleep).when(Statuses::failure_boxed);
    /// # let _ = layer;
    /// ```
    #[must_use]
    #[expect(clippy::borrowed_box, reason = "the error of a service is the box")]
    pub fn failure_boxed(response: Result<&ResponseHead<'_>, &Box<dyn Error + Send + Sync>>) -> Option<Failure> {
        Self::failure(response.map_err(|error| &**error as _))
    }
}

impl<E: Error + 'static> ClassifyResponse<E, Option<Failure>> for Statuses {
    fn classify(&self, response: Result<&ResponseHead<'_>, &E>) -> Option<Failure> {
        Self::failure(response.map_err(|error| error as _))
    }
}

/// Returns whether the request itself is at fault: it could not be made, or its own body failed.
///
/// The server has nothing to do with that, and another attempt would fail in the same way. hyper calls such an error one of its user. Over
/// HTTP/2 it is the reset of a stream by this side.
#[must_use]
pub fn is_fault_of_request(error: &(dyn Error + 'static)) -> bool {
    #[cfg(feature = "hyper")]
    if successors(Some(error), |&error| source_of(error)).any(is_error_of_user) {
        return true;
    }
    crate::RequestNotMade::find_in(error).is_some()
}

/// The text of hyper's error for a connection that ended before it took the request.
#[cfg(feature = "hyper")]
const CONNECTION_ENDED: &str = "dispatch task is gone";

/// The text of the source of the same error if the request's body has panicked.
#[cfg(feature = "hyper")]
const BODY_PANICKED: &str = "user code panicked";

/// Returns whether an error, its sources aside, comes from the request that hyper was given.
///
/// hyper also calls it an error of its user that a connection ended while the request waited for a stream of it. The request is not at fault
/// then, unless its body has panicked. hyper has no method for these errors, so this function compares their texts.
#[must_use]
#[cfg(feature = "hyper")]
pub fn is_error_of_user(error: &(dyn Error + 'static)) -> bool {
    #[cfg(feature = "http2")]
    if let Some(error) = error.downcast_ref::<h2::Error>() {
        return error.is_reset() && !error.is_remote() && !error.is_library();
    }
    let has_panicked = |error: &hyper::Error| error.source().is_some_and(|source| source.to_string() == BODY_PANICKED);
    error
        .downcast_ref::<hyper::Error>()
        .is_some_and(|error| error.is_user() && (error.to_string() != CONNECTION_ENDED || has_panicked(error)))
}

/// Returns whether the error or one of its sources shows that no server processed the request.
///
/// The request was not sent, or it was refused unseen.
#[must_use]
pub fn is_unprocessed(error: &(dyn Error + 'static)) -> bool {
    successors(Some(error), |&error| source_of(error)).any(|error| {
        #[cfg(feature = "hyper")]
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled) {
            return true;
        }
        #[cfg(feature = "http2")]
        if is_refused_stream(error) {
            return true;
        }
        // Other kinds, such as an unreachable host, may also end an established connection.
        error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    })
}

/// Returns whether an error, its sources aside, says that the server refused the stream unseen.
///
/// A `GOAWAY` is the error only of streams after the last one that the server processes. The earlier ones go on, or end with the
/// connection. hyper has the error of the crate `h2` among its sources and has no method for it, so this function names that crate.
#[must_use]
#[cfg(feature = "http2")]
pub fn is_refused_stream(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<h2::Error>().is_some_and(|error| {
        let is_refusal = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
        error.is_remote() && (is_refusal || error.is_go_away())
    })
}
