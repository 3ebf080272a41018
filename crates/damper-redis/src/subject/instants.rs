//! A clock's ticks in microseconds, and back.

use damper_core::Clock;

/// Converts between ticks of a clock and microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instants {
    frequency: u64,
}

impl Instants {
    pub(super) fn of(clock: &impl Clock) -> Self {
        Self { frequency: clock.frequency().max(1) }
    }

    /// The microseconds from the clock's tick 0 to this one, rounded down; at most 2^64 - 1.
    pub(super) fn micros(self, tick: u64) -> u64 {
        let micros = u128::from(tick) * 1_000_000 / u128::from(self.frequency);
        u64::try_from(micros).unwrap_or(u64::MAX)
    }

    /// So many microseconds in ticks, rounded down; at most 2^62, so that ends lie ahead.
    pub(super) fn ticks(self, micros: u64) -> u64 {
        let ticks = u128::from(micros) * u128::from(self.frequency) / 1_000_000;
        // The smaller of the two fits.
        ticks.min(1 << 62) as u64
    }
}
