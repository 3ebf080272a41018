//! Errors that show that no server processed the request.

use core::error::Error;
use core::iter::successors;
use damper_core::internal::source_of;
#[cfg(feature = "tonic")]
use h2::Reason;
use std::io;

/// Returns whether the error or one of its sources shows that no server processed the request.
///
/// The request was not sent, or it was refused unseen.
pub(crate) fn is_unprocessed(error: &(dyn Error + 'static)) -> bool {
    successors(Some(error), |&error| source_of(error)).any(|error| {
        #[cfg(any(feature = "hyper", feature = "tonic"))]
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled) {
            return true;
        }
        #[cfg(feature = "tonic")]
        if error.is::<tonic::ConnectError>() || error.downcast_ref().is_some_and(was_refused) {
            return true;
        }
        // Other kinds, such as an unreachable host, may also end an established connection.
        error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    })
}

/// Returns whether an error shows that a connected server's application did not see the request.
///
/// The error or one of its sources shows that the server refused the stream, or that the request came back from a closed connection.
#[cfg(feature = "tonic")]
pub(crate) fn is_unseen(error: &(dyn Error + 'static)) -> bool {
    let mut is_unseen = false;
    for error in successors(Some(error), |&error| source_of(error)) {
        // No connection could be made.
        if error.is::<tonic::ConnectError>() {
            return false;
        }
        is_unseen |= error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled)
            || error.downcast_ref().is_some_and(was_refused);
    }
    is_unseen
}

/// Returns whether the server refused the stream.
///
/// A `GOAWAY` is the error only of streams after the last one that the server processes. The earlier ones go on, or end with the
/// connection.
#[cfg(feature = "tonic")]
fn was_refused(error: &h2::Error) -> bool {
    let is_refusal = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    error.is_remote() && (is_refusal || error.is_go_away())
}
