//! Calls that never left this process.

use core::error::Error;
use damper_core::is_refusal;

/// Returns whether an error says nothing about the server, because the call was not sent.
///
/// Either a layer of damper refused the call, or the request could not be made.
#[must_use]
pub(crate) fn is_not_sent(error: &(dyn Error + 'static)) -> bool {
    #[cfg(feature = "tower")]
    if crate::RequestNotMade::find_in(error).is_some() {
        return true;
    }
    is_refusal(error)
}
