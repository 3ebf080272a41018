//! Headers that a request carries over the gateway to the upstream, to account for each hit.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// The phase in which the client sent it. Only requests of this program's own load have it.
pub(crate) const PHASE: HeaderName = HeaderName::from_static("x-phase");

/// The tick before the breaker was asked.
pub(crate) const ASKED: HeaderName = HeaderName::from_static("x-asked");

/// The tick after the breaker let it pass.
pub(crate) const ADMITTED: HeaderName = HeaderName::from_static("x-admitted");

pub(crate) fn set_tick(headers: &mut HeaderMap, name: HeaderName, tick: u64) {
    headers.insert(name, HeaderValue::from(tick));
}

pub(crate) fn tick(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}
