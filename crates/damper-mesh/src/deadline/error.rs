//! Why a deadline could not be read.

use std::error::Error;
use std::fmt;

/// Why a deadline could not be read.
///
/// Displayed as `deadline: value is -5, it must be a whole number of at least 1`.
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadlineError {
    /// The options are no object with these members.
    Missing {
        /// The missing member.
        member: &'static str,
    },
    /// The value is not a whole number, or is less than 1.
    Value {
        /// The value as JSON, shortened if it is long.
        value: String,
    },
    /// The unit is unknown.
    Unit {
        /// The unit as JSON, shortened if it is long.
        unit: String,
    },
    /// The value's milliseconds do not fit 64 bits.
    TooLong {
        /// The value.
        value: u64,
        /// The largest value of this unit.
        most: u64,
    },
    /// The value is not an ISO 8601 instant.
    Instant {
        /// The value as JSON, shortened if it is long.
        value: String,
    },
    /// The request has more than one deadline.
    Repeated,
}

impl fmt::Display for DeadlineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline: ")?;
        match self {
            Self::Missing { member } => write!(f, "{member} is missing"),
            Self::Value { value } => write!(f, "value is {value}, it must be a whole number of at least 1"),
            Self::Unit { unit } => {
                write!(f, "unit is {unit}, it must be millisecond, second, minute, hour or iso8601")
            }
            Self::TooLong { value, most } => write!(f, "value {value} exceeds the maximum {most} of its unit"),
            Self::Instant { value } => {
                write!(f, "value is {value}, it must be an instant of ISO 8601, such as 2024-03-15T14:30:00Z")
            }
            Self::Repeated => f.write_str("the extension is repeated"),
        }
    }
}

damper_core::internal::debug_by_display!(DeadlineError);

impl Error for DeadlineError {}
