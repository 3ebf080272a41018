//! The times of a breaker in few bits: units of a power of two of ticks.
//!
//! So nothing is divided at run time.

use crate::out_of_range::OutOfRange;
use crate::time::Scale;
use core::time::Duration;

/// Times that wrap in `BITS` bits, of which a quarter or less holds the longest duration.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrappingTimes<const BITS: u32> {
    /// A unit is 2^shift ticks; at most 2^(64 - BITS), so that the clock's ticks are whole circles.
    shift: u32,
    /// In units, and a little more.
    longest: u32,
}

impl<const BITS: u32> WrappingTimes<BITS> {
    const MASK: u32 = (1 << BITS) - 1;

    /// For times up to this, on a clock of such a frequency that may step back by so many ticks.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the clock's ticks wrap before these times do: times that the clock never reaches would never pass.
    pub(super) const fn up_to(longest: Duration, hertz: u64, skew: u64) -> Result<Self, OutOfRange> {
        // A quarter of the circle holds the longest duration. In many bits the circle is longer, so that old times are told longer.
        let bits = if BITS - 2 < MOST_BITS { BITS - 2 } else { MOST_BITS };
        if let Err(error) = OutOfRange::check_count("clock", hertz, 0..=most_hertz(longest, u64::BITS - BITS + bits)) {
            return Err(error.note("ticks a second, so that its 64 bits do not wrap within the longest time"));
        }
        let ticks = ticks_in(longest, hertz);
        let mut shift = 0;
        while ticks >> shift >= 1 << bits {
            shift += 1;
        }
        // A step back of the clock counts up to a quarter of the circle.
        let skew = skew >> shift;
        let most = 1 << (BITS - 2);
        Ok(Self { shift, longest: (ticks >> shift) as u32 + 3 + if skew < most { skew as u32 } else { most as u32 } })
    }

    /// A duration in units, rounded up.
    pub(super) const fn units_in(self, duration: Duration, hertz: u64) -> u32 {
        let ticks = ticks_in(duration, hertz);
        // At most a quarter of the circle.
        ((ticks + ((1 << self.shift) - 1)) >> self.shift) as u32
    }

    /// The time so many units after the tick `now`, rounded up.
    pub(super) const fn after(self, now: u64, units: u32) -> u32 {
        ((now.wrapping_add((1 << self.shift) - 1) >> self.shift) as u32).wrapping_add(units) & Self::MASK
    }

    /// The units from the tick `now` to `until`; 0 when that has passed.
    ///
    /// A time further ahead than the longest duration and what the clock may step back has passed long ago.
    pub(super) const fn left(self, until: u32, now: u64) -> u32 {
        let left = until.wrapping_sub((now >> self.shift) as u32) & Self::MASK;
        if left > self.longest { 0 } else { left }
    }

    /// Microseconds per unit, rounded up.
    pub(super) const fn micros(self, hertz: u64) -> Scale {
        // With the bits of a time the product fits 64.
        Scale::ratio_below(1_000_000 << self.shift, hertz as u128, u64::BITS - BITS - 1)
    }
}

/// The most bits of a duration. A unit is then 2^-21 of the longest duration.
const MOST_BITS: u32 = 22;

/// Returns the most ticks a second of a clock on which this duration has so many bits.
const fn most_hertz(duration: Duration, bits: u32) -> u64 {
    let most = match (((1u128 << bits) - 1) * 1_000_000_000).checked_div(duration.as_nanos()) {
        Some(most) => most,
        None => u64::MAX as u128,
    };
    if most > u64::MAX as u128 { u64::MAX } else { most as u64 }
}

const fn ticks_in(duration: Duration, hertz: u64) -> u128 {
    // Below 2^94 · 2^64 only for durations that no breaker has: they are at most 2^43 µs.
    (duration.as_nanos() * hertz as u128).div_ceil(1_000_000_000)
}
