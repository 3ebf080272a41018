//! One decision, and its text form.

use alloc::string::String;
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
/// use damper::decision_log::{Decision, DecisionAnswer};
///
/// let decision = Decision { at: Duration::from_millis(1_500), key: 0xBEEF, cost: 3, answer: DecisionAnswer::Refused };
/// assert_eq!(decision.to_string(), "1500000 beef 3 refused");
/// assert_eq!("1500000 beef 3 refused".parse(), Ok(decision));
/// # Ok::<(), damper::decision_log::ParseDecisionError>(())
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
    /// The answer.
    pub answer: DecisionAnswer,
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum DecisionAnswer {
    /// The call was allowed.
    Allowed,
    /// The call was refused.
    Refused,
}

impl DecisionAnswer {
    /// Returns the answer that a result is, of which an `Err` is a refusal.
    #[inline]
    #[must_use]
    pub const fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() { Self::Allowed } else { Self::Refused }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Refused => "refused",
        }
    }
}

impl fmt::Display for DecisionAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, key, cost, answer } = self;
        write!(f, "{} {key:x} {cost} {answer}", at.as_micros())
    }
}

impl FromStr for Decision {
    type Err = ParseDecisionError;

    fn from_str(text: &str) -> Result<Self, ParseDecisionError> {
        let mut fields = text.split_ascii_whitespace();
        let (Some(at), Some(key), Some(cost), Some(answer), None) =
            (fields.next(), fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(ParseDecisionError::Fields { found: text.split_ascii_whitespace().count() });
        };
        let micros = decimal(at).ok_or_else(|| ParseDecisionError::Time { found: at.into() })?;
        let key = hexadecimal(key).ok_or_else(|| ParseDecisionError::Key { found: key.into() })?;
        let cost = decimal(cost)
            .and_then(|cost| u32::try_from(cost).ok())
            .ok_or_else(|| ParseDecisionError::Cost { found: cost.into() })?;
        let answer = [DecisionAnswer::Allowed, DecisionAnswer::Refused]
            .into_iter()
            .find(|known| known.name() == answer)
            .ok_or_else(|| ParseDecisionError::Answer { found: answer.into() })?;
        Ok(Self { at: Duration::from_micros(micros), key, cost, answer })
    }
}

/// A number of digits only: `u64`'s own parser takes a sign too.
fn decimal(digits: &str) -> Option<u64> {
    if digits.starts_with('+') { None } else { digits.parse().ok() }
}

fn hexadecimal(digits: &str) -> Option<u64> {
    if digits.starts_with('+') { None } else { u64::from_str_radix(digits, 16).ok() }
}

/// Why a text is no [`Decision`].
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParseDecisionError {
    /// The text has not four fields.
    Fields {
        /// How many it has.
        found: usize,
    },
    /// The first field is no time.
    Time {
        /// The field.
        found: String,
    },
    /// The second field is no key.
    Key {
        /// The field.
        found: String,
    },
    /// The third field is no cost.
    Cost {
        /// The field.
        found: String,
    },
    /// The fourth field is no answer.
    Answer {
        /// The field.
        found: String,
    },
}

impl fmt::Display for ParseDecisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fields { found } => {
                write!(f, "the line has {found} fields, a decision has 4: microseconds, key, cost and answer")
            }
            Self::Time { found } => {
                write!(f, "the time is {found:?}, it must be a number of microseconds from 0 to {}", u64::MAX)
            }
            Self::Key { found } => write!(f, "the key is {found:?}, it must be 1 to 16 hexadecimal digits"),
            Self::Cost { found } => write!(f, "the cost is {found:?}, it must be a number from 0 to {}", u32::MAX),
            Self::Answer { found } => write!(f, "the answer is {found:?}, it must be allowed or refused"),
        }
    }
}

crate::internal::debug_by_display!(ParseDecisionError);

impl core::error::Error for ParseDecisionError {}
