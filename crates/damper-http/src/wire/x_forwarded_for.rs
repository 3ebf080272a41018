//! `X-Forwarded-For`: each proxy adds the address of who it was asked by at the right end.

use super::node;
use core::net::IpAddr;
use http::{HeaderMap, HeaderName};

/// The name of the header `X-Forwarded-For`.
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The hops from the right, all lines of the header being one list; `None` for a hop that is not an address, or is
/// empty.
pub(super) fn hops_from_the_right(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = headers.get_all(X_FORWARDED_FOR).into_iter().rev();
    let entries = lines.flat_map(|line| line.as_bytes().rsplit(|&byte| byte == b','));
    entries.map(|entry| node::address(entry.trim_ascii()))
}
