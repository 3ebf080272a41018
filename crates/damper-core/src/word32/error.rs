//! Which setting does not fit into 32 bits.

use super::breaker_settings::{MOST_FAILURES, MOST_PROBES};
use super::line::MOST_BURST;
use core::fmt;
use core::time::Duration;

/// Why there is no limiter or breaker of such settings in 32 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Word32Error {
    /// The quota's burst is 2^28 or more.
    Burst(u32),
    /// The consecutive failures that open a breaker are 2^21 or more.
    FailureThreshold(u32),
    /// The probes in flight, or the successes that close a breaker, are more than 31.
    Probes(u32),
    /// The clock's 64 bits wrap within four times the longest cooldown, or the longest time half-open.
    ClockTooFast {
        /// Ticks per second.
        hertz: u64,
        /// The longest time.
        longest: Duration,
    },
    /// A breaker of 32 bits does not have this.
    Unsupported(&'static str),
}

impl fmt::Display for Word32Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Burst(burst) => write!(f, "the burst is {burst}, of 32 bits it must be at most {MOST_BURST}"),
            Self::FailureThreshold(failures) => {
                write!(f, "the failure threshold is {failures}, of 32 bits it must be at most {MOST_FAILURES}")
            }
            Self::Probes(probes) => {
                write!(f, "there are {probes} probes or successes, of 32 bits there must be at most {MOST_PROBES}")
            }
            Self::ClockTooFast { hertz, longest } => write!(
                f,
                "the clock has {hertz} ticks a second, its 64 bits must not wrap within four times {longest:?}"
            ),
            Self::Unsupported(setting) => write!(f, "a breaker of 32 bits has no {setting}"),
        }
    }
}

crate::internal::debug_by_display!(Word32Error);

impl core::error::Error for Word32Error {}
