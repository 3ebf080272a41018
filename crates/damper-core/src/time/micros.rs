//! Microseconds on any clock.

use super::{Clock, Scale};
use crate::sync::{AtomicU64, Field, Ordering, const_unless_loom};
use core::time::Duration;

/// The conversion of a clock's ticks to microseconds.
///
/// ```text
///  63  8 7     7 6     0
/// | MULT | READY | SHIFT |
/// ```
const SHIFT: Field = Field::lowest(7);
const READY: Field = SHIFT.then(1);
const MULT: Field = READY.then(56);
const _: () = assert!(MULT.end() == u64::BITS, "fields must tile the word");

/// Reads a clock in microseconds.
///
/// The conversion is computed at first use, so that the owner can be a `static`.
///
/// The clock stands beside it and not inside, which would cost its owner padding on targets of 32 bits.
#[derive(Debug)]
pub(crate) struct LazyMicros(AtomicU64);

/// A reading of a clock by [`LazyMicros`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MicrosReading {
    pub(crate) micros: u64,
    /// By how much it may precede an earlier reading, in microseconds.
    pub(crate) skew: u64,
}

impl LazyMicros {
    const_unless_loom! {
        pub(crate) const fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    /// Reads `clock`, which must be the same one at every call.
    pub(crate) fn read(&self, clock: &impl Clock) -> MicrosReading {
        let micros = self.conversion(clock);
        let skew = micros.of_ticks(clock.max_step_back()).saturating_add(1);
        MicrosReading { micros: micros.at_tick(clock.now()), skew }
    }

    #[inline]
    fn conversion(&self, clock: &impl Clock) -> Micros {
        // ORDERING: Relaxed: the word is the whole value, and every first user computes the same one.
        match self.0.load(Ordering::Relaxed) {
            0 => self.compute(clock),
            word => Micros(Scale { mult: MULT.get(word), shift: SHIFT.get(word) as u32 }),
        }
    }

    #[cold]
    fn compute(&self, clock: &impl Clock) -> Micros {
        // One bit less than the field has, because rounding up may reach the next power of two.
        let scale = Scale::ratio_below(1_000_000, clock.frequency().into(), 55);
        // ORDERING: Relaxed, as in `conversion`; one store, because another thread takes any word but 0 for the whole
        // value. loom-tests: clock::concurrent_first_uses_agree_on_tick_length.
        self.0.store(READY.put(1) | SHIFT.put(scale.shift.into()) | MULT.put(scale.mult), Ordering::Relaxed);
        Micros(scale)
    }
}

/// Converts ticks to microseconds, rounded down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Micros(Scale);

impl Micros {
    /// The time of a reading.
    ///
    /// It wraps: a slow clock may count more than 2^64 microseconds, and time must go on.
    #[inline]
    const fn at_tick(self, tick: u64) -> u64 {
        self.0.wrapping_units(tick)
    }

    /// How long so many ticks last; at most 2^64 - 1.
    #[inline]
    const fn of_ticks(self, ticks: u64) -> u64 {
        self.0.saturating_units(ticks)
    }

    /// Microseconds in a duration, rounded up; at most 2^64 - 1.
    pub(crate) const fn of_duration(duration: Duration) -> u64 {
        let micros = duration.as_nanos().div_ceil(1_000);
        if micros > u64::MAX as u128 { u64::MAX } else { micros as u64 }
    }
}
