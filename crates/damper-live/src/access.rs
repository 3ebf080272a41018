//! Access: the peers, the hosts and the origins that may look or change something.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;
use damper_http::Head;
use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, StatusCode, Version};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The beginnings of the names of headers that proxies and load balancers add to requests.
const OF_PROXIES: &[&str] = &[
    "akamai-",
    "cdn-loop",
    "cf-",
    "client-ip",
    "fastly-",
    "fly-",
    "forwarded",
    "ngrok-",
    "proxy-client-ip",
    "tailscale-",
    "true-client-ip",
    "via",
    "wl-proxy-client-ip",
    "x-akamai-",
    "x-amz-cf-",
    "x-amzn-",
    "x-appengine-",
    "x-arr-",
    "x-azure-",
    "x-client-ip",
    "x-cloud-trace-context",
    "x-cluster-client-ip",
    "x-coming-from",
    "x-envoy-",
    "x-forwarded",
    "x-forwarder-for",
    "x-google-",
    "x-host",
    "x-nf-",
    "x-original-",
    "x-originating-ip",
    "x-proxy",
    "x-proxied",
    "x-real-ip",
    "x-remote-",
    "x-sendfile-type",
    "x-vercel-",
];

/// The answer of a server that does not tell the address of a request's peer.
const MISSING_PEER: &str = "the request does not tell its peer's address: with axum, serve \
    into_make_service_with_connect_info::<SocketAddr>() (and have damper's feature axum); with hyper, make the service \
    with for_peer(address); else, add damper::http::PeerAddress to the request's extensions";

/// A request that is turned away: the status, and a sentence that says why.
pub(super) type Refusal = (StatusCode, String);

/// From where the page may be reached, and under which names.
#[derive(Clone, Debug, Default)]
pub(super) struct Access {
    /// Whether peers of other machines may look.
    pub(super) peers: Peers,
    /// The names under which it may be reached besides those of the loopback, without ports, in lower case.
    pub(super) hosts: Vec<String>,
}

/// The peers that may look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Peers {
    /// Those of this machine.
    #[default]
    Loopback,
    /// Any.
    Anywhere,
}

impl Access {
    /// Lets a request look, or says why not.
    ///
    /// The host is checked for each request, because a page of another origin whose name was bound to this address could read the stream
    /// otherwise.
    pub(super) fn look(&self, head: &Head<'_>) -> Result<(), Refusal> {
        if self.peers == Peers::Loopback {
            let Some(peer) = head.peer() else {
                return Err((StatusCode::INTERNAL_SERVER_ERROR, format!("{MISSING_PEER}\n")));
            };
            if !peer.ip().to_canonical().is_loopback() {
                return Err(forbidden("this page is for peers of the same machine: see `LivePage::open_to`"));
            }
            if let Some(sign) = sign_of_a_proxy(head.version, head.headers) {
                return Err(forbidden(&format!(
                    "this page is for peers of the same machine, and a proxy forwarded the request: see `LivePage::open_to` ({sign})"
                )));
            }
        }
        let authority =
            authority(head).ok_or_else(|| (StatusCode::BAD_REQUEST, "the request has no host\n".to_owned()))?;
        if !self.is_own_host(authority.host()) {
            let why =
                format!("this page is not served under the host {:?}: see `LivePage::open_to`\n", authority.host());
            return Err((StatusCode::MISDIRECTED_REQUEST, why));
        }
        if head.headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site") {
            return Err(forbidden("a page of another site asks"));
        }
        Ok(())
    }

    /// Returns whether the page is served under this host, which names of the loopback always are.
    fn is_own_host(&self, host: &str) -> bool {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            // A name cannot be bound to an address that is given as an address.
            return address.to_canonical().is_loopback() || self.hosts.contains(&address.to_string());
        }
        let name = bare.strip_suffix('.').unwrap_or(bare).to_ascii_lowercase();
        name == "localhost" || self.hosts.contains(&name)
    }
}

/// Returns a sign that a request came through a proxy, if it has one.
///
/// The peer and the host of such a request are those of the proxy, so they say nothing about the browser. nginx's plain `proxy_pass` adds no
/// header, but speaks HTTP/1.0 unless it is told otherwise, and no browser does.
fn sign_of_a_proxy(version: Version, headers: &HeaderMap) -> Option<&str> {
    if version < Version::HTTP_11 {
        return Some("it speaks HTTP/1.0");
    }
    let is_of_proxies = |name: &&str| OF_PROXIES.iter().any(|start| name.starts_with(start));
    headers.keys().map(HeaderName::as_str).find(is_of_proxies)
}

/// Lets a request that may look change something, or says why not, whatever its token.
///
/// Browsers send `Origin` with each `POST`. Other clients need not.
pub(super) fn change(head: &Head<'_>) -> Result<(), Refusal> {
    let Some(origin) = head.headers.get(ORIGIN) else { return Ok(()) };
    let own = authority(head);
    let own = own.as_ref().map(Authority::as_str).unwrap_or_default();
    let is_same = origin.to_str().is_ok_and(|origin| {
        let name = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        name.is_some_and(|name| name.eq_ignore_ascii_case(own))
    });
    if is_same {
        return Ok(());
    }
    Err(forbidden(&format!(
        "a page of the origin {origin:?} asks, and the request is for the host {own:?}: a proxy between them has to pass `Host` on as it is"
    )))
}

/// Returns the host and the port that a request asks for.
fn authority(head: &Head<'_>) -> Option<Authority> {
    let from_target = head.uri.authority().cloned();
    from_target.or_else(|| {
        let mut hosts = head.headers.get_all(HOST).iter();
        let host = hosts.next()?;
        if hosts.next().is_some() {
            return None;
        }
        Authority::try_from(host.as_bytes()).ok()
    })
}

fn forbidden(why: &str) -> Refusal {
    (StatusCode::FORBIDDEN, format!("{why}\n"))
}

/// Returns the canonical form of a host's name in a setting, or none if it is more than a name.
pub(super) fn host_name(host: &str) -> Option<String> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (!name.is_empty() && name.bytes().all(is_plain)).then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_http::PeerAddress;
    use http::Request;

    fn status(access: &Access, peer: &str, headers: &[(&str, &str)]) -> Option<u16> {
        let mut request = Request::get("/damper");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(()).unwrap();
        request.extensions_mut().insert(PeerAddress(peer.parse().unwrap()));
        let head = Head::of(&request);
        access.look(&head).and_then(|()| change(&head)).err().map(|(status, _)| status.as_u16())
    }

    #[test]
    fn only_this_machine_may_look_unless_told_otherwise() {
        let access = Access::default();
        let local = [("host", "localhost:80")];
        for peer in ["127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(status(&access, peer, &local), None, "{peer}");
        }
        for peer in ["192.0.2.1:1", "[2001:db8::1]:1", "0.0.0.0:1", "[::ffff:192.0.2.1]:1"] {
            assert_eq!(status(&access, peer, &local), Some(403), "{peer}");
        }
        assert_eq!(status(&access, "127.0.0.1:1", &[local[0], ("x-forwarded-for", "192.0.2.1")]), Some(403));
        assert_eq!(status(&access, "127.0.0.1:1", &[local[0], ("forwarded", "for=192.0.2.1")]), Some(403));
        let anywhere = Access { peers: Peers::Anywhere, ..Access::default() };
        assert_eq!(status(&anywhere, "192.0.2.1:1", &local), None);
    }

    #[test]
    fn name_bound_to_the_loopback_is_no_name_of_the_page() {
        let access = Access { hosts: host_name("Ops.Example.com.").into_iter().collect(), ..Access::default() };
        let of = |host| status(&access, "127.0.0.1:1", &[("host", host)]);
        for host in ["localhost", "LOCALHOST:8080", "localhost.", "127.0.0.1:1", "[::1]:80", "ops.example.com:443"] {
            assert_eq!(of(host), None, "{host}");
        }
        for host in ["evil.example:80", "localhost.evil.example", "192.0.2.1", "[::2]:80", "127.0.0.1.evil.example"] {
            assert_eq!(of(host), Some(421), "{host}");
        }
        assert_eq!(of("not a host"), Some(400));
        assert_eq!(status(&access, "127.0.0.1:1", &[]), Some(400));
        assert_eq!(status(&access, "127.0.0.1:1", &[("host", "localhost"), ("host", "evil.example")]), Some(400));
    }

    #[test]
    fn another_origin_changes_nothing() {
        let access = Access::default();
        let of = |origin| status(&access, "127.0.0.1:1", &[("host", "localhost:80"), ("origin", origin)]);
        assert_eq!(of("http://localhost:80"), None);
        assert_eq!(of("https://localhost:80"), None);
        for origin in ["http://localhost:81", "http://localhost", "null", "http://evil.example", "localhost:80", ""] {
            assert_eq!(of(origin), Some(403), "{origin}");
        }
        let site = [("host", "localhost:80"), ("sec-fetch-site", "cross-site")];
        assert_eq!(status(&access, "127.0.0.1:1", &site), Some(403));
    }
}
