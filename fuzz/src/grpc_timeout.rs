//! `grpc-timeout` as arbitrary bytes, and a duration that is written and read back.

use damper::wire::{self, GRPC_TIMEOUT, grpc_timeout_in};
use http::{HeaderMap, HeaderValue};
use std::time::Duration;

const UNITS: [(char, Duration); 6] = [
    ('n', Duration::from_nanos(1)),
    ('u', Duration::from_micros(1)),
    ('m', Duration::from_millis(1)),
    ('S', Duration::from_secs(1)),
    ('M', Duration::from_secs(60)),
    ('H', Duration::from_secs(3_600)),
];

/// Compares the parsed value with the model's.
///
/// The first 13 bytes are the shift, the seconds and the nanoseconds of a duration. The rest is the value.
pub fn grpc_timeout(input: &[u8]) {
    let Some((&[shift, ref duration @ ..], value)) = input.split_first_chunk::<13>() else { return };
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |sum, &byte| sum << 8 | u64::from(byte));
    let seconds = number(&duration[..8]) >> (shift % 64);
    let timeout = Duration::new(seconds, (number(&duration[8..]) % 1_000_000_000) as u32);
    let written = wire::grpc_timeout(timeout);
    let (unit, read) = model(written.as_bytes()).expect("a written value is valid");
    assert_eq!(decode(written), Some(read), "{timeout:?}");
    let longest = Duration::from_secs(99_999_999 * 3_600);
    assert!(read >= timeout.min(longest) && read - timeout.min(longest) < unit, "{timeout:?} read as {read:?}");

    if let Ok(header) = HeaderValue::from_bytes(value) {
        assert_eq!(decode(header), model(value).map(|(_, timeout)| timeout), "{}", value.escape_ascii());
    }
}

fn decode(value: HeaderValue) -> Option<Duration> {
    grpc_timeout_in(&HeaderMap::from_iter([(GRPC_TIMEOUT, value)]))
}

/// Returns the unit and the timeout.
fn model(value: &[u8]) -> Option<(Duration, Duration)> {
    let text = std::str::from_utf8(value).ok()?;
    let (digits, unit) = UNITS.iter().find_map(|&(letter, unit)| Some((text.strip_suffix(letter)?, unit)))?;
    let is_number = digits.chars().all(|digit| digit.is_ascii_digit()) && (1..=8).contains(&digits.len());
    is_number.then(|| (unit, unit * digits.parse::<u32>().expect("8 digits fit")))
}
