//! The text form of a quota: `100/s`, `5000/h burst 100`, `30/min burst 5 max_debt 50`, `unlimited`.
//!
//! ```text
//! quota   = "unlimited" | limit "/" window [" burst " number] [" max_debt " number]
//! window  = [number ["." digits]] unit
//! unit    = "ns" | "us" | "µs" | "ms" | "s" | "min" | "h" | "day" | "week", or another name of these
//! ```
//!
//! The other names are usual in configuration files: `sec`, `seconds`, `m`, `minute`, `hours`, `d` and so on.
//!
//! White space separates the parts of the text, and is not allowed within a part. `burst` and `max_debt` may come in
//! either order.

use super::Quota;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
    ("day", 86_400 * 1_000_000_000),
];

/// The main name of each unit, followed by the other names that are usual in configuration files.
const OTHER_NAMES: [(&str, &[&str]); 8] = [
    ("ns", &["nsec", "nanos"]),
    ("us", &["usec"]),
    ("ms", &["msec", "millis"]),
    ("s", &["sec", "secs", "second", "seconds"]),
    ("min", &["m", "mins", "minute", "minutes"]),
    ("h", &["hr", "hrs", "hour", "hours"]),
    ("day", &["d", "days"]),
    ("week", &["w", "wk", "wks", "weeks"]),
];

const WEEK: u64 = 7 * 86_400 * 1_000_000_000;

/// Returns the length of a unit in nanoseconds, or `None` if no unit has this name.
fn nanos_of(unit: &str) -> Option<u64> {
    let other = OTHER_NAMES.iter().find(|(_, names)| names.contains(&unit));
    let unit = other.map_or(unit, |(name, _)| name);
    if unit == "week" {
        return Some(WEEK);
    }
    UNITS.iter().find(|(name, _)| *name == unit).map(|(_, nanos)| *nanos)
}

/// The reason why a text is not a [`Quota`].
///
/// In each variant, `at` is the position of the offending part, in bytes from the start of the text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ParseQuotaError {
    /// A whole number was expected: the limit, a burst or a `max_debt`.
    ExpectedNumber {
        /// The byte offset at which the number was expected.
        at: usize,
    },
    /// The limit, a burst or a `max_debt` is larger than 4294967295.
    NumberTooLarge {
        /// The byte offset at which the number starts.
        at: usize,
    },
    /// The slash between limit and window is missing.
    ExpectedSlash {
        /// The byte offset at which the slash was expected.
        at: usize,
    },
    /// The unit of the window, such as `ms` or `h`, is missing or unknown.
    UnknownUnit {
        /// The byte offset at which the unit was expected.
        at: usize,
    },
    /// The length of the window is not a decimal number, or not a whole number of nanoseconds.
    InexactWindow {
        /// The byte offset at which the window starts.
        at: usize,
    },
    /// The text has something other than `burst` or `max_debt` where only one of these may follow.
    UnknownSetting {
        /// The byte offset at which the setting was expected.
        at: usize,
    },
    /// The text has `burst` or `max_debt` twice.
    RepeatedSetting {
        /// The byte offset at which the setting is named again.
        at: usize,
    },
    /// The window is zero.
    ZeroWindow {
        /// The byte offset at which the window starts.
        at: usize,
    },
    /// The window is longer than 2^64 - 1 nanoseconds (584 years).
    WindowTooLong {
        /// The byte offset at which the window starts.
        at: usize,
    },
}

impl fmt::Display for ParseQuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, expected) = match *self {
            Self::ExpectedNumber { at } => (at, "expected a whole number"),
            Self::NumberTooLarge { at } => (at, "the number exceeds the maximum 4294967295"),
            Self::ExpectedSlash { at } => (at, "expected a slash between limit and window, as in 100/s"),
            Self::UnknownUnit { at } => {
                (at, "expected a unit of time: ns, us, ms, s, min, h, day, or a name such as minute")
            }
            Self::InexactWindow { at } => (at, "expected a window such as 250ms or 1.5s, in whole nanoseconds"),
            Self::UnknownSetting { at } => (at, "expected burst or max_debt, as in 100/s burst 200"),
            Self::RepeatedSetting { at } => (at, "the setting is there already"),
            Self::ZeroWindow { at } => (at, "the window is zero, it must be at least 1 ns"),
            Self::WindowTooLong { at } => (at, "the window exceeds the maximum of 2^64 - 1 ns (584 years)"),
        };
        write!(f, "at byte {at}: {expected}")
    }
}

crate::internal::debug_by_display!(ParseQuotaError);

impl core::error::Error for ParseQuotaError {}

/// Reads the text form that `Display` writes, such as `100/s`, `5000/h burst 100` or `unlimited`.
///
/// The burst defaults to the limit, and `max_debt` to ten bursts. A window is a unit (`ns`, `us`, `ms`, `s`, `min`,
/// `h`, `day`, `week`) or a decimal number of units, such as `250ms` or `1.5s`. Other names of units that are usual in
/// configuration files are accepted too: `600/minute`, `600/m`, `5000/hour`.
///
/// # Errors
///
/// [`ParseQuotaError`], which names the position of the error and what was expected there.
impl FromStr for Quota {
    type Err = ParseQuotaError;

    fn from_str(text: &str) -> Result<Self, ParseQuotaError> {
        let mut parts = TextParts { text, at: 0 };
        let (at, rate) = parts.next();
        let mut quota = if rate == "unlimited" { Self::UNLIMITED } else { parse_rate(at, rate)? };
        let (mut burst, mut max_debt) = (None, None);
        loop {
            let (at, name) = parts.next();
            let setting = match name {
                "" => break,
                "burst" => &mut burst,
                "max_debt" => &mut max_debt,
                _ => return Err(ParseQuotaError::UnknownSetting { at }),
            };
            if setting.is_some() {
                return Err(ParseQuotaError::RepeatedSetting { at });
            }
            let (at, number) = parts.next();
            *setting = Some(parse_number(at, number)?);
        }
        if let Some(burst) = burst {
            quota = quota.burst(burst);
        }
        if let Some(max_debt) = max_debt {
            quota = quota.max_debt(max_debt);
        }
        Ok(quota)
    }
}

/// Splits a text at white space into parts, and returns each part with its position in bytes.
struct TextParts<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> TextParts<'a> {
    /// Returns the next part and its position. At the end of the text it returns an empty part.
    fn next(&mut self) -> (usize, &'a str) {
        let rest = &self.text[self.at..];
        let start = self.at + (rest.len() - rest.trim_start().len());
        let rest = &self.text[start..];
        let part = &rest[..rest.find(char::is_whitespace).unwrap_or(rest.len())];
        self.at = start + part.len();
        (start, part)
    }
}

/// Reads `LIMIT/WINDOW`. `at` is the position of `rate` in the whole text, for errors.
fn parse_rate(at: usize, rate: &str) -> Result<Quota, ParseQuotaError> {
    let digits = leading_digits(rate);
    let limit = parse_number(at, digits)?;
    let at = at + digits.len();
    let window = rate[digits.len()..].strip_prefix('/').ok_or(ParseQuotaError::ExpectedSlash { at })?;
    let window = parse_window(at + 1, window)?;
    // `parse_window` has refused windows that are too long, so only a window of zero is refused here.
    Quota::per(limit, window).map_err(|_| ParseQuotaError::ZeroWindow { at: at + 1 })
}

/// Reads a window: a unit, or a decimal number of units. `at` is the position of `text`, for errors.
fn parse_window(at: usize, text: &str) -> Result<Duration, ParseQuotaError> {
    let number = &text[..text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len())];
    let unit = &text[number.len()..];
    let Some(nanos) = nanos_of(unit) else {
        return Err(ParseQuotaError::UnknownUnit { at: at + number.len() });
    };
    if number.is_empty() {
        return Ok(Duration::from_nanos(nanos));
    }
    let inexact = ParseQuotaError::InexactWindow { at };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    // If a fraction of a unit is a whole number of nanoseconds, it has at most 16 digits: a week has 16 factors 2 in
    // nanoseconds, and fewer factors 5.
    if number.starts_with('.') || number.ends_with('.') || fraction.contains('.') || fraction.len() > 16 {
        return Err(inexact);
    }
    // 2^64 has 20 digits, so a longer number is too long in any unit.
    let too_long = ParseQuotaError::WindowTooLong { at };
    if whole.len() > 20 {
        return Err(too_long);
    }
    // The digits of `whole` are below 10^20 and those of `fraction` below 10^16, so both numbers fit a `u128`.
    let value = |digits: &str| digits.bytes().fold(0, |value, digit| value * 10 + u128::from(digit - b'0'));
    let scale = 10u128.pow(fraction.len() as u32);
    let part = value(fraction) * u128::from(nanos);
    if part % scale != 0 {
        return Err(inexact);
    }
    // The product is below 10^20 * 2^50, which fits a `u128`.
    let nanos = value(whole) * u128::from(nanos) + part / scale;
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| too_long)
}

fn leading_digits(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())]
}

/// Reads a whole number. `at` is the position of `digits` in the whole text, for errors.
fn parse_number(at: usize, digits: &str) -> Result<u32, ParseQuotaError> {
    if digits.is_empty() || leading_digits(digits) != digits {
        return Err(ParseQuotaError::ExpectedNumber { at });
    }
    digits.parse().map_err(|_| ParseQuotaError::NumberTooLarge { at })
}

/// Writes the text form: limit, window and burst, and `max_debt` if it was set.
///
/// [`FromStr`] parses this text back to the same quota.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_unlimited() {
            write!(f, "{} burst {}", self.rate(self.limit()), self.burst_size())?;
        } else if self.burst_size() == Self::UNLIMITED.burst_size() {
            f.write_str("unlimited")?;
        } else {
            write!(f, "unlimited burst {}", self.burst_size())?;
        }
        match self.own_max_debt() {
            Some(max_debt) => write!(f, " max_debt {max_debt}"),
            None => Ok(()),
        }
    }
}

/// A limit per window, written as in a quota's text form, without `burst` and `max_debt`.
pub(super) struct Rate {
    pub(super) limit: u32,
    pub(super) window: Duration,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.limit)?;
        let nanos = self.window.as_nanos();
        match UNITS[4..].iter().find(|&&(_, unit)| u128::from(unit) == nanos) {
            Some((name, _)) => f.write_str(name),
            // The `Debug` form of a `Duration` is exact. `Human`, which writes waits in messages, would round.
            None => write!(f, "{:?}", self.window),
        }
    }
}

/// Serializes the text form, such as `"100/s burst 200"`.
#[cfg(feature = "serde")]
impl serde::Serialize for Quota {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Deserializes the text form, such as `"100/s burst 200"`.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Quota {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl serde::de::Visitor<'_> for Text {
            type Value = Quota;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quota such as \"100/s\" or \"5000/h burst 100\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quota, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Text)
    }
}
