//! The unit in which the log has its times.

use crate::sync::{AtomicU32, Ordering, const_unless_loom};
use crate::time::Clock;
use core::time::Duration;

/// Marks the shift as computed.
const READY: u32 = 1 << 8;

/// A power of two of ticks, the largest that lasts no longer than a microsecond, or one tick.
///
/// So a time is written with a shift, and only readers divide. It is computed at first use, so that the owner can be a
/// `static`.
#[derive(Debug)]
pub(super) struct LazyTimeUnit(AtomicU32);

impl LazyTimeUnit {
    const_unless_loom! {
        pub(super) const fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// Reads `clock`, which must be the same one at every call, in units.
    #[inline]
    pub(super) fn now(&self, clock: &impl Clock) -> u64 {
        clock.now() >> self.shift(clock)
    }

    /// Returns the time since the clock's origin, rounded down to whole microseconds.
    pub(super) fn duration(&self, units: u64, clock: &impl Clock) -> Duration {
        // Below 2^112: units have 48 bits, and a shift is less than 64.
        let ticks = u128::from(units) << self.shift(clock);
        let frequency = u128::from(clock.frequency().max(1));
        let (seconds, rest) = (ticks / frequency, ticks % frequency);
        // The rest is below 2^64.
        let micros = seconds * 1_000_000 + rest * 1_000_000 / frequency;
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    #[inline]
    fn shift(&self, clock: &impl Clock) -> u32 {
        // ORDERING: Relaxed: the word is the whole value, and every first user computes the same one.
        // loom-tests: decision_log::entry_is_read_whole.
        match self.0.load(Ordering::Relaxed) {
            0 => self.compute(clock),
            word => word % READY % u64::BITS,
        }
    }

    #[cold]
    fn compute(&self, clock: &impl Clock) -> u32 {
        let ticks = clock.frequency() / 1_000_000;
        let shift = ticks.checked_ilog2().unwrap_or(0);
        // ORDERING: Relaxed, as in `shift`.
        self.0.store(READY | shift, Ordering::Relaxed);
        shift
    }
}
