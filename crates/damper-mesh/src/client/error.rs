//! Why there is no answer.

use crate::deadline::DeadlineError;
use crate::document::ReadError;
use damper_core::deadline::DeadlineExceeded;
use http::StatusCode;
use std::error::Error;
use std::fmt;

/// Why a call got no answer of Mesh. `E` is the error of the HTTP client.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError<E> {
    /// The HTTP client failed.
    Transport(E),
    /// The body of the response broke off, or was larger than the client reads.
    Body(Box<dyn Error + Send + Sync>),
    /// The response is no document of Mesh.
    Unreadable {
        /// The status of the response.
        status: StatusCode,
        /// The error in its body.
        error: ReadError,
    },
    /// The response answers another request.
    WrongId {
        /// The id of that request.
        id: String,
    },
    /// The request's own deadline is malformed.
    Deadline(DeadlineError),
    /// The deadline has passed, or will before the limits of the service allow the call.
    DeadlineExceeded(DeadlineExceeded),
}

impl<E: fmt::Display> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport(error) => error.fmt(f),
            Self::Body(error) => write!(f, "the response broke off: {error}"),
            Self::Unreadable { status, error } => write!(f, "the response with status {status} is unreadable: {error}"),
            Self::WrongId { id } => write!(f, "the response answers the request {id:?}"),
            Self::Deadline(error) => error.fmt(f),
            Self::DeadlineExceeded(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for CallError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Transport(error) => Some(error),
            Self::Body(error) => Some(&**error),
            Self::Unreadable { error, .. } => Some(error),
            Self::WrongId { .. } => None,
            Self::Deadline(error) => Some(error),
            Self::DeadlineExceeded(error) => Some(error),
        }
    }
}
