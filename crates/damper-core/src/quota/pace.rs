//! From units of a line back to ticks: how long a wait is.

use crate::time::{Scale, Ticks};

/// Ticks per unit, rounded up: `ticks = units · mult >> shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) mult: u64,
    pub(super) shift: u32,
}

/// The longest wait that ends.
const LONGEST: u64 = u64::MAX - 1;

impl Pace {
    /// The pace of `scale`.
    pub(super) const fn new(scale: Scale) -> Self {
        let inverse = scale.inverse();
        Self { mult: inverse.mult, shift: inverse.shift }
    }

    /// The fewest ticks that bring `units`, counted from a reading that lies `part` past its position, in 2^-64 units.
    ///
    /// Exact for waits of up to 2^62 ticks, where a unit is no longer than that. Beyond, a wait may be too long, but never
    /// too short.
    #[inline]
    pub(super) const fn wait(self, units: u64, part: u64, scale: Scale) -> Ticks {
        if units == 0 {
            return Ticks::ZERO;
        }
        if self.mult == 0 {
            return Ticks::NEVER;
        }
        // Below 2^128; and a part is less than a unit.
        let passed = (part as u128 * self.mult as u128) >> u64::BITS;
        let ticks = (units as u128 * self.mult as u128 - passed) >> self.shift;
        if ticks >= LONGEST as u128 {
            return Ticks::new(LONGEST);
        }
        // `mult` is rounded up, by what is less than a tick in all: the result is enough, or one too few.
        let ticks = ticks as u64;
        Ticks::new(if scale.brings(ticks, units, part) { ticks } else { ticks + 1 })
    }
}
