//! From units of a line back to ticks: how long a wait is.

use crate::clock::{Scale, Ticks};

/// Ticks per unit, and which way a quotient is rounded: `ticks = (units · mult + bias) >> shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) mult: u64,
    pub(super) shift: u32,
    /// Whether a wait that is a whole number of ticks is known to be one, so that the nearest is right.
    pub(super) aligned: bool,
}

impl Pace {
    /// The pace of `scale`, which is `tokens / ticks` in units.
    pub(super) const fn new(scale: Scale, ticks: u128, tokens: u128) -> Self {
        let inverse = scale.inverse();
        // A debt starts at the position of some tick and grows by whole tokens. Where a token takes a whole number of
        // ticks, the debt ends at the position of a tick too. Positions being rounded down, the units between two
        // ticks K apart differ from K · scale by less than one, which is less than half a tick where a tick is more
        // than 2 units: the nearest number of ticks is K. (The margin of 2^-20 covers the rounding of `inverse`.)
        let whole_ticks = tokens != 0 && ticks.is_multiple_of(tokens);
        let units_in_a_tick_exceed_2 = (scale.mult as u128) > (2u128 << scale.shift) + ((2u128 << scale.shift) >> 20);
        Self { mult: inverse.mult, shift: inverse.shift, aligned: whole_ticks && units_in_a_tick_exceed_2 }
    }

    /// The wait until `units` more are there: never too short, and at most a tick too long; the nearest number of ticks
    /// where `to_nearest` says that it is known to be right.
    #[inline]
    pub(super) const fn wait(self, units: u64, to_nearest: bool) -> Ticks {
        if units == 0 {
            return Ticks::ZERO;
        }
        if self.mult == 0 {
            return Ticks::NEVER;
        }
        let bias = if to_nearest { (1u128 << self.shift) >> 1 } else { (1u128 << self.shift) - 1 };
        // Both factors have at most 64 bits, and their product at most 2^128 - 2^65 + 1; the sum may not fit.
        let ticks = (units as u128 * self.mult as u128).saturating_add(bias) >> self.shift;
        if ticks == 0 {
            Ticks::new(1)
        } else if ticks > u64::MAX as u128 {
            Ticks::new(u64::MAX)
        } else {
            Ticks::new(ticks as u64)
        }
    }
}
