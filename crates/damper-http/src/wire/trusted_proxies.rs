//! The client's address behind proxies that are trusted.

use super::{forwarded, x_forwarded_for};
use alloc::sync::Arc;
use core::net::IpAddr;
use damper_core::InvalidText;
use http::HeaderMap;
use ipnet::{IpNet, Ipv4Net};

/// Finds the address of a client behind proxies, from the header that these write.
///
/// No client can choose its own address.
///
/// A proxy adds the address of its peer at the right end of the header, and passes on the rest as it came. So the last
/// address that a trusted proxy wrote is true. If that is a trusted proxy too, so is the address before it. To the left
/// of the first untrusted address the client may have written anything. [`client_of`](Self::client_of) therefore walks
/// from the peer through the header, from its right end, past all trusted addresses. The first untrusted one is the
/// client's.
///
/// # Which header
///
/// `X-Forwarded-For`, or [`Forwarded`](Self::forwarded) if asked for: whichever the proxies write. Only one is read,
/// because a proxy passes on a header that it does not write as the client sent it, so a server that reads both believes
/// the client. For the same reason nothing is read if the peer is not trusted.
///
/// # Limits of the protection
///
/// A trusted address is believed: a client that itself connects from a trusted network can name any address. Trusted
/// networks should contain only proxies. For limits, group IPv6 addresses by
/// [`ClientAddress`](damper_core::ClientAddress), because a client has many of them.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::wire::{TrustedProxies, X_FORWARDED_FOR};
/// use http::{HeaderMap, HeaderValue};
/// use std::net::IpAddr;
///
/// let proxies = TrustedProxies::new(["10.0.0.0/8", "fd00::/8"])?;
///
/// let mut headers = HeaderMap::new();
/// headers.insert(X_FORWARDED_FOR, HeaderValue::from_static("203.0.113.9, 192.0.2.7, 10.0.0.1"));
/// let client = proxies.client_of(IpAddr::from([10, 0, 0, 2]), &headers);
/// assert_eq!(client, IpAddr::from([192, 0, 2, 7]), "what stands to its left, it made up");
/// # Ok::<(), damper::InvalidText>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    networks: Arc<[IpNet]>,
    header: Header,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Header {
    #[default]
    XForwardedFor,
    Forwarded,
}

impl TrustedProxies {
    /// Trusts the proxies in these networks. Default: none, so that every peer is the client.
    ///
    /// Each is an address and the length of its prefix (`10.0.0.0/8`, `fd00::/8`), or an address alone. Bits behind the
    /// prefix mean nothing.
    ///
    /// IPv4 that is mapped into IPv6 is IPv4, here as in the addresses that are looked at.
    ///
    /// # Errors
    ///
    /// [`InvalidText`], with the text that is not a network, or is the network of all addresses.
    pub fn new<I>(networks: I) -> Result<Self, InvalidText>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let networks = networks.into_iter().map(|text| network(text.as_ref())).collect::<Result<_, _>>()?;
        Ok(Self { networks, header: Header::default() })
    }

    /// Reads `Forwarded` (RFC 7239) in the place of `X-Forwarded-For`: for proxies that write it.
    ///
    /// Default: `X-Forwarded-For`.
    #[must_use]
    pub fn forwarded(self) -> Self {
        Self { header: Header::Forwarded, ..self }
    }

    /// The address of the client whose request came from `peer` with these headers.
    ///
    /// That is the first that is not trusted: the peer, or else an address of the header, from its right end; or the
    /// leftmost of them if all are. All lines of the header are one list, in their order. Ports and zones mean nothing,
    /// and IPv4 that is mapped into IPv6 is IPv4.
    ///
    /// An entry that is not an address (`unknown`, `_hidden`, a name, nothing at all) ends the walk at the proxy that
    /// wrote it, which is then the client: its clients share one address, and none of them can be another. Never
    /// allocates; reads no more of the header than it walks, so that a client which sends a long one gains nothing.
    #[must_use]
    pub fn client_of(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        match self.header {
            Header::XForwardedFor => self.walk(peer, x_forwarded_for::hops_from_the_right(headers)),
            Header::Forwarded => self.walk(peer, forwarded::hops_from_the_right(headers)),
        }
    }

    fn walk(&self, peer: IpAddr, mut hops: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
        let mut client = peer.to_canonical();
        while self.trusts(client) {
            match hops.next() {
                Some(Some(hop)) => client = hop,
                Some(None) | None => break,
            }
        }
        client
    }

    /// Returns whether this address is in one of the networks. IPv4 that is mapped into IPv6 is IPv4.
    #[must_use]
    pub fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&address))
    }
}

/// The network that a text names.
fn network(text: &str) -> Result<IpNet, InvalidText> {
    let invalid = |allowed| InvalidText::new("a trusted proxy", text, allowed);
    let network =
        parse(text.trim()).ok_or_else(|| invalid("an address, or a network such as 10.0.0.0/8 or fd00::/8"))?;
    // If every address were trusted, each client could choose its own.
    if network.prefix_len() == 0 { Err(invalid("a network of fewer than all addresses")) } else { Ok(network) }
}

/// Reads an address by the standard library, which accepts no leading zeros.
///
/// Elsewhere they mean octal numbers.
fn parse(text: &str) -> Option<IpNet> {
    let network = match text.split_once('/') {
        Some((address, prefix)) => IpNet::new(address.parse().ok()?, prefix.parse().ok()?).ok()?,
        None => IpNet::from(text.parse::<IpAddr>().ok()?),
    };
    Some(unmapped(network).trunc())
}

/// IPv4 if it is mapped into IPv6, all of it.
fn unmapped(network: IpNet) -> IpNet {
    const MAPPED: u8 = 96;
    let mapped = match network.addr().to_canonical() {
        IpAddr::V4(address) => network.prefix_len().checked_sub(MAPPED).map(|prefix| (address, prefix)),
        IpAddr::V6(_) => None,
    };
    match (network, mapped) {
        (IpNet::V6(_), Some((address, prefix))) => Ipv4Net::new(address, prefix).map_or(network, IpNet::V4),
        _ => network,
    }
}
