//! The error of an attempt to connect.

use super::{eviction, handshake};
use core::fmt;
use redis::{ErrorKind, RedisError, ServerErrorKind};
use std::sync::Arc;

/// The codes of errors that another attempt would meet again.
const FINAL_CODES: [&str; 3] = ["DENIED", "NOAUTH", "WRONGPASS"];

/// The words of such errors in the text that the client of a cluster makes of them.
const FINAL_TEXTS: [&str; 2] = ["AuthenticationFailed", "refused to switch database"];

/// The words of a server that has no room for a connection.
const NO_ROOM: &str = "max number of clients";

/// The words of the operating system and the redis crate for a connection that the server closed.
const CLOSED: [&str; 4] = ["Broken pipe", "Connection reset", "broken pipe", "unexpected end of file"];

/// The error of an attempt to connect.
#[derive(Clone, Debug)]
pub(crate) enum ConnectError {
    /// The server evicts keys, and the builder did not accept that.
    Eviction(String),
    /// The attempt took too long.
    TimedOut {
        /// Whether the connection would have been encrypted.
        has_tls: bool,
    },
    /// A server closed a connection that was not encrypted.
    Closed,
    /// The attempt failed with an error of the redis crate.
    Failed(Arc<RedisError>),
}

impl ConnectError {
    /// Returns a more exact error, given whether the connection would have been encrypted.
    pub(super) fn with_tls(self, has_tls: bool) -> Self {
        let Self::Failed(error) = &self else { return self };
        let words = handshake::words(error);
        match error.kind() {
            ErrorKind::Io if words == "timed out" => Self::TimedOut { has_tls },
            ErrorKind::Io if !has_tls && CLOSED.iter().any(|closed| words.contains(closed)) => Self::Closed,
            _ => self,
        }
    }

    /// Returns whether the server and this program failed to agree on an encrypted connection.
    pub(crate) fn is_of_handshake(&self) -> bool {
        matches!(self, Self::Failed(error) if handshake::failure(error).is_some())
    }

    /// Returns whether a server answered with an error that another attempt would meet again.
    pub(crate) fn is_final(&self) -> bool {
        let Self::Failed(error) = self else { return matches!(self, Self::Eviction(_)) };
        match error.kind() {
            _ if self.is_of_handshake() => true,
            ErrorKind::AuthenticationFailed
            | ErrorKind::InvalidClientConfig
            | ErrorKind::Server(ServerErrorKind::NoPerm) => true,
            ErrorKind::Server(ServerErrorKind::ResponseError) => !error.detail().unwrap_or_default().contains(NO_ROOM),
            ErrorKind::Io => FINAL_TEXTS.iter().any(|text| error.detail().unwrap_or_default().contains(text)),
            _ => error.code().is_some_and(|code| FINAL_CODES.contains(&code)),
        }
    }
}

impl From<RedisError> for ConnectError {
    fn from(error: RedisError) -> Self {
        Self::Failed(Arc::new(error))
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eviction(policy) => eviction::refusal(f, policy),
            Self::TimedOut { has_tls: false } => f.write_str("no answer in time"),
            Self::TimedOut { has_tls: true } => {
                f.write_str("no answer in time; a server that does not speak TLS gives none")
            }
            Self::Closed => f.write_str(
                "the server closed the connection; if it speaks only TLS, its address begins with rediss://",
            ),
            Self::Failed(error) => match handshake::failure(error) {
                Some(failure) => failure.fmt(f),
                None => fmt_failed(f, error),
            },
        }
    }
}

/// Writes an error of the server or of the connection.
fn fmt_failed(f: &mut fmt::Formatter<'_>, error: &RedisError) -> fmt::Result {
    match (error.kind(), error.code(), error.detail()) {
        (ErrorKind::AuthenticationFailed, ..) => {
            f.write_str("the server does not accept the user name and the password")
        }
        // The client of a cluster reports all errors of its servers in this way.
        (ErrorKind::Io, _, Some(detail)) => f.write_str(detail),
        (_, Some(code), Some(detail)) => write!(f, "the server says {code} {detail}"),
        _ => write!(f, "{error}"),
    }
}

impl core::error::Error for ConnectError {}

#[cfg(test)]
mod tests {
    use super::{ConnectError, ErrorKind, RedisError};

    #[test]
    fn errors_of_a_clusters_server_are_final_and_shown_without_the_clients_words() {
        let error = |cause: &str| {
            let what = "Failed to create initial connections";
            ConnectError::from(RedisError::from((ErrorKind::Io, what, cause.to_owned())))
        };
        for cause in ["Password authentication failed - AuthenticationFailed", "it refused to switch database"] {
            assert!(error(cause).is_final(), "{cause}");
            assert_eq!(error(cause).to_string(), cause);
        }
        assert!(!error("Connection refused (os error 111)").is_final());
    }
}
