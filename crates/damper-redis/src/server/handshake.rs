//! Failures of the TLS handshake, with advice.

use core::fmt;
use redis::{ErrorKind, RedisError};

/// The beginnings of rustls's messages about a failed handshake.
///
/// They are matched as text, because the client of a cluster passes on only the text of an error.
const BEGINNINGS: [&str; 5] = [
    "invalid peer certificate: ",
    "peer is incompatible: ",
    "peer sent no certificates",
    "received corrupt message",
    "received fatal alert: ",
];

/// The message of a server fault that may be gone at the next attempt.
const TRANSIENT: &str = "received fatal alert: InternalError";

/// Parts of rustls's messages, and the advice for each.
const ADVICE: [(&str, &str); 5] = [
    ("UnknownIssuer", "set the root of the server's certificate with root_certificates()"),
    ("received corrupt message", "the server does not speak TLS"),
    ("CertificateRequired", "the server asks for a certificate: set it with client_certificate()"),
    // A server with TLS 1.2 reports a missing certificate in this way.
    ("HandshakeFailure", "the server may ask for a certificate: set it with client_certificate()"),
    ("UnknownCA", "the server does not trust what client_certificate() was issued by"),
];

/// The failure of a handshake, in the words of rustls.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure(String);

/// Returns the failure if `error` is about a handshake.
pub(super) fn failure(error: &RedisError) -> Option<Failure> {
    if !matches!(error.kind(), ErrorKind::Io | ErrorKind::Client) {
        return None;
    }
    let text = words(error);
    let is_failure = BEGINNINGS.iter().any(|beginning| text.starts_with(beginning)) && text != TRANSIENT;
    is_failure.then_some(Failure(text))
}

/// Returns the words of the cause, without the prefix that the client of a cluster adds.
pub(super) fn words(error: &RedisError) -> String {
    error.detail().map_or_else(|| error.to_string(), str::to_owned)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        write!(f, "no TLS: {text}")?;
        let advice = ADVICE.iter().filter(|(part, _)| text.contains(part));
        advice.map(|(_, advice)| advice).try_for_each(|advice| write!(f, "; {advice}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, failure};
    use redis::{ErrorKind, RedisError};
    use std::io;

    fn of_server(text: &str) -> Option<Failure> {
        failure(&RedisError::from(io::Error::new(io::ErrorKind::InvalidData, text)))
    }

    #[test]
    fn failures_are_found_in_the_errors_of_servers_and_of_clusters() {
        let text = "invalid peer certificate: UnknownIssuer";
        let of_cluster = (ErrorKind::Io, "Failed to create initial connections", text.to_owned());
        for found in [of_server(text), failure(&RedisError::from(of_cluster))] {
            assert_eq!(
                found.map(|failure| failure.to_string()).as_deref(),
                Some(
                    "no TLS: invalid peer certificate: UnknownIssuer; \
                     set the root of the server's certificate with root_certificates()"
                )
            );
        }
    }

    #[test]
    fn transient_errors_are_no_failures() {
        for text in ["received fatal alert: InternalError", "Connection refused (os error 111)", "tls handshake eof"] {
            assert_eq!(of_server(text), None, "{text}");
        }
    }
}
