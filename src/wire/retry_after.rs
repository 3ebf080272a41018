//! The header `Retry-After` (RFC 9110, section 10.2.3), in its form of seconds.

use super::seconds::whole_seconds;
use core::time::Duration;
use http::HeaderValue;

/// The value of a `Retry-After` header for this wait: whole seconds, rounded up, at least 1.
///
/// # Examples
///
/// ```
/// use core::time::Duration;
/// use damper::wire::retry_after;
///
/// assert_eq!(retry_after(Duration::from_millis(1_200)), "2");
/// assert_eq!(retry_after(Duration::ZERO), "1");
/// ```
#[must_use]
pub fn retry_after(wait: Duration) -> HeaderValue {
    HeaderValue::from(whole_seconds(wait).max(1))
}
