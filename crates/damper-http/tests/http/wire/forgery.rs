//! A client cannot change its address with any header.
//!
//! Every header is parsed as the slow model parses it.

use super::model::{self, Header};
use super::proxies::{Adds, Writes};
use crate::cases::cases;
use damper::wire::{TrustedProxies, X_FORWARDED_FOR, leftmost_forgeable};
use http::header::FORWARDED;
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv6Addr};

const NETWORKS: [&str; 4] = ["10.0.0.0/8", "fd00::/8", "192.0.2.128/25", "2001:db8::1"];

fn trusted() -> [(IpAddr, u8); 4] {
    NETWORKS.map(|network| {
        let (address, prefix) = network.split_once('/').unwrap_or((network, "128"));
        (address.parse().unwrap(), prefix.parse().unwrap())
    })
}

fn proxies(header: Header) -> TrustedProxies {
    let proxies = TrustedProxies::new(NETWORKS).unwrap();
    match header {
        Header::XForwardedFor => proxies,
        Header::Forwarded => proxies.forwarded(),
    }
}

fn add(headers: &mut HeaderMap, header: Header, lines: &[Vec<u8>]) {
    for line in lines {
        let line = HeaderValue::from_bytes(line).unwrap();
        match header {
            Header::XForwardedFor => headers.append(X_FORWARDED_FOR, line),
            Header::Forwarded => headers.append(FORWARDED, line),
        };
    }
}

fn a_header() -> impl Strategy<Value = Header> {
    prop_oneof![Just(Header::XForwardedFor), Just(Header::Forwarded)]
}

fn a_proxy() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 3]>().prop_map(|[b, c, d]| IpAddr::from([10, b, c, d])),
        (128..=255u8).prop_map(|d| IpAddr::from([192, 0, 2, d])),
        any::<u64>().prop_map(|low| IpAddr::from(Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(low)))),
        Just(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1])),
    ]
}

fn a_client() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (0..=127u8).prop_map(|d| IpAddr::from([192, 0, 2, d])),
        Just(IpAddr::from([11, 0, 0, 0])),
        Just(IpAddr::from([9, 255, 255, 255])),
        (2..u16::MAX).prop_map(|low| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, low])),
    ]
}

/// Words that could confuse a parser.
#[rustfmt::skip]
const WORDS: [&str; 27] = [
    "10.0.0.1", "203.0.113.9", "fd00::1", "[fd00::1]", "\"[fd00::1]:80\"", "::ffff:10.0.0.1", "fe80::1%eth0",
    "unknown", "_hidden", "for=", "For=", "by=", "x=", "\"", "\\", "\\\"", "\\\\", ",", ", ", ";", "; ",
    ":80", ":_p", "[", "]", " ", "\t",
];

/// Confusing words, and any bytes that a header may have.
fn a_line() -> impl Strategy<Value = Vec<u8>> {
    let word = proptest::sample::select(&WORDS[..]).prop_map(|word| word.as_bytes().to_vec());
    let byte = prop_oneof![Just(b'\t'), 0x20..=0x7e_u8, 0x80..=0xff_u8].prop_map(|byte| vec![byte]);
    let element = (writes(), a_header(), prop_oneof![a_proxy(), a_client()]).prop_map(|(writes, header, address)| {
        let mut element = writes.entry(header, address);
        element.extend(b", ");
        element
    });
    let pieces = prop_oneof![8 => word, 1 => byte, 3 => element];
    proptest::collection::vec(pieces, 0..16).prop_map(|pieces| pieces.concat())
}

fn lines() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(a_line(), 0..4)
}

fn adds() -> impl Strategy<Value = Adds> {
    prop_oneof![Just(Adds::ToTheLine), Just(Adds::ALine), Just(Adds::ToAllLines)]
}

fn writes() -> impl Strategy<Value = Writes> {
    prop_oneof![Just(Writes::Plainly), Just(Writes::WithPort), Just(Writes::Mapped), Just(Writes::Escaped)]
}

proptest! {
    #![proptest_config(cases(800))]

    /// Each proxy adds to the headers in its own way, after the client's own lines of both headers.
    #[test]
    fn forged_headers_keep_the_clients_address(
        header in a_header(),
        client in a_client(),
        chain in proptest::collection::vec((a_proxy(), adds(), writes()), 1..5),
        lines in lines(),
        said_in_the_other in lines(),
    ) {
        let mut lines = lines;
        let mut from = client;
        for (proxy, adds, writes) in chain {
            adds.add(&mut lines, &writes.entry(header, from));
            from = proxy;
        }
        let mut headers = HeaderMap::new();
        add(&mut headers, header, &lines);
        let other = if header == Header::Forwarded { Header::XForwardedFor } else { Header::Forwarded };
        add(&mut headers, other, &said_in_the_other);
        prop_assert_eq!(proxies(header).client_of(from, &headers), client);
    }

    /// A proxy that hides its peer counts as the client, whatever the peer sent.
    #[test]
    fn hidden_client_counts_as_its_proxy(
        header in a_header(),
        proxy in a_proxy(),
        hidden in prop_oneof![Just("_hidden"), Just("unknown"), Just("\"_hidden\""), Just("unix:"), Just("")],
        adds in adds(),
        lines in lines(),
    ) {
        let mut lines = lines;
        let entry = if header == Header::Forwarded { format!("for={hidden};proto=http") } else { hidden.to_owned() };
        adds.add(&mut lines, entry.as_bytes());
        let mut headers = HeaderMap::new();
        add(&mut headers, header, &lines);
        prop_assert_eq!(proxies(header).client_of(proxy, &headers), proxy);
    }

    #[test]
    fn direct_client_counts_as_its_peer_address(header in a_header(), client in a_client(), lines in lines()) {
        let mut headers = HeaderMap::new();
        add(&mut headers, header, &lines);
        prop_assert_eq!(proxies(header).client_of(client, &headers), client);
        prop_assert_eq!(TrustedProxies::default().client_of(client, &headers), client);
    }

    #[test]
    fn client_address_matches_the_model(header in a_header(), peer in a_proxy(), lines in lines()) {
        let mut headers = HeaderMap::new();
        add(&mut headers, header, &lines);
        let expected = model::client_of(header, &trusted(), peer, &lines);
        prop_assert_eq!(proxies(header).client_of(peer, &headers), expected);
        prop_assert_eq!(leftmost_forgeable(&headers), model::leftmost(header, &lines));
    }

    #[test]
    fn networks_match_by_prefix_bits(network: IpAddr, near in 0..128u32, prefix in 1..=128u8, other: IpAddr) {
        let network = network.to_canonical();
        let prefix = if network.is_ipv4() { (prefix - 1) % 32 + 1 } else { prefix };
        let near = match network {
            IpAddr::V4(address) => IpAddr::from((address.to_bits() ^ 1 << (near % 32)).to_be_bytes()),
            IpAddr::V6(address) => IpAddr::from((address.to_bits() ^ 1 << near).to_be_bytes()),
        };
        let proxies = TrustedProxies::new([format!("{network}/{prefix}")]).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(X_FORWARDED_FOR, HeaderValue::from_static("203.0.113.9"));
        let line = vec![b"203.0.113.9".to_vec()];
        for peer in [network, near, other] {
            let expected = model::client_of(Header::XForwardedFor, &[(network, prefix)], peer, &line);
            prop_assert_eq!(proxies.client_of(peer, &headers), expected);
        }
    }

    #[test]
    fn every_network_text_parses_or_is_refused(text in "[0-9a-f:./ %]{0,20}") {
        let _ = TrustedProxies::new([text]);
    }
}
