//! Errors that show that no server processed the request.

use core::error::Error;
use core::iter::successors;
use damper_core::internal::source_of;
use std::io;

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
