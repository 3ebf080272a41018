//! One decision, and its text form.

use crate::InvalidText;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// One decision of a limiter.
///
/// Its text form is a line of the time in microseconds, the key in hexadecimal, the cost, and the answer. [`FromStr`] reads what `Display`
/// writes.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::decision_log::Decision;
///
/// let decision = Decision { at: Duration::from_millis(1_500), key: 0xBEEF, cost: 3, is_allowed: false };
/// assert_eq!(decision.to_string(), "1500000 beef 3 refused");
/// assert_eq!("1500000 beef 3 refused".parse(), Ok(decision));
/// # Ok::<(), damper::InvalidText>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Decision {
    /// The time of the decision, since the origin of the log's clock, in microseconds.
    ///
    /// It may be early by less than two microseconds, and wraps after four years at least.
    pub at: Duration,
    /// The lowest 48 bits of the key's hash; 0 of a limiter without keys.
    pub key: u64,
    /// The tokens that the call asked for.
    pub cost: u32,
    /// Whether the call was allowed, and not refused.
    pub is_allowed: bool,
}

/// The two answers, as texts.
const ALLOWED: &str = "allowed";
const REFUSED: &str = "refused";

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, key, cost, is_allowed } = self;
        let answer = if *is_allowed { ALLOWED } else { REFUSED };
        write!(f, "{} {key:x} {cost} {answer}", at.as_micros())
    }
}

impl FromStr for Decision {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let mut fields = text.split_ascii_whitespace();
        let (Some(at), Some(key), Some(cost), Some(answer), None) =
            (fields.next(), fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(InvalidText::new("the decision", text, "of 4 fields: microseconds, key, cost and answer"));
        };
        let wrong = |setting, value, allowed| move || InvalidText::new(setting, value, allowed);
        let micros =
            decimal(at).ok_or_else(wrong("the time", at, "a number of microseconds from 0 to 18446744073709551615"))?;
        let key = hexadecimal(key).ok_or_else(wrong("the key", key, "1 to 16 hexadecimal digits"))?;
        let cost = decimal(cost).and_then(|cost| u32::try_from(cost).ok()).ok_or_else(wrong(
            "the cost",
            cost,
            "a number from 0 to 4294967295",
        ))?;
        let is_allowed = match answer {
            ALLOWED => true,
            REFUSED => false,
            other => return Err(InvalidText::new("the answer", other, "allowed or refused")),
        };
        Ok(Self { at: Duration::from_micros(micros), key, cost, is_allowed })
    }
}

/// A number of digits only: `u64`'s own parser takes a sign too.
fn decimal(digits: &str) -> Option<u64> {
    if digits.starts_with('+') { None } else { digits.parse().ok() }
}

fn hexadecimal(digits: &str) -> Option<u64> {
    if digits.starts_with('+') { None } else { u64::from_str_radix(digits, 16).ok() }
}
