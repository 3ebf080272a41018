//! Streams that a server of HTTP/2 refused.
//!
//! hyper has the error of the crate `h2` among the sources of its own, and no method that tells of it. So this file names that crate, and no
//! other one does.

use core::error::Error;
use h2::Reason;

/// Returns whether an error, its sources aside, says that the server refused the stream unseen.
///
/// A `GOAWAY` is the error only of streams after the last one that the server processes. The earlier ones go on, or end with the
/// connection.
#[must_use]
pub fn is_refused_stream(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<h2::Error>().is_some_and(|error| {
        let is_refusal = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        error.is_remote() && (is_refusal || error.is_go_away())
    })
}
