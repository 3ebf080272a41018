//! The node of a hop: an address, as proxies write it (RFC 7239, section 6, and what else there is).

use core::net::{IpAddr, Ipv6Addr};

/// The address of a node, whatever its port and zone; `None` of anything else.
///
/// | node | address |
/// |---|---|
/// | `192.0.2.7`, `192.0.2.7:4711`, `192.0.2.7:_http` | `192.0.2.7` |
/// | `2001:db8::7`, `[2001:db8::7]`, `[2001:db8::7]:4711` | `2001:db8::7` |
/// | `fe80::7%eth0`, `[fe80::7%25eth0]:4711` | `fe80::7` |
/// | `::ffff:192.0.2.7` | `192.0.2.7` |
/// | `unknown`, `_hidden`, a name, nothing | none |
pub(super) fn address(node: &[u8]) -> Option<IpAddr> {
    let node = core::str::from_utf8(node).ok()?;
    if let Some(bracketed) = node.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']')?;
        return if port.is_empty() || port.strip_prefix(':').is_some_and(is_port) { ipv6(address) } else { None };
    }
    match node.split_once(':') {
        None => node.parse().ok().map(IpAddr::V4),
        Some((address, port)) if is_port(port) => address.parse().ok().map(IpAddr::V4),
        Some(_) => ipv6(node),
    }
}

/// IPv4 if it is mapped into IPv6.
fn ipv6(address: &str) -> Option<IpAddr> {
    let address = match address.split_once('%') {
        Some((address, zone)) if is_zone(zone) => address,
        Some(_) => return None,
        None => address,
    };
    address.parse::<Ipv6Addr>().ok().map(|address| IpAddr::V6(address).to_canonical())
}

/// The characters that may name one in a URL (RFC 6874), its percent sign as it is or encoded.
fn is_zone(zone: &str) -> bool {
    !zone.is_empty() && zone.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-~%".contains(&b))
}

/// Digits, or an obfuscated one.
fn is_port(port: &str) -> bool {
    match port.strip_prefix('_') {
        Some(hidden) => !hidden.is_empty() && hidden.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)),
        None => (1..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit()),
    }
}
