//! Errors of a call.

use crate::document::ReadError;
use damper_core::deadline::DeadlineExceeded;
use damper_core::limit::Denied;
use http::StatusCode;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Why a call has no Mesh response.
#[non_exhaustive]
pub enum ClientError {
    /// The HTTP client failed.
    Transport(Box<dyn Error + Send + Sync>),
    /// The response's body broke off, or exceeded the client's maximum.
    Body(Box<dyn Error + Send + Sync>),
    /// The response is not a Mesh document.
    Unreadable {
        /// The status of the response.
        status: StatusCode,
        /// The mistake in its body.
        error: ReadError,
    },
    /// The response belongs to another request.
    WrongId {
        /// The id of that request.
        id: String,
    },
    /// The request's own deadline is malformed.
    Deadline(ReadError),
    /// The deadline has passed.
    DeadlineExceeded(DeadlineExceeded),
    /// Nothing was sent, because the limits of the service require too long a wait.
    ///
    /// The wait is the refusal's `retry_after`. The error is one of damper's own refusals: see
    /// [`is_refusal`](damper_core::is_refusal).
    Paced(Denied),
}

impl ClientError {
    /// Returns the wait until the service's limits allow the call, if they kept it from being sent.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Paced(denied) => denied.retry_after(),
            _ => None,
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport(_) => f.write_str("the HTTP client failed"),
            Self::Body(_) => f.write_str("the body of the response could not be read"),
            Self::Unreadable { status, .. } => write!(f, "the response with status {status} is unreadable"),
            Self::WrongId { id } => write!(f, "the response answers the request {id:?}"),
            Self::Deadline(_) => f.write_str("the deadline of the request is malformed"),
            Self::DeadlineExceeded(_) => f.write_str("the call did not end in time"),
            Self::Paced(_) => f.write_str("the limits of the service do not allow the call in time"),
        }
    }
}

damper_core::internal::debug_by_display!(ClientError, with sources);

impl Error for ClientError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Transport(error) | Self::Body(error) => Some(&**error),
            Self::Unreadable { error, .. } | Self::Deadline(error) => Some(error),
            Self::WrongId { .. } => None,
            Self::DeadlineExceeded(error) => Some(error),
            Self::Paced(denied) => Some(denied),
        }
    }
}
