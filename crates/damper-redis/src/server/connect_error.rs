//! Why there is no connection.

use super::eviction;
use core::fmt;
use redis::{ErrorKind, RedisError, ServerErrorKind};
use std::sync::Arc;

/// Errors that another attempt meets again, as servers begin them.
const FINAL_CODES: [&str; 3] = ["DENIED", "NOAUTH", "WRONGPASS"];

/// The same in the text that the client of a cluster makes of a server's error.
const FINAL_TEXTS: [&str; 2] = ["AuthenticationFailed", "refused to switch database"];

/// The words of a server that has no room for a connection.
const NO_ROOM: &str = "max number of clients";

/// Why there is no connection.
#[derive(Clone, Debug)]
pub(crate) enum ConnectError {
    /// The server evicts keys, which is not accepted.
    Eviction(String),
    /// The attempt took too long.
    TimedOut,
    Failed(Arc<RedisError>),
}

impl ConnectError {
    /// Whether a server answered, and will say the same to another attempt.
    pub(crate) fn is_final(&self) -> bool {
        let Self::Failed(error) = self else { return matches!(self, Self::Eviction(_)) };
        match error.kind() {
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
            Self::TimedOut => f.write_str("no answer in time"),
            Self::Failed(error) => match (error.kind(), error.code(), error.detail()) {
                (ErrorKind::AuthenticationFailed, ..) => {
                    f.write_str("the server does not accept the user name and the password")
                }
                // Of the client of a cluster.
                (ErrorKind::Io, _, Some(detail)) => f.write_str(detail),
                (_, Some(code), Some(detail)) => write!(f, "the server says {code} {detail}"),
                _ => write!(f, "{error}"),
            },
        }
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
