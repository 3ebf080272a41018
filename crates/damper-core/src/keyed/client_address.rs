//! Addresses as keys.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The address of a client as a key.
///
/// IPv6 addresses are grouped by their prefix, because a client usually owns all addresses with its prefix.
///
/// Some IPv6 addresses stand for an IPv4 address, and count as that address:
///
/// - IPv4-mapped addresses (`::ffff:0:0/96`).
/// - Addresses to which a NAT64 gateway translates (`64:ff9b::/96`, RFC 6052). Otherwise all IPv4 clients behind the
///   gateway would share one key.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::ClientAddress;
///
/// let home = ClientAddress::from("2001:db8:1:2::7".parse::<core::net::IpAddr>()?);
/// assert_eq!(home, "2001:db8:1:2:ffff::9".parse::<core::net::IpAddr>()?.into());
/// assert_eq!(home.to_string(), "2001:db8:1:2::");
/// assert_eq!(ClientAddress::from("::ffff:192.0.2.7".parse::<core::net::IpAddr>()?).to_string(), "192.0.2.7");
/// assert_eq!(ClientAddress::from("64:ff9b::192.0.2.7".parse::<core::net::IpAddr>()?).to_string(), "192.0.2.7");
/// # Ok::<(), core::net::AddrParseError>(())
/// ```
// An IPv4 address is kept in its mapped form. A `u128` fits two registers, while an enum of bytes would be copied
// through memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientAddress(u128);

/// The upper 96 bits of an IPv6 address to which an IPv4 address is mapped (`::ffff:0:0/96`).
const MAPPED: u128 = 0xFFFF;

/// The upper 96 bits of an address to which a NAT64 gateway translates (`64:ff9b::/96`, RFC 6052).
const NAT64: u128 = 0x0064_FF9B << 64;

impl ClientAddress {
    /// The default number of bits of an IPv6 address that identify a client.
    ///
    /// A home or a host usually has a /64.
    pub const IPV6_PREFIX: u32 = 64;

    /// Creates the key of an address. IPv6 addresses whose first `bits` bits are equal have the same key.
    ///
    /// More than 128 bits count as 128.
    #[must_use]
    #[inline]
    pub const fn with_ipv6_prefix(address: IpAddr, bits: u32) -> Self {
        let address = match address {
            IpAddr::V4(address) => return Self::of_ipv4(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        if matches!(address >> 32, MAPPED | NAT64) {
            return Self::of_ipv4(address as u32);
        }
        let mask = match u128::MAX.checked_shl(128u32.saturating_sub(bits)) {
            Some(mask) => mask,
            None => 0,
        };
        Self(address & mask)
    }

    #[inline]
    const fn of_ipv4(bits: u32) -> Self {
        Self(MAPPED << 32 | bits as u128)
    }

    /// Returns the IPv4 address, or the first IPv6 address of the group.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        Ipv6Addr::from_bits(self.0).to_canonical()
    }
}

/// Hashes all bits of the address by one call of the hasher.
///
/// An IPv4 address has 32 bits, an IPv6 address has 128.
impl Hash for ClientAddress {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        if self.0 >> 32 == MAPPED { state.write_u32(self.0 as u32) } else { state.write_u128(self.0) }
    }
}

/// Groups IPv6 addresses by their first 64 bits.
impl From<IpAddr> for ClientAddress {
    fn from(address: IpAddr) -> Self {
        Self::with_ipv6_prefix(address, Self::IPV6_PREFIX)
    }
}

/// Groups IPv6 addresses by their first 64 bits, and ignores the port.
impl From<SocketAddr> for ClientAddress {
    fn from(address: SocketAddr) -> Self {
        address.ip().into()
    }
}

impl fmt::Debug for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientAddress").field(&self.address()).finish()
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address().fmt(f)
    }
}
