//! Why a call was not made, or failed.

use core::fmt;

/// The refusal of a throttle: the call was not made, because the service rejects most calls.
///
/// Displayed as a sentence: `throttled, 87 % of the calls are not sent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Throttled {
    /// In ten-thousandths.
    refused: u32,
}

impl Throttled {
    pub(super) fn new(refused: u64) -> Self {
        // At most 10,000.
        Self { refused: refused as u32 }
    }

    /// Returns the share of the calls that the throttle refused at that moment, 0.0 to 0.99.
    #[must_use]
    pub fn share_refused(&self) -> f64 {
        f64::from(self.refused) / 10_000.0
    }
}

impl fmt::Display for Throttled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "throttled, {} % of the calls are not sent", self.refused.div_ceil(100))
    }
}

impl core::error::Error for Throttled {}

/// Why a call through a throttle did not succeed: it was refused, or made and failed.
///
/// Displayed, it says which of the two it was; why is its `source()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ThrottleError<E> {
    /// The call was not made.
    Throttled(Throttled),
    /// The call was made, and failed with this error.
    Failed(E),
}

impl<E> From<Throttled> for ThrottleError<E> {
    fn from(throttled: Throttled) -> Self {
        Self::Throttled(throttled)
    }
}

impl<E> fmt::Display for ThrottleError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Throttled(_) => "call refused by the throttle",
            Self::Failed(_) => "call failed",
        })
    }
}

impl<E: core::error::Error + 'static> core::error::Error for ThrottleError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Throttled(throttled) => Some(throttled),
            Self::Failed(error) => Some(error),
        }
    }
}

/// The multiplier of a throttle was refused: it is not in 1.0..=10.0.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MultiplierError(pub(super) f64);

impl fmt::Display for MultiplierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "multiplier is {:?}, it must be 1.0 to 10.0", self.0)
    }
}

impl core::error::Error for MultiplierError {}
