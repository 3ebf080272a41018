//! The head of a request: its parts, the address of its peer, and its target host.

use super::PeerAddress;
use core::fmt::Write;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::{fmt, str};
use damper_core::gate::KeyOf;
use http::header::HOST;
use http::uri::{Authority, Scheme};
use http::{Extensions, HeaderMap, Method, Request, Uri, Version, request};

/// A request without its body, as limits, breakers and your own closures see it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Head<'a> {
    /// The method.
    pub method: &'a Method,
    /// The target. A server mostly sees a path and a query.
    pub uri: &'a Uri,
    /// The version of HTTP.
    pub version: Version,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The values that other services added to the request.
    pub extensions: &'a Extensions,
    /// The address that the layer was made for.
    peer: Option<&'a SocketAddr>,
}

impl<'a> Head<'a> {
    /// Borrows the head of a request.
    #[inline]
    pub fn of<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            version: request.version(),
            headers: request.headers(),
            extensions: request.extensions(),
            peer: None,
        }
    }

    /// Copies the head into a request without a body.
    pub(super) fn to_request(self) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.version_mut() = self.version;
        *request.headers_mut() = self.headers.clone();
        *request.extensions_mut() = self.extensions.clone();
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(super::PeerAddress(*peer));
        }
        request
    }

    /// Returns the same head with the peer that a layer was made for, if it was.
    #[inline]
    #[must_use]
    pub(super) fn with_peer(self, peer: Option<&'a SocketAddr>) -> Self {
        Self { peer, ..self }
    }

    /// Returns the address of the other end of the connection.
    ///
    /// That is the address that the layer was made [for](super::RateLimitLayer::for_peer), or else the
    /// [`PeerAddress`](super::PeerAddress) among the extensions, or else axum's `ConnectInfo<SocketAddr>` (with the
    /// feature `axum`) or the `TcpConnectInfo` of tonic's server (with the feature `tonic`).
    #[must_use]
    #[inline]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.find_peer().copied()
    }

    /// Returns the [`peer`](Self::peer) without its port.
    #[inline]
    pub(super) fn peer_ip(&self) -> Option<IpAddr> {
        self.find_peer().map(SocketAddr::ip)
    }

    // Takes 80 instructions. A limit calls it once per request. A callback that calls it searches again, because caching the address would
    // cost this type `Copy` and `Sync`.
    #[inline]
    fn find_peer(&self) -> Option<&'a SocketAddr> {
        if self.peer.is_some() {
            return self.peer;
        }
        if let Some(PeerAddress(address)) = self.extensions.get() {
            return Some(address);
        }
        #[cfg(feature = "axum")]
        if let Some(axum::extract::ConnectInfo(address)) = self.extensions.get() {
            return Some(address);
        }
        // Connections over tonic's TLS carry it too.
        #[cfg(feature = "tonic")]
        if let Some(connection) = self.extensions.get::<tonic::transport::server::TcpConnectInfo>() {
            return connection.remote_addr.as_ref();
        }
        None
    }

    /// Calls `with` with the target host of the request and its port, such as `api.example.com:443`.
    ///
    /// Every host has one name, however the request spells it:
    /// - a name is in lower case, without the dot that may end it;
    /// - an IPv6 address is in its canonical form, such as `[2001:db8::1]`;
    /// - an IPv4-mapped address is the IPv4 address, because that is what a client connects to.
    ///
    /// Without a port, the scheme's default is used; without a scheme, the name has no port. If the target names no host, the header `Host`
    /// does. If neither does, the host is empty.
    pub(super) fn with_host<T>(&self, with: impl FnOnce(&str) -> T) -> T {
        if let Some(authority) = self.uri.authority() {
            return with_canonical_host(authority.host(), port(authority, self.uri), with);
        }
        match self.headers.get(HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok()) {
            Some(authority) => with_canonical_host(authority.host(), authority.port_u16(), with),
            None => with(""),
        }
    }
}

impl<'a> From<&'a request::Parts> for Head<'a> {
    fn from(parts: &'a request::Parts) -> Self {
        let request::Parts { method, uri, version, headers, extensions, .. } = parts;
        Self { method, uri, version: *version, headers, extensions, peer: None }
    }
}

/// The longest name that needs no allocation. A name may have 253 characters, but most are far shorter.
const SHORT: usize = 96;

/// Calls `with` with the canonical name of a host.
fn with_canonical_host<T>(host: &str, port: Option<u16>, with: impl FnOnce(&str) -> T) -> T {
    if let Some(address) = address_in_brackets(host) {
        let mut name = HostBuffer { bytes: [0; SHORT], len: 0 };
        // Every address fits.
        _ = match address.to_canonical() {
            IpAddr::V4(address) => write!(name, "{address}"),
            IpAddr::V6(address) => write!(name, "[{address}]"),
        };
        return with_port(name.as_str(), port, with);
    }
    let without_dot = host.strip_suffix('.').filter(|name| !name.is_empty());
    with_port(without_dot.unwrap_or(host), port, with)
}

/// Returns the IPv6 address, if the host is one.
fn address_in_brackets(host: &str) -> Option<Ipv6Addr> {
    host.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// Calls `with` with the name in lower case and the port.
fn with_port<T>(host: &str, port: Option<u16>, with: impl FnOnce(&str) -> T) -> T {
    let mut name = HostBuffer { bytes: [0; SHORT], len: 0 };
    if name.write(host, port).is_ok() {
        return with(name.as_str());
    }
    let mut name = host.to_ascii_lowercase();
    if let Some(port) = port {
        // Writing to a string cannot fail.
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

/// A short name on the stack.
struct HostBuffer {
    bytes: [u8; SHORT],
    len: usize,
}

impl HostBuffer {
    fn write(&mut self, host: &str, port: Option<u16>) -> fmt::Result {
        self.write_str(host)?;
        self.bytes[..self.len].make_ascii_lowercase();
        match port {
            Some(port) => write!(self, ":{port}"),
            None => Ok(()),
        }
    }

    fn as_str(&self) -> &str {
        // Only whole strings are written, so it is UTF-8.
        str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl Write for HostBuffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// The target host of a request with its port: a key, for a gate of each host.
///
/// The key of `https://api.example.com/` is `api.example.com:443`. The host is that of the target, or else of the header `Host`. It has one name
/// however a request spells it: in lower case, without the dot that may end it, and an IPv6 address in its canonical form,
/// `[2001:db8::1]:443`. Without a port, that of the scheme is meant.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::KeyedBulkhead;
/// use damper::gate::PerKey;
/// use damper::http::{ClientConcurrencyLayer, TargetHost};
/// use std::sync::Arc;
///
/// let hosts = Arc::new(KeyedBulkhead::<String>::new(64, 100)?.queue(16).newest_first());
/// let layer = ClientConcurrencyLayer::new(PerKey::new(TargetHost, Arc::clone(&hosts)));
/// # let _ = layer;
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TargetHost;

impl KeyOf<Head<'_>> for TargetHost {
    type Key = str;

    #[inline]
    fn with_key<T>(&self, head: &Head<'_>, then: impl FnOnce(&str) -> T) -> T {
        head.with_host(then)
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
        Head::of(&request.body(()).unwrap()).with_host(str::to_owned)
    }

    #[test]
    fn final_dot_names_the_same_host() {
        assert_eq!(host_of("https://api.example.com./a", None), "api.example.com:443");
        assert_eq!(host_of("https://API.example.com.:8443/", None), "api.example.com:8443");
        assert_eq!(host_of("/", Some("api.example.com.")), "api.example.com");
        assert_eq!(host_of("http://192.0.2.1./", None), "192.0.2.1:80");
        assert_eq!(host_of("http://./", None), ".:80", "the root, whatever it is");
        let long = "a".repeat(200);
        assert_eq!(host_of(&format!("http://{long}./"), None), format!("{long}:80"));
    }

    #[test]
    fn spellings_of_an_address_name_one_host() {
        for uri in [
            "http://[2001:db8::1]/",
            "http://[2001:DB8::0001]:80/",
            "http://[2001:0db8:0:0:0:0:0:1]/",
            "http://[2001:db8::0.0.0.1]/",
        ] {
            assert_eq!(host_of(uri, None), "[2001:db8::1]:80", "{uri}");
        }
        assert_eq!(host_of("/", Some("[2001:DB8:0::1]:81")), "[2001:db8::1]:81");
        // A client that connects to an IPv4-mapped address connects to the IPv4 address.
        for uri in ["http://[::ffff:192.0.2.1]/", "http://[::FFFF:c000:0201]/", "http://192.0.2.1/"] {
            assert_eq!(host_of(uri, None), "192.0.2.1:80", "{uri}");
        }
        assert_eq!(host_of("http://[::192.0.2.1]/", None), "[::c000:201]:80", "compatible, not mapped");
        assert_eq!(host_of("http://[V7.Future]/", None), "[v7.future]:80", "not an address");
    }

    #[test]
    fn spellings_of_a_name_name_one_host() {
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
