//! Where the gateway listens: an address, or a name that is looked up.

use serde::Serialize;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// `HOST:PORT` as it was given: the host is a name, an IPv4 address, or an IPv6 address in brackets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Listen(String);

impl Listen {
    /// Returns a free port of the loopback address.
    pub(crate) fn any_loopback_port() -> Self {
        Self("127.0.0.1:0".to_owned())
    }

    /// Looks the name up. IPv4 addresses come first, because the clients of a run call from such.
    pub(crate) fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let mut addresses: Vec<SocketAddr> = self.0.to_socket_addrs()?.collect();
        addresses.sort_by_key(SocketAddr::is_ipv6);
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        }
        Ok(addresses)
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "expected HOST:PORT, such as localhost:8080 or [::1]:8080";
        let (host, port) = text.rsplit_once(':').ok_or(example)?;
        if host.is_empty() {
            return Err(format!("no host before the port; {example}"));
        }
        if host.contains(':') && text.parse::<SocketAddr>().is_err() {
            return Err(format!("not an IPv6 address in brackets; {example}"));
        }
        port.parse::<u16>().map_err(|_| format!("port {port:?} is not a number from 0 to 65535; {example}"))?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Listen;

    fn resolved(text: &str) -> Vec<String> {
        let addresses = text.parse::<Listen>().expect("is HOST:PORT").resolve().expect("resolves");
        addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn localhost_resolves_to_the_ipv4_loopback_first() {
        assert_eq!(resolved("localhost:8080")[0], "127.0.0.1:8080");
    }

    #[test]
    fn addresses_stay_what_they_are() {
        assert_eq!(resolved("127.0.0.1:0"), ["127.0.0.1:0"]);
        assert_eq!(resolved("[::1]:80"), ["[::1]:80"]);
    }

    #[test]
    fn a_name_without_an_address_is_an_error() {
        // RFC 6761 reserves the domain `invalid`: no server knows a name in it.
        assert!("nowhere.invalid:80".parse::<Listen>().expect("is HOST:PORT").resolve().is_err());
    }

    #[test]
    fn errors_say_what_is_expected() {
        for text in ["nowhere", ":80", "::1:80", "localhost:http", "localhost:65536", "localhost:", "[::1:80"] {
            let error = text.parse::<Listen>().expect_err(text);
            assert!(error.contains("such as localhost:8080"), "{text}: {error}");
        }
    }
}
