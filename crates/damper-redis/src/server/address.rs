//! Addresses: parsing them, and showing them without anything that can be a password.

use super::tls::Certificates;
use crate::limiter::RedisLimiterError;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError};

/// The text in place of a hidden part.
const HIDDEN: &str = "...";

/// The schemes of connections with TLS.
const SCHEMES_WITH_TLS: [&str; 2] = ["rediss", "valkeys"];

/// Parses a URL.
///
/// Returns an error if the connection would have less protection than the user asked for.
pub(super) fn parse(url: &str, certificates: Option<&Certificates>) -> Result<ConnectionInfo, RedisLimiterError> {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    let has_tls = SCHEMES_WITH_TLS.iter().any(|with_tls| scheme.eq_ignore_ascii_case(with_tls));
    // Another crate may have enabled TLS in the redis crate, but without the feature there is no provider of cryptography.
    if has_tls && !cfg!(feature = "tls") {
        return Err(RedisLimiterError::Tls { url: shown(url) });
    }
    let information = url.into_connection_info().map_err(|error| refused(url, &error))?;
    match information.addr() {
        ConnectionAddr::TcpTls { insecure: true, .. } => Err(RedisLimiterError::Insecure { url: shown(url) }),
        ConnectionAddr::TcpTls { .. } => Ok(information),
        _ if certificates.is_some() => Err(RedisLimiterError::WithoutTls { url: shown(url) }),
        _ => Ok(information),
    }
}

/// Returns the error of an unusable address.
pub(super) fn refused(url: &str, error: &RedisError) -> RedisLimiterError {
    RedisLimiterError::Url { url: shown(url), reason: reason(error) }
}

/// Returns the redis crate's reason, if it says more than that the URL is invalid.
///
/// The detail of the error is left out, because it can contain a part of the URL.
fn reason(error: &RedisError) -> Option<String> {
    let text = error.to_string();
    let mut letters = text.split(" - ").next().unwrap_or_default().chars();
    let reason: String = letters.next()?.to_lowercase().chain(letters).collect();
    (!reason.starts_with("redis URL") && !reason.starts_with("uRL")).then_some(reason)
}

/// Returns the address of the server to which a URL leads.
pub(super) fn of_server(address: &ConnectionAddr) -> String {
    match address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } if host.contains(':') => {
            format!("[{host}]:{port}")
        }
        ConnectionAddr::Unix(path) => path_shown(&path.to_string_lossy()),
        other => other.to_string(),
    }
}

/// Returns a URL without its secrets.
///
/// Only the scheme, the host, the port, the number of the database and the path of a socket are shown.
fn shown(url: &str) -> String {
    let (scheme, rest) = scheme_and_rest(url);
    if ["unix:", "redis+unix:", "valkey+unix:"].iter().any(|unix| scheme.starts_with(unix)) {
        return format!("{scheme}{}", path_shown(rest));
    }
    let (user, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => ("...@", rest),
        None => ("", rest),
    };
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let is_database = path.strip_prefix('/').is_some_and(|path| path.bytes().all(|byte| byte.is_ascii_digit()));
    let path = match path {
        "" => "",
        path if is_database => path,
        path if path.starts_with('/') => "/...",
        _ => HIDDEN,
    };
    format!("{scheme}{user}{}{path}", authority_shown(authority))
}

/// Splits a URL after the scheme and its separator; the first part is empty if there is no scheme.
fn scheme_and_rest(url: &str) -> (&str, &str) {
    let is_scheme = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if let Some(at) = url.find("://").filter(|&at| is_scheme(&url[..at])) {
        return url.split_at(at + "://".len());
    }
    match url.find(":/") {
        Some(at) if is_scheme(&url[..at]) => url.split_at(at + 1),
        _ => ("", url),
    }
}

/// Returns a host and a port as shown.
///
/// A colon without a port after it may separate a user and a password.
fn authority_shown(authority: &str) -> String {
    let is_host = |host: &str| {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        match in_brackets {
            Some(address) => address.bytes().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte)),
            None => !host.is_empty() && host.bytes().all(is_name),
        }
    };
    match authority.rsplit_once(':') {
        _ if authority.is_empty() || is_host(authority) => authority.to_owned(),
        Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok() => authority.to_owned(),
        Some((host, _)) if is_host(host) => format!("{host}:{HIDDEN}"),
        _ => HIDDEN.to_owned(),
    }
}

/// Returns the path of a socket as shown, up to the first character that may begin settings.
fn path_shown(path: &str) -> String {
    match path.find(['?', '#', '&', '=', '@', '%', ':']) {
        Some(end) => format!("{}{HIDDEN}", &path[..end]),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::shown;
    use crate::server::Target;

    fn error(url: &str) -> String {
        match Target::server(url, None) {
            Ok(_) => "none".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn nothing_that_can_be_a_password_is_shown() {
        let urls = [
            "unix:/x.sock?db=abc&pass=s3cret",
            "unix:/x.sock&db=abc&pass=s3cret",
            "unix:/x.sock%3Fpass=s3cret",
            "unix://:s3cret@/x.sock?db=abc",
            "redis://:s3cret",
            "redis://user:s3cret/0",
            "redis://user:s3cret@host/abc",
            "redis://user:s3cret@",
            "redis://host/s3cret",
            "redis://user:pa/s3cret",
            "redis://user:pa/s3cret@host:1/",
            "redis://user:pa?s3cret",
            "redis://host:1/abc?password=s3cret",
            "redis://host:1/#s3cret",
            "redis://host:1/?protocol=s3cret",
            "user:s3cret",
            "user:s3cret@host",
            ":s3cret",
            "s3cret@host:6379",
            "rediss://user:s3cret@host/",
            "rediss://user:s3cret",
            "rediss://user:s3cret@host/#insecure",
            "rediss://user:s3cret@host/#s3cret",
        ];
        for url in urls {
            // Some are addresses, if not those that were meant.
            let error = Target::server(url, None).err();
            assert!(!format!("{} {error:?}", shown(url)).contains("s3cret"), "{} {error:?}", shown(url));
        }
        // These numbers are no ports.
        assert_eq!(shown("redis://:12345/0"), "redis://.../0");
        assert_eq!(shown("redis://user:123456/0"), "redis://user:.../0");
    }

    #[test]
    fn rest_of_an_address_is_shown() {
        for url in ["redis://host:6379/0", "redis://[::1]:6379/", "127.0.0.1:6379", "http://127.0.0.1/", "unix:/x.sock"]
        {
            assert_eq!(shown(url), url);
        }
        assert_eq!(shown("redis://me:secret@host:1/2"), "redis://...@host:1/2");
    }

    #[test]
    fn wrong_address_is_shown_with_what_is_allowed_and_the_reason() {
        let allowed = "is no URL of Redis, such as redis://host:6379/0 or unix:/path";
        assert_eq!(error("127.0.0.1:6379"), format!("\"127.0.0.1:6379\" {allowed}"));
        assert_eq!(error("http://host/"), format!("\"http://host/\" {allowed}"));
        assert_eq!(error("redis://host/abc"), format!("\"redis://host/...\" {allowed}: invalid database number"));
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_names_the_feature_that_it_needs() {
        let text = "needs TLS: enable the feature tls of damper-redis, or redis-tls of damper";
        assert_eq!(error("rediss://host:6380/0"), format!("\"rediss://host:6380/0\" {text}"));
        assert_eq!(error("VALKEYS://me:secret@host"), format!("\"VALKEYS://...@host\" {text}"));
        assert_eq!(error("rediss://host/#insecure"), format!("\"rediss://host/...\" {text}"));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn any_certificate_is_never_accepted() {
        for scheme in ["rediss", "VALKEYS"] {
            assert_eq!(error(&format!("{scheme}://me:secret@[::1]:6380/0")), "none");
        }
        let text =
            "would accept any certificate: set the root of the server's with root_certificates() instead of #insecure";
        assert_eq!(error("rediss://me:secret@host/0#insecure"), format!("\"rediss://...@host/...\" {text}"));
    }
}
