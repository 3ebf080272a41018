//! Addresses as keys.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The address of a client as a key: IPv6 addresses are grouped by their prefix, because a client has all of them.
///
/// An IPv4 address that is mapped into IPv6 is the IPv4 address.
///
/// # Examples
///
/// ```
/// use damper::ClientAddress;
///
/// let home = ClientAddress::from("2001:db8:1:2::7".parse::<core::net::IpAddr>()?);
/// assert_eq!(home, "2001:db8:1:2:ffff::9".parse::<core::net::IpAddr>()?.into());
/// assert_eq!(home.to_string(), "2001:db8:1:2::");
/// assert_eq!(ClientAddress::from("::ffff:192.0.2.7".parse::<core::net::IpAddr>()?).to_string(), "192.0.2.7");
/// # Ok::<(), core::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientAddress(IpAddr);

impl ClientAddress {
    /// The bits of an IPv6 address that tell clients apart unless said otherwise: what a home or a host is given.
    pub const IPV6_PREFIX: u32 = 64;

    /// Of an address, of which IPv6 ones are grouped by their first `bits`; more than 128 are 128.
    #[must_use]
    pub const fn with_ipv6_prefix(address: IpAddr, bits: u32) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(IpAddr::V4(address)),
            IpAddr::V6(address) => {
                let mask = match u128::MAX.checked_shl(128u32.saturating_sub(bits)) {
                    Some(mask) => mask,
                    None => 0,
                };
                Self(IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask)))
            }
        }
    }

    /// The address; of IPv6 the first one of its group.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.0
    }
}

/// By its bits alone: what says that it is of IPv4 is how many there are, and a hasher takes them in one step.
impl Hash for ClientAddress {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.0 {
            IpAddr::V4(address) => state.write_u32(address.to_bits()),
            IpAddr::V6(address) => state.write_u128(address.to_bits()),
        }
    }
}

/// By the prefix of 64 bits.
impl From<IpAddr> for ClientAddress {
    fn from(address: IpAddr) -> Self {
        Self::with_ipv6_prefix(address, Self::IPV6_PREFIX)
    }
}

/// By the prefix of 64 bits, whatever the port.
impl From<SocketAddr> for ClientAddress {
    fn from(address: SocketAddr) -> Self {
        address.ip().into()
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
