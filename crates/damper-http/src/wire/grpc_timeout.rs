//! The header `grpc-timeout` of gRPC over HTTP/2: up to 8 digits and a unit.

use core::time::Duration;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The header by which a gRPC client says how long it waits for the response.
pub const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The units and their nanoseconds, the smallest first.
const UNITS: [(u8, u128); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', 1_000_000_000),
    (b'M', 60_000_000_000),
    (b'H', 3_600_000_000_000),
];

const MAX_DIGITS: usize = 8;

/// The largest number of 8 digits.
const LARGEST: u128 = 99_999_999;

/// Returns the value of a `grpc-timeout` header.
///
/// It is in the smallest unit that fits 8 digits, rounded up to it, as grpc-go does.
///
/// More than 99999999 hours become as many.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use core::time::Duration;
/// use damper::wire::grpc_timeout;
///
/// assert_eq!(grpc_timeout(Duration::from_millis(50)), "50000000n");
/// assert_eq!(grpc_timeout(Duration::from_secs(2)), "2000000u");
/// ```
#[must_use]
pub fn grpc_timeout(timeout: Duration) -> HeaderValue {
    let nanos = timeout.as_nanos();
    let (number, unit) = UNITS
        .iter()
        .map(|&(unit, size)| (nanos.div_ceil(size), unit))
        .find(|&(number, _)| number <= LARGEST)
        .unwrap_or((LARGEST, b'H'));
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number).as_bytes();
    let mut value = [unit; MAX_DIGITS + 1];
    value[..digits.len()].copy_from_slice(digits);
    // Digits and a letter are always valid.
    HeaderValue::from_bytes(&value[..=digits.len()]).unwrap_or(HeaderValue::from_static("0n"))
}

/// Reads the timeout of a request's `grpc-timeout`; `None` if there is none, or it is malformed.
///
/// It is 1 to 8 digits and one of the units `H`, `M`, `S`, `m`, `u`, `n`, without spaces or a sign. Zero is a timeout that
/// has passed. Of a header with several lines the first counts.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use core::time::Duration;
/// use damper::wire::{GRPC_TIMEOUT, grpc_timeout_in};
/// use http::{HeaderMap, HeaderValue};
///
/// let mut headers = HeaderMap::new();
/// headers.insert(GRPC_TIMEOUT, HeaderValue::from_static("100m"));
/// assert_eq!(grpc_timeout_in(&headers), Some(Duration::from_millis(100)));
/// ```
#[must_use]
pub fn grpc_timeout_in(headers: &HeaderMap) -> Option<Duration> {
    let (unit, digits) = headers.get(GRPC_TIMEOUT)?.as_bytes().split_last()?;
    let (_, size) = UNITS.iter().find(|(letter, _)| letter == unit)?;
    if digits.is_empty() || digits.len() > MAX_DIGITS || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |number: u32, digit| number * 10 + u32::from(digit - b'0'));
    let nanos = u128::from(number) * size;
    Some(Duration::new((nanos / 1_000_000_000) as u64, (nanos % 1_000_000_000) as u32))
}
