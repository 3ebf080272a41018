//! `grpc-timeout`, written and read.

use damper::wire::{GRPC_TIMEOUT, grpc_timeout, grpc_timeout_in};
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use std::time::Duration;

const LONGEST: Duration = Duration::from_secs(99_999_999 * 3600);

fn decode(value: HeaderValue) -> Option<Duration> {
    grpc_timeout_in(&HeaderMap::from_iter([(GRPC_TIMEOUT, value)]))
}

/// Returns the unit of a value, in nanoseconds.
fn unit(value: &HeaderValue) -> u128 {
    match value.as_bytes().last() {
        Some(b'n') => 1,
        Some(b'u') => 1_000,
        Some(b'm') => 1_000_000,
        Some(b'S') => 1_000_000_000,
        Some(b'M') => 60_000_000_000,
        Some(b'H') => 3_600_000_000_000,
        unit => panic!("{unit:?}"),
    }
}

#[test]
fn longest_timeouts_saturate() {
    assert_eq!(grpc_timeout(Duration::MAX), "99999999H");
    assert_eq!(decode(grpc_timeout(Duration::MAX)), Some(LONGEST));
}

#[test]
fn unit_is_the_finest_in_which_eight_digits_suffice() {
    assert_eq!(grpc_timeout(Duration::from_nanos(99_999_999)), "99999999n");
    assert_eq!(grpc_timeout(Duration::from_nanos(100_000_000)), "100000u");
}

proptest! {
    #[test]
    fn written_timeout_is_read_back_within_one_unit(
        bits in 0_u32..96,
        random: u128,
    ) {
        let nanos = random & ((1 << bits) - 1) | 1 << bits;
        let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
        let timeout = Duration::new(seconds, (nanos % 1_000_000_000) as u32).min(LONGEST);
        let value = grpc_timeout(timeout);
        prop_assert!(value.len() <= 9);
        let unit = unit(&value);
        let read = decode(value).unwrap();
        prop_assert!(read >= timeout);
        prop_assert!(read.saturating_sub(timeout).as_nanos() < unit);
    }

    #[test]
    fn any_bytes_are_parsed_by_the_grammar(bytes in "[0-9HMSmunx +.\u{e9}-]{0,10}") {
        let is_valid = bytes.is_ascii()
            && (2..=9).contains(&bytes.len())
            && bytes.ends_with(['H', 'M', 'S', 'm', 'u', 'n'])
            && bytes[..bytes.len() - 1].chars().all(|digit| digit.is_ascii_digit());
        prop_assert_eq!(decode(HeaderValue::from_bytes(bytes.as_bytes()).unwrap()).is_some(), is_valid);
    }

    #[test]
    fn digits_and_a_unit_are_always_read(number in 0_u32..100_000_000, unit in "[HMSmun]") {
        let value = format!("{number}{unit}");
        prop_assert!(decode(HeaderValue::from_str(&value).unwrap()).is_some());
    }
}
