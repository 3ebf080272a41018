//! When a limit is reset, in the forms that servers write.

use super::retry_after::date_of;
use core::time::Duration;
use http::HeaderMap;
use std::time::UNIX_EPOCH;

/// The smallest number that is a date: 2001, in seconds of Unix time.
///
/// A smaller number means seconds from now.
const EARLIEST_DATE: u64 = 1_000_000_000;

/// Reads the time until a reset; `None` if it is malformed.
///
/// It is a number of seconds, a date in seconds of Unix time, a date of RFC 3339, or a duration such as `6m0s` or `20ms`.
/// Dates are compared with the response's `Date`, or else with the system's clock. One in the past is zero.
pub(super) fn time_until_reset(value: &str, headers: &HeaderMap) -> Option<Duration> {
    let until = |date: u64| {
        let now = date_of(headers).duration_since(UNIX_EPOCH).unwrap_or_default();
        Duration::from_secs(date.saturating_sub(now.as_secs()))
    };
    match digits(value) {
        Some(seconds @ ..EARLIEST_DATE) => Some(Duration::from_secs(seconds)),
        Some(date) => Some(until(date)),
        None => duration(value).or_else(|| unix_time(value).map(until)),
    }
}

/// Reads a number of digits only, without the sign that `u64` would read.
pub(super) fn digits(value: &str) -> Option<u64> {
    value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.parse().ok()).flatten()
}

/// Reads a duration such as `1h2m3.5s`.
fn duration(value: &str) -> Option<Duration> {
    let (mut rest, mut total) = (value, Duration::ZERO);
    while !rest.is_empty() {
        let end = rest.find(|char: char| char != '.' && !char.is_ascii_digit())?;
        let (number, units) = rest.split_at(end);
        let unit =
            units.find(|char: char| !char.is_ascii_alphabetic() && char != 'µ').map_or(units, |end| &units[..end]);
        rest = &units[unit.len()..];
        let seconds = match unit {
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(part)?;
    }
    (!value.is_empty()).then_some(total)
}

/// Reads a date of RFC 3339 as seconds of Unix time, rounded up.
fn unix_time(value: &str) -> Option<u64> {
    let field = |from: usize, to: usize, range: core::ops::RangeInclusive<u64>| {
        value.get(from..to).and_then(digits).filter(|number| range.contains(number))
    };
    let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    let is_date = separators.iter().all(|&(at, byte)| value.as_bytes().get(at) == Some(&byte));
    let is_date = is_date && matches!(value.as_bytes().get(10), Some(b'T' | b't' | b' '));
    let (year, month, day) = (field(0, 4, 1970..=9999)?, field(5, 7, 1..=12)?, field(8, 10, 1..=31)?);
    let (hour, minute, second) = (field(11, 13, 0..=23)?, field(14, 16, 0..=59)?, field(17, 19, 0..=60)?);
    let mut zone = value.get(19..).filter(|_| is_date)?;
    let mut fraction = 0;
    if let Some(digits) = zone.strip_prefix('.') {
        let end = digits.find(|char: char| !char.is_ascii_digit()).filter(|end| *end > 0)?;
        fraction = u64::from(digits[..end].bytes().any(|byte| byte != b'0'));
        zone = &digits[end..];
    }
    let offset = match zone.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let hours = zone.get(1..3).and_then(digits).filter(|hours| *hours < 24)?;
            let minutes = zone.get(4..6).and_then(digits).filter(|minutes| *minutes < 60)?;
            let offset = (hours * 3_600 + minutes * 60) as i64;
            if *sign == b'+' { -offset } else { offset }
        }
        _ => return None,
    };
    // Years that begin in March have the leap day at their end.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * years + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    (days * 86_400 + hour * 3_600 + minute * 60 + second + fraction).checked_add_signed(offset)
}

#[cfg(test)]
mod tests {
    use super::{duration, unix_time};

    #[test]
    fn durations_have_units() {
        let millis = |value| duration(value).map(|time| time.as_millis());
        for (value, expected) in [("1s", 1_000), ("6m0s", 360_000), ("20ms", 20), ("1h2m3.5s", 3_723_500)] {
            assert_eq!(millis(value), Some(expected), "{value}");
        }
        for value in ["", "s", "1", "1x", "-1s", "1.2.3s", "1s2", "99999999999999999999h", "1e9s"] {
            assert_eq!(duration(value), None, "{value}");
        }
    }

    #[test]
    fn dates_are_those_of_rfc_3339() {
        for (value, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2024-03-01T00:00:00.25+01:00", 1_709_247_601),
            ("2001-09-09t01:46:40z", 1_000_000_000),
        ] {
            assert_eq!(unix_time(value), Some(expected), "{value}");
        }
        for value in ["2024-13-01T00:00:00Z", "2024-01-01T00:00:00", "2024-01-01T00:00:00.Z", "2024/01/01T00:00:00Z"] {
            assert_eq!(unix_time(value), None, "{value}");
        }
    }
}
