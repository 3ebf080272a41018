//! Honest proxies, each with its own format.

use super::model::Header;
use std::net::IpAddr;

/// How a proxy adds an entry to a header.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Adds {
    /// To the last line.
    ToTheLine,
    /// As a separate line.
    ALine,
    /// To all lines, joined into one.
    ToAllLines,
}

/// How a proxy writes an address.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Writes {
    Plainly,
    WithPort,
    Mapped,
    /// In `Forwarded` only. Elsewhere like `Plainly`.
    Escaped,
}

impl Adds {
    pub(crate) fn add(self, lines: &mut Vec<Vec<u8>>, entry: &[u8]) {
        if matches!(self, Self::ToAllLines) {
            *lines = if lines.is_empty() { vec![] } else { vec![lines.join(&b", "[..])] };
        }
        match (self, lines.last_mut()) {
            (Self::ToTheLine | Self::ToAllLines, Some(line)) => {
                line.extend(b", ");
                line.extend(entry);
            }
            _ => lines.push(entry.to_vec()),
        }
    }
}

impl Writes {
    /// Returns the proxy's entry for its client.
    pub(crate) fn entry(self, header: Header, address: IpAddr) -> Vec<u8> {
        let node = match (self, address) {
            (Self::Mapped, IpAddr::V4(address)) => self.bracketed(header, &address.to_ipv6_mapped().to_string()),
            (_, IpAddr::V6(address)) => self.bracketed(header, &address.to_string()),
            (Self::WithPort, IpAddr::V4(address)) => format!("{address}:4711"),
            (_, IpAddr::V4(address)) => address.to_string(),
        };
        let entry = match (header, self) {
            (Header::XForwardedFor, _) => node,
            (Header::Forwarded, Self::Plainly) if address.is_ipv4() => format!("for={node}"),
            (Header::Forwarded, Self::Plainly) => format!(r#"For="{node}""#),
            (Header::Forwarded, Self::WithPort) => format!(r#"proto=https;for="{node}";by=_proxy"#),
            (Header::Forwarded, Self::Mapped) => format!(r#"by="a,b;for=\",\\" ; FOR="{node}""#),
            (Header::Forwarded, Self::Escaped) => format!(r#"for="\{node}";host="\"\\""#),
        };
        entry.into_bytes()
    }

    fn bracketed(self, header: Header, address: &str) -> String {
        match (self, header) {
            (Self::WithPort, _) => format!("[{address}]:4711"),
            (_, Header::Forwarded) => format!("[{address}]"),
            (_, Header::XForwardedFor) => address.to_owned(),
        }
    }
}
