//! Reads in the errors of a `Channel` how a call ended.

use core::error::Error;
use core::iter::successors;
use damper_core::gate::Ending;
use damper_core::internal::source_of;
use damper_http::internal::{self, is_refused_stream};
use tonic::{ConnectError, Status, TimeoutExpired};

/// Returns the ending that tonic's timeout or status tells; `None` for another error.
///
/// tonic also gives its own errors of transport a code, such as `UNKNOWN`. So all other codes are broken connections.
pub(crate) fn ending_of(error: &(dyn Error + 'static)) -> Option<Ending> {
    if error.is::<TimeoutExpired>() {
        return Some(Ending::TimedOut);
    }
    let status = error.downcast_ref::<Status>()?;
    let ending = Ending::of_grpc_code(status.code() as u32);
    Some(if ending.is_overload() { ending } else { Ending::Broken })
}

/// Returns whether the error or one of its sources shows that no server processed the request.
pub(crate) fn is_unprocessed(error: &(dyn Error + 'static)) -> bool {
    internal::is_unprocessed(error)
        || successors(Some(error), |&error| source_of(error)).any(<dyn Error>::is::<ConnectError>)
}

/// Returns whether an error shows that a connected server's application did not see the request.
///
/// The error or one of its sources shows that the server refused the stream, or that the request came back from a closed connection.
pub(crate) fn is_unseen(error: &(dyn Error + 'static)) -> bool {
    let mut is_unseen = false;
    for error in successors(Some(error), |&error| source_of(error)) {
        // No connection could be made.
        if error.is::<ConnectError>() {
            return false;
        }
        is_unseen |=
            error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled) || is_refused_stream(error);
    }
    is_unseen
}
