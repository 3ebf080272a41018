//! Why an option of a strategy was refused.

use crate::time::Human;
use core::fmt;
use core::time::Duration;

/// The option of a strategy that was refused, with its value.
#[derive(Clone, Copy, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PacingError {
    /// The multiplier is not in 1.0..=10.0.
    Multiplier(f64),
    /// The divisor is 0.
    Divisor,
    /// The cap is not in 1 µs..=1 day.
    Cap(Duration),
    /// The start is longer than the cap.
    Start {
        /// The start.
        start: Duration,
        /// The cap.
        cap: Duration,
    },
}

impl fmt::Display for PacingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Multiplier(multiplier) => write!(f, "multiplier is {multiplier:?}, it must be 1.0 to 10.0"),
            Self::Divisor => f.write_str("divisor is 0, it must be at least 1"),
            Self::Cap(cap) => write!(f, "cap is {cap:?}, it must be 1 µs to 1 day"),
            Self::Start { start, cap } => {
                write!(f, "start is {}, it must be at most the cap of {}", Human(*start), Human(*cap))
            }
        }
    }
}

crate::internal::debug_by_display!(PacingError);

impl core::error::Error for PacingError {}
