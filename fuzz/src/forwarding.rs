//! The client of a request behind proxies, with headers from the fuzzer.
//!
//! The headers are lines of `X-Forwarded-For` and `Forwarded`.

use damper::wire::{TrustedProxies, X_FORWARDED_FOR, leftmost_forgeable};
use http::header::FORWARDED;
use http::{HeaderMap, HeaderValue};
use model::Header;
use proxies::{Adds, Writes};
use std::net::IpAddr;

#[path = "../../crates/damper-http/tests/http/wire/model.rs"]
mod model;
#[path = "../../crates/damper-http/tests/http/wire/proxies.rs"]
mod proxies;

/// The maximum number of lines, and of bytes in a line. The model's work grows with their cube.
const MOST_LINES: usize = 8;
const MOST_BYTES: usize = 256;

const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));
const CLIENT_V6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7));
const PROXY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const PROXY_V6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));

/// Compares a header with the model's reading, and with the true client after proxies added entries.
///
/// The first line of the input has a letter for each proxy, nearest to the client first. The other lines are sent by
/// the client.
pub fn forwarding(input: &[u8]) {
    let mut lines = input.split(|&byte| byte == b'\n');
    let chain = lines.next().unwrap_or_default();
    let lines: Vec<Vec<u8>> = lines
        .map(|line| line[..line.len().min(MOST_BYTES)].to_vec())
        .filter(|line| HeaderValue::from_bytes(line).is_ok())
        .take(MOST_LINES)
        .collect();
    for header in [Header::XForwardedFor, Header::Forwarded] {
        reads_as_the_model(header, &lines);
        for client in [CLIENT, CLIENT_V6] {
            tells_the_client(header, client, chain, lines.clone());
        }
    }
}

fn reads_as_the_model(header: Header, lines: &[Vec<u8>]) {
    let headers = headers(header, lines);
    let trusted = [("10.0.0.0".parse().unwrap(), 8), ("fd00::".parse().unwrap(), 8)];
    for peer in [PROXY, PROXY_V6, CLIENT] {
        let client = trusting(header).client_of(peer, &headers);
        assert_eq!(client, model::client_of(header, &trusted, peer, lines), "{header:?} to {peer}");
    }
    assert_eq!(leftmost_forgeable(&headers), model::leftmost(header, lines), "{header:?}");
}

/// Checks that the true client is found, whatever the client sent.
fn tells_the_client(header: Header, client: IpAddr, chain: &[u8], mut lines: Vec<Vec<u8>>) {
    let mut from = client;
    for &proxy in chain.iter().take(MOST_LINES) {
        let adds = [Adds::ToTheLine, Adds::ALine, Adds::ToAllLines][usize::from(proxy % 3)];
        let writes = [Writes::Plainly, Writes::WithPort, Writes::Mapped, Writes::Escaped][usize::from(proxy / 3 % 4)];
        adds.add(&mut lines, &writes.entry(header, from));
        from = if proxy / 12 % 2 == 0 { PROXY } else { PROXY_V6 };
    }
    assert_eq!(trusting(header).client_of(from, &headers(header, &lines)), client, "{header:?}: {lines:?}");
}

fn trusting(header: Header) -> TrustedProxies {
    let proxies = TrustedProxies::new(["10.0.0.0/8", "fd00::/8"]).expect("both are networks");
    match header {
        Header::XForwardedFor => proxies,
        Header::Forwarded => proxies.forwarded(),
    }
}

fn headers(header: Header, lines: &[Vec<u8>]) -> HeaderMap {
    let name = match header {
        Header::XForwardedFor => X_FORWARDED_FOR,
        Header::Forwarded => FORWARDED,
    };
    lines.iter().map(|line| (name.clone(), HeaderValue::from_bytes(line).expect("the lines are valid"))).collect()
}
