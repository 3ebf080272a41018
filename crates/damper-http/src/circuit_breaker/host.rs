//! The host that a request is for.

use crate::Head;
use core::fmt::Write;
use core::net::{IpAddr, Ipv6Addr};
use core::str;
use http::Uri;
use http::header::HOST;
use http::uri::{Authority, Scheme};

/// What fits without an allocation: a name has at most 253 characters, and most are far shorter.
const SHORT: usize = 96;

/// Calls `with` with the name of the host that a request is for, and its port, such as `api.example.com:443`.
///
/// Every host has one name, however the request spells it:
/// - a name is in lower case, without the dot that may end it;
/// - an IPv6 address is in its canonical form, such as `[2001:db8::1]`;
/// - an IPv4-mapped address is the IPv4 address, because that is what a client connects to.
///
/// The port is that of the scheme where none is named, and absent if no scheme is either. Where the target has no host,
/// it is taken from the header `Host`; if that is not there, it is the empty one.
pub(super) fn with_host<T>(head: &Head<'_>, with: impl FnOnce(&str) -> T) -> T {
    if let Some(authority) = head.uri.authority() {
        return with_name(authority.host(), port(authority, head.uri), with);
    }
    match head.headers.get(HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok()) {
        Some(authority) => with_name(authority.host(), authority.port_u16(), with),
        None => with(""),
    }
}

fn with_name<T>(host: &str, port: Option<u16>, with: impl FnOnce(&str) -> T) -> T {
    if let Some(address) = address_in_brackets(host) {
        let mut name = Name { bytes: [0; SHORT], len: 0 };
        // An address always fits.
        _ = match address.to_canonical() {
            IpAddr::V4(address) => write!(name, "{address}"),
            IpAddr::V6(address) => write!(name, "[{address}]"),
        };
        return with_canonical(name.as_str(), port, with);
    }
    let without_dot = host.strip_suffix('.').filter(|name| !name.is_empty());
    with_canonical(without_dot.unwrap_or(host), port, with)
}

/// The IPv6 address that a host is.
fn address_in_brackets(host: &str) -> Option<Ipv6Addr> {
    host.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// In lower case, with the port.
fn with_canonical<T>(host: &str, port: Option<u16>, with: impl FnOnce(&str) -> T) -> T {
    let mut name = Name { bytes: [0; SHORT], len: 0 };
    if name.write(host, port).is_ok() {
        return with(name.as_str());
    }
    let mut name = host.to_ascii_lowercase();
    if let Some(port) = port {
        // To a string nothing fails.
        _ = write!(name, ":{port}");
    }
    with(&name)
}

fn port(authority: &Authority, uri: &Uri) -> Option<u16> {
    authority.port_u16().or_else(|| match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => Some(80),
        Some(scheme) if *scheme == Scheme::HTTPS => Some(443),
        _ => None,
    })
}

/// A short name, in place.
struct Name {
    bytes: [u8; SHORT],
    len: usize,
}

impl Name {
    fn write(&mut self, host: &str, port: Option<u16>) -> core::fmt::Result {
        self.write_str(host)?;
        self.bytes[..self.len].make_ascii_lowercase();
        match port {
            Some(port) => write!(self, ":{port}"),
            None => Ok(()),
        }
    }

    fn as_str(&self) -> &str {
        // Only whole strings were written.
        str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl Write for Name {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(core::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;
    use alloc::format;
    use alloc::string::String;
    use http::Request;

    fn host_of(uri: &str, host: Option<&str>) -> String {
        let mut request = Request::get(uri);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        with_host(&Head::of(&request.body(()).unwrap()), str::to_owned)
    }

    #[test]
    fn a_final_dot_is_no_other_host() {
        assert_eq!(host_of("https://api.example.com./a", None), "api.example.com:443");
        assert_eq!(host_of("https://API.example.com.:8443/", None), "api.example.com:8443");
        assert_eq!(host_of("/", Some("api.example.com.")), "api.example.com");
        assert_eq!(host_of("http://192.0.2.1./", None), "192.0.2.1:80");
        assert_eq!(host_of("http://./", None), ".:80", "the root, whatever it is");
        let long = "a".repeat(200);
        assert_eq!(host_of(&format!("http://{long}./"), None), format!("{long}:80"));
    }

    #[test]
    fn an_address_has_one_name() {
        for uri in [
            "http://[2001:db8::1]/",
            "http://[2001:DB8::0001]:80/",
            "http://[2001:0db8:0:0:0:0:0:1]/",
            "http://[2001:db8::0.0.0.1]/",
        ] {
            assert_eq!(host_of(uri, None), "[2001:db8::1]:80", "{uri}");
        }
        assert_eq!(host_of("/", Some("[2001:DB8:0::1]:81")), "[2001:db8::1]:81");
        // A connection to an IPv4-mapped address is one of IPv4.
        for uri in ["http://[::ffff:192.0.2.1]/", "http://[::FFFF:c000:0201]/", "http://192.0.2.1/"] {
            assert_eq!(host_of(uri, None), "192.0.2.1:80", "{uri}");
        }
        assert_eq!(host_of("http://[::192.0.2.1]/", None), "[::c000:201]:80", "compatible, not mapped");
        assert_eq!(host_of("http://[V7.Future]/", None), "[v7.future]:80", "not an address");
    }

    #[test]
    fn one_host_has_one_name() {
        for uri in
            ["https://api.example.com/a", "https://API.Example.com:443/b?c", "https://me:secret@api.example.com/"]
        {
            assert_eq!(host_of(uri, None), "api.example.com:443");
        }
        assert_eq!(host_of("http://api.example.com", Some("other.example.com")), "api.example.com:80");
        assert_eq!(host_of("http://[2001:DB8::1]:8080/", None), "[2001:db8::1]:8080");
        assert_eq!(host_of("/path", Some("Api.example.com:81")), "api.example.com:81");
        assert_eq!(host_of("/path", Some("api.example.com")), "api.example.com");
        assert_eq!(host_of("/path", None), "");
        assert_eq!(host_of("/path", Some("not a host")), "");
        let long = "a".repeat(200);
        assert_eq!(host_of(&format!("http://{}:65535/", long.to_uppercase()), None), format!("{long}:65535"));
    }
}
