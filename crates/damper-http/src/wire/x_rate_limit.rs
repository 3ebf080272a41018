//! The headers `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, which many clients know.

use super::retry_after::whole_seconds;
use core::time::Duration;
use damper_core::quota::Quota;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The name of the header `X-RateLimit-Limit`: the tokens that can be there.
pub const X_RATE_LIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");

/// The name of the header `X-RateLimit-Remaining`: the tokens that are left.
pub const X_RATE_LIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");

/// The name of the header `X-RateLimit-Reset`: the seconds until all tokens are there.
pub const X_RATE_LIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Writes a limit for clients that do not understand [`RateLimitHeaders`](super::RateLimitHeaders).
///
/// The headers have its capacity, the tokens that are left, and the seconds until all are there.
///
/// No document says what these headers mean. Here, as in most places, the reset is in seconds from now, rounded up, and
/// not a date; it is absent if there never will be more. There is place for one limit: what was written of another is
/// replaced. Nothing is written of [`Quota::UNLIMITED`].
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use core::time::Duration;
/// use damper::{Quota, wire};
/// use http::HeaderMap;
///
/// let mut headers = HeaderMap::new();
/// wire::x_rate_limit(&mut headers, Quota::per_minute(100), 50, Some(Duration::from_millis(29_100)));
/// assert_eq!(headers[wire::X_RATE_LIMIT_LIMIT], "100");
/// assert_eq!(headers[wire::X_RATE_LIMIT_REMAINING], "50");
/// assert_eq!(headers[wire::X_RATE_LIMIT_RESET], "30");
/// ```
pub fn x_rate_limit(headers: &mut HeaderMap, quota: Quota, remaining: u32, resets_in: Option<Duration>) {
    if quota.is_unlimited() {
        return;
    }
    let reset = resets_in.map(|duration| HeaderValue::from(whole_seconds(duration)));
    for (header, value) in [
        (X_RATE_LIMIT_LIMIT, Some(HeaderValue::from(quota.burst_size()))),
        (X_RATE_LIMIT_REMAINING, Some(HeaderValue::from(remaining))),
        (X_RATE_LIMIT_RESET, reset),
    ] {
        match value {
            // Unlike `insert`, does not panic when the map is full.
            Some(value) => _ = headers.try_insert(header, value),
            None => _ = headers.remove(header),
        }
    }
}
