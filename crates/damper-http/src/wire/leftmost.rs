//! The leftmost address, which is whatever the client says.

use super::{X_FORWARDED_FOR, forwarded, x_forwarded_for};
use core::net::IpAddr;
use http::HeaderMap;

/// The leftmost address of `X-Forwarded-For`, or of `Forwarded` where there is no such header: the client's if nobody
/// on the way lies. **Every client can put any address there**, so it is no key for a limit; it may do for a log.
///
/// `None` if the leftmost entry is not an address, or there is none. IPv4 that is mapped into IPv6 is IPv4.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub use damper_http as http; pub use damper_http::wire; }
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
        x_forwarded_for::hops_from_the_right(headers).last().flatten()
    } else {
        forwarded::hops_from_the_right(headers).last().flatten()
    }
}
