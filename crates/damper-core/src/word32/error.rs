//! Which setting does not fit into 32 bits.

use crate::out_of_range::OutOfRange;
use core::fmt;
use core::time::Duration;

/// Why there is no limiter or breaker of such settings in 32 bits, or in a word that the program owns.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Word32Error {
    /// A setting does not fit.
    ///
    /// A burst must be below 2^28, a failure threshold below 2^21, and the probes and successes of a breaker at most 31.
    OutOfRange(OutOfRange),
    /// The clock's 64 bits wrap within four times the longest cooldown, or the longest time half-open.
    ClockTooFast {
        /// Ticks per second.
        hertz: u64,
        /// The longest time.
        longest: Duration,
    },
    /// A breaker in one word does not have this setting.
    Unsupported(&'static str),
}

impl fmt::Display for Word32Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange(error) => error.fmt(f),
            Self::ClockTooFast { hertz, longest } => write!(
                f,
                "the clock has {hertz} ticks a second, its 64 bits must not wrap within four times {longest:?}"
            ),
            Self::Unsupported(setting) => write!(f, "a breaker in one word has no {setting}"),
        }
    }
}

crate::internal::debug_by_display!(Word32Error);

/// Checks that a setting fits into 32 bits.
pub(super) const fn check_fits(setting: &'static str, value: u32, most: u32) -> Result<(), Word32Error> {
    match OutOfRange::check_count(setting, value as u64, 0..=most as u64) {
        Ok(()) => Ok(()),
        Err(error) => Err(Word32Error::OutOfRange(error.note("(in 32 bits)"))),
    }
}

impl core::error::Error for Word32Error {}
