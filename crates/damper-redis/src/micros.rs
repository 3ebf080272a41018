//! Times in microseconds: a clock that counts in them, and conversions.

use core::time::Duration;
use damper_core::Clock;

/// A clock whose ticks are microseconds, for answers that are computed elsewhere.
///
/// Only its frequency is read.
pub(crate) struct MicrosClock;

impl Clock for MicrosClock {
    fn now(&self) -> u64 {
        0
    }

    fn frequency(&self) -> u64 {
        1_000_000
    }
}

/// Converts between ticks of a clock and microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickScale {
    frequency: u64,
}

impl TickScale {
    /// Creates the scale of `clock`.
    pub(crate) fn of(clock: &impl Clock) -> Self {
        Self { frequency: clock.frequency().max(1) }
    }

    /// Returns the microseconds from tick 0 to `tick`, rounded down; at most 2^64 - 1.
    pub(crate) fn micros(self, tick: u64) -> u64 {
        let micros = u128::from(tick) * 1_000_000 / u128::from(self.frequency);
        u64::try_from(micros).unwrap_or(u64::MAX)
    }

    /// Returns the ticks in `micros` microseconds, rounded down.
    ///
    /// At most 2^62, so that a time in the future stays in the future when it is added to the clock.
    pub(crate) fn ticks(self, micros: u64) -> u64 {
        let ticks = u128::from(micros) * u128::from(self.frequency) / 1_000_000;
        // The smaller of the two fits.
        ticks.min(1 << 62) as u64
    }
}

/// Returns the microseconds of `duration`, rounded down; at most 2^64 - 1.
pub(crate) fn micros_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
