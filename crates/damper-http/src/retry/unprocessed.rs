//! Errors that show that no server processed the request.

use core::error::Error;
use core::iter::successors;
use damper_core::internal::source_of;
#[cfg(feature = "tonic")]
use h2::Reason;
use std::io;

/// Returns whether the error, or one among its sources, shows that no server processed the request: it did not leave, or was
/// refused unseen.
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
        // Other kinds, such as an unreachable host, may also end a connection that is established.
        error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    })
}

/// A `GOAWAY` is the error only of streams that came after the last one which the server processes; others go on, or end with
/// the connection.
#[cfg(feature = "tonic")]
fn was_refused(error: &h2::Error) -> bool {
    let is_refusal = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    error.is_remote() && (is_refusal || error.is_go_away())
}
