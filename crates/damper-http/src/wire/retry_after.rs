//! The header `Retry-After` (RFC 9110, section 10.2.3).
//!
//! It is written in its form of seconds, and read in both of its forms.

use core::time::Duration;
use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::time::SystemTime;

/// The value of a `Retry-After` header for this wait: whole seconds, rounded up, at least 1.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
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

/// Returns a duration as whole seconds, rounded up.
///
/// A client that waits for them has waited long enough.
pub(super) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

/// Reads how long the `Retry-After` of a response asks to wait.
///
/// `None` if there is none, or it is malformed.
///
/// It is a number of seconds or a date, in any of the three forms that RFC 9110 wants recipients to understand
/// (section 5.6.7). A year of two digits is one from 1970 to 2069. A date in the past asks for no wait. More seconds
/// than a `u64` holds are as many as it does.
///
/// A date is compared with the response's own `Date`, so that neither the server's clock nor this one has to be right.
/// Without a valid `Date` it is compared with the system's clock ([`SystemTime`]), and the wait is as wrong as the two
/// clocks differ.
///
/// Of a header with several lines the first counts. Never allocates. The wait is not bounded here: cut it at what the
/// caller can bear, as a breaker does with
/// [`max_retry_after`](damper_core::breaker::BreakerConfigBuilder::max_retry_after).
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use core::time::Duration;
/// use damper::wire::retry_after_in;
/// use http::{HeaderMap, HeaderValue, header};
///
/// let mut headers = HeaderMap::new();
/// headers.insert(header::RETRY_AFTER, HeaderValue::from_static("120"));
/// assert_eq!(retry_after_in(&headers), Some(Duration::from_secs(120)));
///
/// headers.insert(header::RETRY_AFTER, HeaderValue::from_static("Sun, 06 Nov 1994 08:51:37 GMT"));
/// headers.insert(header::DATE, HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"));
/// assert_eq!(retry_after_in(&headers), Some(Duration::from_secs(120)));
/// ```
#[must_use]
pub fn retry_after_in(headers: &HeaderMap) -> Option<Duration> {
    let value = text(headers, &RETRY_AFTER)?;
    seconds(value).or_else(|| {
        let then = httpdate::parse_http_date(value).ok()?;
        // An error says that `then` is before.
        Some(then.duration_since(date_of(headers)).unwrap_or_default())
    })
}

/// Returns when the response was made: its `Date`, or else now.
pub(super) fn date_of(headers: &HeaderMap) -> SystemTime {
    let date = text(headers, &DATE).and_then(|date| httpdate::parse_http_date(date).ok());
    date.unwrap_or_else(SystemTime::now)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim_ascii)
}

/// Digits only: not the sign that `u64` would read.
fn seconds(value: &str) -> Option<Duration> {
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| Duration::from_secs(value.parse().unwrap_or(u64::MAX)))
}
