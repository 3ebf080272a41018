//! `Forwarded` (RFC 7239): each proxy adds an element such as `for=192.0.2.7;proto=https` at the right end.
//!
//! A quoted string may contain the separators of elements and parameters, and a client can open one that it never
//! closes. A parser that starts at the left takes all that the proxies added for a part of that string. This one starts
//! at the right. There the quotes are those of proxies, which close what they open, so it knows where an element of
//! theirs ends before it looks at anything to the left:
//!
//! - a quote that is met outside of a string ends one, which starts at the next quote to the left that is not escaped,
//!   as those are which have an odd number of backslashes before them;
//! - a backslash outside of a string, a string that ends with an escaped quote, and one without a start are in no
//!   element that is well formed: that element and all of the line to its left are one hop that is not known.

use super::node;
use core::net::IpAddr;
use http::HeaderMap;
use http::header::FORWARDED;

/// The hops from the right, all lines of the header being one list.
///
/// `None` for a hop that is missing, is hidden, is not an address, or is in an element that is empty or not well
/// formed.
pub(super) fn hops_from_the_right(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = headers.get_all(FORWARDED).into_iter().rev();
    lines.flat_map(|line| Parts { rest: Some(line.as_bytes()), separator: b',' }).map(hop)
}

/// The address in the only `for` of an element.
fn hop(element: Option<&[u8]>) -> Option<IpAddr> {
    let parameters = Parts { rest: Some(element?), separator: b';' };
    let mut named_for = parameters.flatten().filter_map(|parameter| match parameter.trim_ascii() {
        [b'f' | b'F', b'o' | b'O', b'r' | b'R', b'=', value @ ..] => Some(value),
        _ => None,
    });
    match (named_for.next(), named_for.next()) {
        (Some([b'"', string @ .., b'"']), None) => Unquoted::of(string)?.address(),
        (Some(token), None) => node::address(token),
        _ => None,
    }
}

/// The parts between separators outside of strings, from the right.
///
/// `None` for the last if it is not well formed.
#[derive(Clone, Debug)]
struct Parts<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> Iterator for Parts<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        let mut end = rest.len();
        while let Some((&byte, before)) = rest.get(..end).and_then(<[u8]>::split_last) {
            end = match byte {
                b'"' => match start_of_string(before) {
                    Some(start) => start,
                    None => return Some(None),
                },
                b'\\' => return Some(None),
                byte if byte == self.separator => {
                    self.rest = Some(before);
                    return Some(rest.get(end..));
                }
                _ => before.len(),
            };
        }
        Some(Some(rest))
    }
}

/// Where the string starts, its quote included, which ends right after this.
fn start_of_string(before: &[u8]) -> Option<usize> {
    if is_escaped(before) {
        return None;
    }
    let mut before = before;
    loop {
        let start = before.iter().rposition(|&byte| byte == b'"')?;
        before = before.get(..start)?;
        if !is_escaped(before) {
            return Some(start);
        }
    }
}

/// Whether what follows this has an odd number of backslashes before it.
fn is_escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

/// A string without its quotes and escapes (RFC 9110, section 5.6.4).
struct Unquoted {
    bytes: [u8; Self::LONGEST],
    len: usize,
}

impl Unquoted {
    /// An address, a zone and a port are shorter.
    const LONGEST: usize = 128;

    /// `None` if it is longer than any address, or consists of two adjacent strings.
    fn of(string: &[u8]) -> Option<Self> {
        let mut unquoted = Self { bytes: [0; Self::LONGEST], len: 0 };
        let mut bytes = string.iter();
        while let Some(&byte) = bytes.next() {
            let byte = match byte {
                b'\\' => *bytes.next()?,
                b'"' => return None,
                byte => byte,
            };
            *unquoted.bytes.get_mut(unquoted.len)? = byte;
            unquoted.len += 1;
        }
        Some(unquoted)
    }

    fn address(&self) -> Option<IpAddr> {
        node::address(self.bytes.get(..self.len)?)
    }
}
