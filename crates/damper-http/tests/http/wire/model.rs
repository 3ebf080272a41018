//! Finds the client of a request slowly.
//!
//! All hops are in a list, addresses are lists of bits, and each position is tried as the start of an element of
//! `Forwarded`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    XForwardedFor,
    Forwarded,
}

/// Returns the first untrusted hop from the right, or the leftmost known one.
pub(crate) fn client_of(header: Header, trusted: &[(IpAddr, u8)], peer: IpAddr, lines: &[Vec<u8>]) -> IpAddr {
    let known = hops(header, lines).into_iter().map_while(|hop| hop);
    let hops: Vec<IpAddr> = std::iter::once(unmapped(peer)).chain(known).collect();
    let is_trusted = |hop: &IpAddr| trusted.iter().any(|&(network, prefix)| is_in(*hop, network, prefix));
    hops.iter().copied().find(|hop| !is_trusted(hop)).unwrap_or(hops[hops.len() - 1])
}

pub(crate) fn leftmost(header: Header, lines: &[Vec<u8>]) -> Option<IpAddr> {
    hops(header, lines).last().copied().flatten()
}

/// Returns the hops from the right.
fn hops(header: Header, lines: &[Vec<u8>]) -> Vec<Option<IpAddr>> {
    let hops = |line: &Vec<u8>| -> Vec<Option<IpAddr>> {
        match header {
            Header::XForwardedFor => {
                let entries: Vec<_> = line.split(|&byte| byte == b',').map(|entry| node(trim(entry))).collect();
                entries.into_iter().rev().collect()
            }
            Header::Forwarded => elements(line).into_iter().map(|element| named_for(element?)).collect(),
        }
    };
    lines.iter().rev().flat_map(hops).collect()
}

fn is_in(address: IpAddr, network: IpAddr, prefix: u8) -> bool {
    let (address, network) = (bits(address), bits(network));
    address.len() == network.len() && address[..prefix.into()] == network[..prefix.into()]
}

fn bits(address: IpAddr) -> Vec<bool> {
    let octets = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    octets.iter().flat_map(|octet| (0..8).rev().map(move |bit| octet >> bit & 1 == 1)).collect()
}

fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => match v6.octets() {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, a, b, c, d] => IpAddr::from([a, b, c, d]),
            _ => address,
        },
        IpAddr::V4(_) => address,
    }
}

fn trim(bytes: &[u8]) -> &[u8] {
    match bytes {
        [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] => trim(rest),
        _ => bytes,
    }
}

/// Splits a line from the right into the shortest well-formed elements.
///
/// An element starts after a comma or with the line. `None` stands for a malformed rest.
fn elements(line: &[u8]) -> Vec<Option<&[u8]>> {
    let starts = (0..=line.len()).rev().filter(|&start| start == 0 || line[start - 1] == b',');
    match starts.into_iter().find(|&start| parameters(&line[start..]).is_some()) {
        None => vec![None],
        Some(0) => vec![Some(line)],
        Some(start) => [vec![Some(&line[start..])], elements(&line[..start - 1])].concat(),
    }
}

/// Splits an element from the left, if its strings are closed and backslashes are only in strings.
///
/// An element contains no commas outside strings, because the shortest one is chosen.
fn parameters(element: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut parameters = vec![vec![]];
    let mut bytes = element.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b';' => parameters.push(vec![]),
            b'\\' => return None,
            _ => parameters.last_mut()?.push(byte),
        }
        if byte == b'"' {
            loop {
                let byte = bytes.next()?;
                parameters.last_mut()?.push(byte);
                match byte {
                    b'\\' => parameters.last_mut()?.push(bytes.next()?),
                    b'"' => break,
                    _ => {}
                }
            }
        }
    }
    Some(parameters)
}

fn named_for(element: &[u8]) -> Option<IpAddr> {
    let parameters = parameters(element)?;
    let named_for = |parameter: &&[u8]| parameter.to_ascii_lowercase().starts_with(b"for=");
    let values: Vec<&[u8]> = parameters.iter().map(|p| trim(p)).filter(named_for).map(|p| &p[4..]).collect();
    let [value] = values[..] else { return None };
    if value.first() != Some(&b'"') {
        return node(value);
    }
    let mut unquoted = vec![];
    let mut bytes = value[1..].iter().copied();
    loop {
        match bytes.next()? {
            b'"' => break,
            b'\\' => unquoted.push(bytes.next()?),
            byte => unquoted.push(byte),
        }
    }
    if bytes.next().is_some() || unquoted.len() > 128 { None } else { node(&unquoted) }
}

/// Tries all forms of a node, one after the other.
fn node(node: &[u8]) -> Option<IpAddr> {
    let node = str::from_utf8(node).ok()?;
    let without_port = match node.rfind(':') {
        Some(colon) if is_port(&node[colon + 1..]) => &node[..colon],
        _ => node,
    };
    let bracketed = without_port.strip_prefix('[').and_then(|node| node.strip_suffix(']'));
    let ipv4 = [node, without_port].into_iter().find_map(|node| node.parse::<Ipv4Addr>().ok()).map(IpAddr::V4);
    let ipv6 =
        [Some(node), bracketed].into_iter().flatten().find_map(|node| without_zone(node)?.parse::<Ipv6Addr>().ok());
    ipv4.or(ipv6.map(|address| unmapped(address.into())))
}

fn is_port(port: &str) -> bool {
    let all = |port: &str, others: &str| port.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c));
    match port.chars().next() {
        Some('_') => port.len() > 1 && all(&port[1..], "._-"),
        Some(_) => port.len() <= 5 && port.chars().all(|c| c.is_ascii_digit()),
        None => false,
    }
}

fn without_zone(address: &str) -> Option<&str> {
    let Some(percent) = address.find('%') else { return Some(address) };
    let zone = &address[percent + 1..];
    let is_zone = !zone.is_empty() && zone.chars().all(|c| c.is_ascii_alphanumeric() || "._-~%".contains(c));
    is_zone.then_some(&address[..percent])
}
