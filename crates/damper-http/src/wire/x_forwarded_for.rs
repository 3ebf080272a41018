//! `X-Forwarded-For`: each proxy adds the address of its own peer at the right end.

use super::{forwarded, node};
use core::net::IpAddr;
use http::{HeaderMap, HeaderName};

/// The name of the header `X-Forwarded-For`.
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The hops from the right, all lines of the header being one list.
///
/// `None` for a hop that is not an address, or is empty.
pub(super) fn hops_from_the_right(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = headers.get_all(X_FORWARDED_FOR).into_iter().rev();
    let entries = lines.flat_map(|line| line.as_bytes().rsplit(|&byte| byte == b','));
    entries.map(|entry| node::address(entry.trim_ascii()))
}

/// Returns the leftmost address of `X-Forwarded-For`, or of `Forwarded` where there is no such header.
///
/// It is the client's if the client and all proxies are honest. **Every client can put any address there**, so it
/// is no key for a limit; it may do for a log.
///
/// `None` if the leftmost entry is not an address, or there is none. IPv4 that is mapped into IPv6 is IPv4.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::wire::{X_FORWARDED_FOR, leftmost_forgeable};
/// use http::{HeaderMap, HeaderValue};
/// use std::net::IpAddr;
///
/// let mut headers = HeaderMap::new();
/// headers.insert(X_FORWARDED_FOR, HeaderValue::from_static("192.0.2.7, 10.0.0.1"));
/// assert_eq!(leftmost_forgeable(&headers), Some(IpAddr::from([192, 0, 2, 7])));
/// ```
#[must_use]
pub fn leftmost_forgeable(headers: &HeaderMap) -> Option<IpAddr> {
    if headers.contains_key(X_FORWARDED_FOR) {
        hops_from_the_right(headers).last().flatten()
    } else {
        forwarded::hops_from_the_right(headers).last().flatten()
    }
}
