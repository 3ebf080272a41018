//! Entries that proxies write, and malformed ones, one by one.

use damper::wire::{TrustedProxies, X_FORWARDED_FOR, leftmost_forgeable};
use http::header::FORWARDED;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::net::IpAddr;

const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9));

fn proxies() -> TrustedProxies {
    TrustedProxies::new(["10.0.0.0/8", "fd00::/8"]).unwrap()
}

fn headers(name: &HeaderName, lines: &[&[u8]]) -> HeaderMap {
    lines.iter().map(|line| (name.clone(), HeaderValue::from_bytes(line).unwrap())).collect()
}

fn x_forwarded_for(lines: &[&str]) -> String {
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    proxies().client_of(PEER, &headers(&X_FORWARDED_FOR, &lines)).to_string()
}

fn forwarded(lines: &[&str]) -> String {
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    proxies().forwarded().client_of(PEER, &headers(&FORWARDED, &lines)).to_string()
}

#[test]
fn x_forwarded_for_entries_are_parsed() {
    for (entry, client) in [
        ("192.0.2.7", "192.0.2.7"),
        ("192.0.2.7:4711", "192.0.2.7"),
        ("2001:db8::7", "2001:db8::7"),
        ("2001:DB8::7", "2001:db8::7"),
        ("[2001:db8::7]", "2001:db8::7"),
        ("[2001:db8::7]:4711", "2001:db8::7"),
        ("fe80::7%eth0", "fe80::7"),
        ("[fe80::7%25eth0]:4711", "fe80::7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("[::ffff:192.0.2.7]:4711", "192.0.2.7"),
        ("  \t192.0.2.7\t ", "192.0.2.7"),
        ("203.0.113.9,192.0.2.7", "192.0.2.7"),
        ("203.0.113.9, 192.0.2.7, 10.1.2.3:80,fd00::1 , ::ffff:10.0.0.1", "192.0.2.7"),
        // All hops are trusted, so the leftmost counts.
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1, 10.0.0.2", "10.0.0.1"),
        // A hop that is not an address ends the walk at the proxy that wrote it.
        ("", "10.0.0.9"),
        ("unknown", "10.0.0.9"),
        ("192.0.2.7, unknown", "10.0.0.9"),
        ("192.0.2.7, unknown, 10.0.0.1", "10.0.0.1"),
        ("192.0.2.7, , 10.0.0.1", "10.0.0.1"),
        ("192.0.2.7,", "10.0.0.9"),
        ("192.0.2.7, unix:", "10.0.0.9"),
        ("client.example.com", "10.0.0.9"),
        ("192.0.2.7 10.0.0.1", "10.0.0.9"),
        ("192.0.2.7:", "10.0.0.9"),
        ("192.0.2.7:471111", "10.0.0.9"),
        ("192.0.2.7:-1", "10.0.0.9"),
        ("192.0.2.07", "10.0.0.9"),
        ("192.0.2", "10.0.0.9"),
        ("192.0.2.256", "10.0.0.9"),
        ("[192.0.2.7]", "10.0.0.9"),
        ("[2001:db8::7", "10.0.0.9"),
        ("[2001:db8::7]x", "10.0.0.9"),
        ("[2001:db8::7]:", "10.0.0.9"),
        ("fe80::7%", "10.0.0.9"),
        ("192.0.2.7%eth0", "10.0.0.9"),
        ("\"192.0.2.7\"", "10.0.0.9"),
        ("for=192.0.2.7", "10.0.0.9"),
    ] {
        assert_eq!(x_forwarded_for(&[entry]), client, "{entry:?}");
    }
}

#[test]
fn forwarded_elements_are_parsed() {
    for (element, client) in [
        ("for=192.0.2.7", "192.0.2.7"),
        ("For=192.0.2.7", "192.0.2.7"),
        ("FOR=\"192.0.2.7:4711\"", "192.0.2.7"),
        ("for=\"192.0.2.7:_hidden\"", "192.0.2.7"),
        ("for=\"[2001:db8::1]:4711\"", "2001:db8::1"),
        ("for=\"[2001:db8::1]\"", "2001:db8::1"),
        ("for=\"[::ffff:192.0.2.7]\"", "192.0.2.7"),
        ("for=\"[fe80::1%25eth0]\"", "fe80::1"),
        ("for=\"\\192.0.2.\\7\"", "192.0.2.7"),
        ("proto=http;for=192.0.2.7;by=203.0.113.43", "192.0.2.7"),
        ("proto=http; for=192.0.2.7 ;;", "192.0.2.7"),
        ("host=\"a, for=203.0.113.9\";for=192.0.2.7", "192.0.2.7"),
        ("for=192.0.2.7;host=\"\\\", for=203.0.113.9\"", "192.0.2.7"),
        ("for=192.0.2.7;host=\"\\\\\";x=\";for=203.0.113.9\"", "192.0.2.7"),
        ("for=203.0.113.9, for=192.0.2.7;by=_a, for=10.0.0.1,for=\"[fd00::1]:80\"", "192.0.2.7"),
        // Deviations that some proxies have.
        ("for=192.0.2.7:4711", "192.0.2.7"),
        ("for=2001:db8::1", "2001:db8::1"),
        ("for=\"2001:db8::1\"", "2001:db8::1"),
        // All hops are trusted, so the leftmost counts.
        ("for=10.0.0.1, for=10.0.0.2", "10.0.0.1"),
        // A missing, hidden or malformed address ends the walk at the proxy that wrote it.
        ("", "10.0.0.9"),
        ("for=", "10.0.0.9"),
        ("for=unknown", "10.0.0.9"),
        ("for=_hidden", "10.0.0.9"),
        ("for=192.0.2.7, for=\"_hidden:_port\", for=10.0.0.1", "10.0.0.1"),
        ("for=192.0.2.7, for=unknown", "10.0.0.9"),
        ("for=192.0.2.7, proto=https", "10.0.0.9"),
        ("for=192.0.2.7, , for=10.0.0.1", "10.0.0.1"),
        ("for=192.0.2.7;for=203.0.113.9", "10.0.0.9"),
        ("for=192.0.2.7;FOR=192.0.2.7", "10.0.0.9"),
        ("for = 192.0.2.7", "10.0.0.9"),
        ("xfor=192.0.2.7", "10.0.0.9"),
        ("192.0.2.7", "10.0.0.9"),
        ("for=\"192.0.2.7", "10.0.0.9"),
        ("for=192.0.2.7\"", "10.0.0.9"),
        ("for=\"", "10.0.0.9"),
        ("for=\"192.0.2.7\"x", "10.0.0.9"),
        ("for=\"192.0.2.7\"\"\"", "10.0.0.9"),
        ("for=\"192.0.2.7\\\"", "10.0.0.9"),
        ("x\\;for=192.0.2.7", "10.0.0.9"),
        // A client opens a string and never closes it.
        ("for=\"203.0.113.9, for=192.0.2.7", "192.0.2.7"),
        ("for=\"203.0.113.9\\, for=192.0.2.7;by=\"x\", for=10.0.0.1", "192.0.2.7"),
        ("for=\"203.0.113.9, for=10.0.0.1", "10.0.0.1"),
    ] {
        assert_eq!(forwarded(&[element]), client, "{element:?}");
    }
}

#[test]
fn several_lines_form_one_list() {
    assert_eq!(x_forwarded_for(&["203.0.113.9, 192.0.2.7", "10.0.0.1", "10.0.0.2, 10.0.0.3"]), "192.0.2.7");
    assert_eq!(x_forwarded_for(&["203.0.113.9", "192.0.2.7"]), "192.0.2.7", "not the first line");
    assert_eq!(x_forwarded_for(&["192.0.2.7", "", "10.0.0.1"]), "10.0.0.1", "an empty line is an empty entry");
    assert_eq!(
        forwarded(&["for=203.0.113.9, for=192.0.2.7", "for=10.0.0.1", "for=10.0.0.2,for=10.0.0.3"]),
        "192.0.2.7"
    );
    assert_eq!(
        forwarded(&["for=\"203.0.113.9", "for=192.0.2.7\"", "for=10.0.0.1"]),
        "10.0.0.1",
        "no string spans lines"
    );
}

#[test]
fn non_utf8_entries_are_no_address() {
    for line in [&b"\xff\xfe"[..], b"192.0.2.7\x80", b"192.0.2.7, \xc3\x28", b"\xe2\x80\x8b192.0.2.7"] {
        assert_eq!(proxies().client_of(PEER, &headers(&X_FORWARDED_FOR, &[line])), PEER, "{line:?}");
        let element = [b"for=\"", line, b"\""].concat();
        assert_eq!(proxies().forwarded().client_of(PEER, &headers(&FORWARDED, &[&element])), PEER, "{line:?}");
    }
}

#[test]
fn only_the_configured_header_is_read() {
    let mut headers = headers(&X_FORWARDED_FOR, &[b"192.0.2.7"]);
    headers.insert(FORWARDED, HeaderValue::from_static("for=198.51.100.7"));
    assert_eq!(proxies().client_of(PEER, &headers).to_string(), "192.0.2.7");
    assert_eq!(proxies().forwarded().client_of(PEER, &headers).to_string(), "198.51.100.7");
    headers.remove(X_FORWARDED_FOR);
    assert_eq!(proxies().client_of(PEER, &headers), PEER);
}

#[test]
fn untrusted_peer_is_the_client() {
    let headers = headers(&X_FORWARDED_FOR, &[b"203.0.113.9"]);
    for (peer, client) in
        [("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("::ffff:10.0.0.1", "203.0.113.9")]
    {
        assert_eq!(proxies().client_of(peer.parse().unwrap(), &headers).to_string(), client);
    }
}

#[test]
fn networks_match_their_addresses() {
    let headers = headers(&X_FORWARDED_FOR, &[b"203.0.113.9"]);
    for (network, trusted, others) in [
        ("192.0.2.1", &["192.0.2.1", "::ffff:192.0.2.1"][..], &["192.0.2.0", "192.0.2.2", "::192.0.2.1"][..]),
        ("192.0.2.1/32", &["192.0.2.1"], &["192.0.2.0", "192.0.2.2"]),
        ("192.0.2.130/25", &["192.0.2.128", "192.0.2.255"], &["192.0.2.127", "192.0.3.0"]),
        (" 192.0.2.0/24 ", &["192.0.2.0"], &["192.0.3.0"]),
        ("128.0.0.0/1", &["128.0.0.0", "255.255.255.255"], &["127.255.255.255", "8000::"]),
        ("2001:db8::1", &["2001:db8::1"], &["2001:db8::", "2001:db8::2"]),
        ("2001:db8::/33", &["2001:db8:7fff:ffff::"], &["2001:db8:8000::"]),
        ("::ffff:192.0.2.0/120", &["192.0.2.0", "192.0.2.255"], &["192.0.3.0", "::"]),
        ("::ffff:192.0.2.1", &["192.0.2.1"], &["192.0.2.2"]),
        ("::/1", &["::1", "7fff::"], &["8000::", "192.0.2.1"]),
    ] {
        let proxies = TrustedProxies::new([network]).unwrap();
        for (peers, is_trusted) in [(trusted, true), (others, false)] {
            for peer in peers {
                let client = proxies.client_of(peer.parse().unwrap(), &headers);
                assert_eq!(client.to_string() == "203.0.113.9", is_trusted, "{peer} and {network}");
            }
        }
    }
    assert_eq!(TrustedProxies::new([""; 0]), Ok(TrustedProxies::default()));
    assert_eq!(TrustedProxies::default().client_of(PEER, &headers), PEER, "no proxy is trusted");
}

#[test]
fn invalid_networks_are_refused() {
    for text in [
        "",
        "localhost",
        "10.0.0.0/33",
        "10.0.0.0/",
        "/8",
        "10.0.0.0/8/8",
        "10.0.0/8",
        "010.0.0.0/8",
        "fd00::/129",
        "fd00::/x",
        "10.0.0.0-10.0.0.9",
        "10.0.0.0/255.0.0.0",
        "10.0.0.1:80",
        "[fd00::1]",
        "10.0.0.0/256",
        "10.0.0.0/-1",
    ] {
        let error = TrustedProxies::new(["10.0.0.0/8", text, "fd00::/8"]).unwrap_err();
        assert_eq!((error.value(), error.allowed().starts_with("an address")), (text, true));
    }
    let error = TrustedProxies::new(["10.0.0.0/33".to_owned()]).unwrap_err();
    let expected =
        "a trusted proxy is \"10.0.0.0/33\", it must be an address, or a network such as 10.0.0.0/8 or fd00::/8";
    assert_eq!(error.to_string(), expected);
    for text in ["0.0.0.0/0", "::/0", "10.0.0.0/0", "::ffff:0.0.0.0/96"] {
        let message = format!("a trusted proxy is {text:?}, it must be a network of fewer than all addresses");
        assert_eq!(TrustedProxies::new([text]).unwrap_err().to_string(), message);
    }
}

#[test]
fn leftmost_address_is_forgeable() {
    let mut headers = HeaderMap::new();
    assert_eq!(leftmost_forgeable(&headers), None);
    headers.insert(FORWARDED, HeaderValue::from_static("for=\"[2001:db8::1]\", for=10.0.0.1"));
    assert_eq!(leftmost_forgeable(&headers).unwrap().to_string(), "2001:db8::1");
    headers.append(X_FORWARDED_FOR, HeaderValue::from_static("203.0.113.9:80, 192.0.2.7"));
    headers.append(X_FORWARDED_FOR, HeaderValue::from_static("10.0.0.1"));
    assert_eq!(leftmost_forgeable(&headers).unwrap().to_string(), "203.0.113.9");
    headers.insert(X_FORWARDED_FOR, HeaderValue::from_static("unknown, 192.0.2.7"));
    assert_eq!(leftmost_forgeable(&headers), None);
}

/// Quadratic work on such a long header would not end within an hour.
///
/// The client's own part is not read at all.
#[test]
fn long_headers_take_linear_time() {
    const LONG: usize = 1 << 18;
    let endings = [
        "",
        "\"",
        "\\",
        "\\\"",
        "\"\\",
        "\",",
        "\\\",",
        ";",
        "\";",
        ",",
        "for=10.0.0.1,",
        "for=\"10.0.0.1\",",
        "10.0.0.1,",
        "[",
        ":",
        "\"\\\\\"",
        "\"\\\"\",",
        "for=\"\\\\\";",
        "%",
        "_",
    ];
    for ending in endings {
        let line = if ending.is_empty() { "x".repeat(LONG) } else { ending.repeat(LONG / ending.len()) };
        for tail in ["", "\"", ", for=10.0.0.1", "for=\"[fd00::1]\"", ",10.0.0.1"] {
            let line = format!("{line}{tail}");
            for name in [X_FORWARDED_FOR, FORWARDED] {
                let headers = headers(&name, &[line.as_bytes()]);
                let _ = proxies().client_of(PEER, &headers);
                let _ = proxies().forwarded().client_of(PEER, &headers);
                let _ = leftmost_forgeable(&headers);
            }
        }
    }
    let said = ",".repeat(LONG) + "\"".repeat(LONG).as_str();
    let x_forwarded_for = headers(&X_FORWARDED_FOR, &[said.as_bytes(), format!("{said}, 192.0.2.7").as_bytes()]);
    let forwarded = headers(&FORWARDED, &[said.as_bytes(), format!("{said}, for=192.0.2.7").as_bytes()]);
    // Read, these would be 100 GB.
    for _ in 0..100_000 {
        assert_eq!(proxies().client_of(PEER, &x_forwarded_for).to_string(), "192.0.2.7");
        assert_eq!(proxies().forwarded().client_of(PEER, &forwarded).to_string(), "192.0.2.7");
    }
}
