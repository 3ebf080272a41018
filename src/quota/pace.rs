//! From units of a line back to ticks: how long a wait is.

use crate::clock::{Scale, Ticks};

/// Ticks per unit, rounded up: `ticks = units · mult >> shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) mult: u64,
    pub(super) shift: u32,
}

impl Pace {
    /// The pace of `scale`.
    pub(super) const fn new(scale: Scale) -> Self {
        let inverse = scale.inverse();
        Self { mult: inverse.mult, shift: inverse.shift }
    }

    /// The fewest ticks that bring `units`, counted from a reading that is `part` past its position: parts of a unit, as
    /// `scale` has them.
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
        // Both factors have at most 64 bits, and their product at most 2^128 - 2^65 + 1. A part is less than a unit, so the
        // difference is not negative; the sum may not fit.
        let passed = (part as u128 * self.mult as u128) >> scale.shift;
        let ticks =
            (units as u128 * self.mult as u128 - passed).saturating_add((1u128 << self.shift) - 1) >> self.shift;
        let ticks = if ticks > u64::MAX as u128 { u64::MAX } else { ticks as u64 };
        // `mult` is rounded up, and so the result may be one too many. Below 2^126 and 2^127.
        let is_one_less_enough =
            ticks > 1 && (ticks - 1) as u128 * scale.mult as u128 + part as u128 >= (units as u128) << scale.shift;
        Ticks::new(if is_one_less_enough { ticks - 1 } else { ticks })
    }
}
