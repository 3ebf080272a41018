//! Errors that show that no server processed the request.

#[cfg(feature = "http2")]
use super::refused_stream::is_refused_stream;
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
